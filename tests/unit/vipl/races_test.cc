// Threads that do what they like with the same objects while others destroy them. Results do not matter: no thread may
// crash, hang, or get another's descriptor. Worth most when built with -fsanitize=thread and -fsanitize=address.
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/vipl/fixture.h"

namespace viaduct::test {
namespace {

// Packets that are not posted. Those on queues that were destroyed never come back.
class Packets {
 public:
  explicit Packets(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) free_.push_back(i);
  }
  bool take(std::size_t& packet) {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return false;
    packet = free_.back();
    free_.pop_back();
    return true;
  }
  void give(std::size_t packet) {
    std::lock_guard lock(mutex_);
    free_.push_back(packet);
  }

 private:
  std::mutex mutex_;
  std::vector<std::size_t> free_;
};

class ViplRaces : public ViplTest {
 protected:
  static constexpr std::size_t kShared = 6;  // handles of each kind that all threads see

  struct World {
    std::array<std::atomic<VIP_VI_HANDLE>, kShared> vis{};
    std::array<std::atomic<VIP_CQ_HANDLE>, kShared> cqs{};
    std::array<std::atomic<VIP_CONN_HANDLE>, kShared> connections{};
    std::atomic<VIP_NIC_HANDLE> nic{nullptr};
    std::atomic<VIP_MEM_HANDLE> memory{0};
    std::atomic<unsigned> calls{0};
    std::atomic<unsigned> posted{0}, back{0};
    ViplRaces* test = nullptr;
    Packets* packets = nullptr;
    // Which packets are posted: each comes back once.
    std::array<std::atomic<bool>, kPackets> out{};

    void returned(VIP_DESCRIPTOR* d) {
      if (d == nullptr) return;
      const auto i = static_cast<std::size_t>(reinterpret_cast<Packet*>(d) - test->arena.get());
      ASSERT_LT(i, kPackets);
      ASSERT_TRUE(out[i].exchange(false)) << "a descriptor came back twice";
      ++back;
      packets->give(i);
    }
  };

  static void on_vi(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_DESCRIPTOR* d) {
    World& world = *static_cast<World*>(context);
    world.returned(d);
    if (++world.calls % 3 == 0) VipRecvNotify(vi, context, on_vi);
    if (world.calls % 7 == 0) VipDisconnect(vi);
  }
  static void on_cq(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_BOOLEAN receive) {
    World& world = *static_cast<World*>(context);
    ++world.calls;
    VIP_DESCRIPTOR* d = nullptr;
    receive ? VipRecvDone(vi, &d) : VipSendDone(vi, &d);
    world.returned(d);
  }
  static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
    World& world = *static_cast<World*>(context);
    ++world.calls;
    VipDisconnect(error->ViHandle);
    VipErrorCallback(error->NicHandle, context, world.calls % 2 != 0 ? on_error : nullptr);
  }

  void post(World& world, VIP_VI_HANDLE vi, bool receive) {
    std::size_t i;
    if (!world.packets->take(i)) return;
    VIP_DESCRIPTOR* const d = packet(i, 64);
    d->DS[0].Local.Handle = world.memory;
    world.out[i] = true;
    const VIP_RETURN result = receive ? VipPostRecv(vi, d, d->DS[0].Local.Handle)
                                      : VipPostSend(vi, d, d->DS[0].Local.Handle);
    if (result == VIP_SUCCESS) {
      ++world.posted;
    } else {
      world.out[i] = false;
      world.packets->give(i);
    }
  }

  // One call of a function, on objects picked at random.
  void act(World& world, std::mt19937& random) {
    const auto pick = [&] { return random() % kShared; };
    const VIP_NIC_HANDLE its_nic = world.nic;
    const std::size_t place = pick();
    std::atomic<VIP_VI_HANDLE>& vi_slot = world.vis[place];
    std::atomic<VIP_CQ_HANDLE>& cq_slot = world.cqs[pick()];
    const VIP_VI_HANDLE vi = vi_slot;
    const VIP_CQ_HANDLE cq = cq_slot;
    VIP_VI_ATTRIBUTES a = attributes();
    VIP_DESCRIPTOR* d = nullptr;
    VIP_VI_HANDLE whose;
    VIP_BOOLEAN flag, other;
    VIP_VI_STATE state;
    alignas(8) unsigned char here[128] = {}, there[128] = {};
    auto* const local = reinterpret_cast<VIP_NET_ADDRESS*>(here);
    auto* const remote = reinterpret_cast<VIP_NET_ADDRESS*>(there);
    // Requests of a VI are for the one beside it in the table, or for any waiter at its number.
    for (const auto& [address, number] : {std::pair{local, place}, std::pair{remote, place ^ 1}}) {
      address->HostAddressLen = sizeof kNicAddress;
      address->DiscriminatorLen = 1;
      std::memcpy(address->HostAddress, kNicAddress, sizeof kNicAddress);
      address->HostAddress[sizeof kNicAddress] = static_cast<VIP_UINT8>(number);
    }
    VIP_CONN_HANDLE connection = world.connections[pick()];
    switch (random() % 40) {
      case 0:
      case 1:
      case 2: {
        VIP_VI_HANDLE made;
        if (VipCreateVi(its_nic, &a, world.cqs[pick()], cq, &made) != VIP_SUCCESS) break;
        // The thread that pushes a VI out of the table destroys it.
        const VIP_VI_HANDLE old = vi_slot.exchange(made);
        VipDisconnect(old);
        VipDestroyVi(old);
        break;
      }
      case 3:
        VipDisconnect(vi);
        VipDestroyVi(vi);
        break;
      case 4: {
        VIP_CQ_HANDLE made;
        if (VipCreateCQ(its_nic, 16, &made) == VIP_SUCCESS) VipDestroyCQ(cq_slot.exchange(made));
        break;
      }
      case 5:
        VipDestroyCQ(cq);
        break;
      case 6:
      case 7:
        VipConnectPeerRequest(vi, local, remote, 10);
        random() % 2 != 0 ? VipConnectPeerWait(vi, &a) : VipConnectPeerDone(vi, &a);
        break;
      case 8:
        VipConnectRequest(vi, local, remote, 10, &a);
        break;
      case 9:
        VipDisconnect(vi);
        break;
      case 10:
      case 11:
      case 12:
      case 13:
        post(world, vi, true);
        break;
      case 14:
      case 15:
      case 16:
      case 17:
        post(world, vi, false);
        break;
      case 18:
      case 19:
        VipRecvDone(vi, &d);
        world.returned(d);
        break;
      case 20:
      case 21:
        VipSendDone(vi, &d);
        world.returned(d);
        break;
      case 22:
        VipRecvWait(vi, 1, &d);
        world.returned(d);
        break;
      case 23:
        VipSendWait(vi, 1, &d);
        world.returned(d);
        break;
      case 24:
      case 25:
        if (VipCQDone(cq, &whose, &flag) == VIP_SUCCESS) {
          flag ? VipRecvDone(whose, &d) : VipSendDone(whose, &d);
          world.returned(d);
        }
        break;
      case 26:
        if (VipCQWait(cq, 1, &whose, &flag) == VIP_SUCCESS) {
          flag ? VipRecvDone(whose, &d) : VipSendDone(whose, &d);
          world.returned(d);
        }
        break;
      case 27:
        VipRecvNotify(vi, &world, on_vi);
        break;
      case 28:
        VipSendNotify(vi, &world, on_vi);
        break;
      case 29:
        VipCQNotify(cq, &world, on_cq);
        break;
      case 30:
        VipErrorCallback(its_nic, &world, random() % 2 != 0 ? on_error : nullptr);
        break;
      case 31:
        VipQueryVi(vi, &state, &a, &flag, &other);
        break;
      case 32:
        VipSetViAttributes(vi, &a);
        break;
      case 33:
        VipSetUserData(vi, &world);
        EXPECT_TRUE(VipGetUserData(vi) == &world || VipGetUserData(vi) == nullptr);
        break;
      case 34: {
        VIP_PROTECTION_HANDLE tag;
        VIP_MEM_HANDLE handle;
        VIP_MEM_ATTRIBUTES m = {nullptr, 1, 0};
        if (VipCreatePtag(its_nic, &tag) == VIP_SUCCESS) VipDestroyPtag(its_nic, tag);
        if (VipRegisterMem(its_nic, here, sizeof here, &m, &handle) == VIP_SUCCESS) {
          VipQueryMem(its_nic, here, handle, &m);
          VipDeregisterMem(its_nic, here, handle);
        }
        break;
      }
      case 35: {
        VIP_AUTODISCOVERY_LIST list;
        VipQuerySystemManagementInfo(its_nic, VIP_SMI_AUTODISCOVERY, &list);
        break;
      }
      case 36: {
        if (VipConnectWait(its_nic, local, 1, remote, &a, &connection) == VIP_SUCCESS) {
          world.connections[pick()] = connection;
        }
        break;
      }
      case 37:
        random() % 2 != 0 ? VipConnectAccept(connection, vi) : VipConnectReject(connection);
        break;
      case 38: {
        VIP_NIC_ATTRIBUTES n;
        char name[] = "b";
        VipQueryNic(its_nic, &n);
        VipNSGetHostByName(its_nic, name, remote, 0);
        VipResizeCQ(cq, 32);
        break;
      }
      case 39:
        VipQueryMem(its_nic, here, world.memory, nullptr);
        break;
    }
  }

  // Threads act while `boss` does what it likes, until it returns.
  template <class Boss>
  void riot(World& world, unsigned seed, Boss&& boss) {
    constexpr unsigned kThreads = 6;
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(seed * 100 + t);
        while (!stop) act(world, random);
      });
    }
    boss();
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }

  void begin(World& world, Packets& packets) {
    world.test = this;
    world.packets = &packets;
    world.nic = nic;
    world.memory = memory;
  }

  // Handlers refer to the world; they are over when no more of them come. (Sessions whose threads
  // are still in a handler outlast VipCloseNic.)
  static void settle(World& world) {
    unsigned before;
    do {
      before = world.calls;
      usleep(50000);
    } while (world.calls != before);
  }
};

TEST_F(ViplRaces, OfAllFunctionsOnSharedObjects) {
  start();
  auto world = std::make_unique<World>();
  Packets packets(kPackets);
  begin(*world, packets);
  riot(*world, 1, [&] { usleep(2'000'000); });
  EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
  nic = nullptr;
  settle(*world);
  EXPECT_GT(world->back, 100u);
  EXPECT_GT(world->calls, 10u);
}

TEST_F(ViplRaces, OfAllFunctionsWithTheNicBeingClosed) {
  start();
  auto world = std::make_unique<World>();
  Packets packets(kPackets);
  begin(*world, packets);
  riot(*world, 2, [&] {
    for (int i = 0; i < 40; ++i) {
      usleep(30000);
      EXPECT_EQ(VipCloseNic(world->nic), VIP_SUCCESS);
      VIP_NIC_HANDLE fresh;
      VIP_MEM_HANDLE handle;
      ASSERT_EQ(VipOpenNic("nic0", &fresh), VIP_SUCCESS);
      ASSERT_EQ(VipRegisterMem(fresh, arena.get(), kPackets * sizeof(Packet), nullptr, &handle),
                VIP_SUCCESS);
      world->memory = handle;
      world->nic = fresh;
    }
  });
  nic = world->nic;
  EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
  nic = nullptr;
  settle(*world);
}

TEST_F(ViplRaces, OfAllFunctionsWithTheAgentDying) {
  for (unsigned round = 0; round < 5; ++round) {
    start();
    auto world = std::make_unique<World>();
    Packets packets(kPackets);
    begin(*world, packets);
    riot(*world, 3 + round, [&] {
      usleep(100000);
      agent->die();
      usleep(50000);
    });
    EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
    nic = nullptr;
    settle(*world);
  }
}

}  // namespace
}  // namespace viaduct::test
