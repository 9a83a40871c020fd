// Control operations: what reaches the driver and what comes back.
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tests/unit/vipl/fixture.h"

namespace viaduct::test {
namespace {

using ViplControl = ViplTest;

// An address with room for a discriminator.
struct Address {
  alignas(8) unsigned char bytes[128];

  Address() { std::memset(bytes, 0xa5, sizeof bytes); }
  Address(unsigned host_bytes, unsigned discriminator_bytes) : Address() {
    (*this)->HostAddressLen = static_cast<VIP_UINT16>(host_bytes);
    (*this)->DiscriminatorLen = static_cast<VIP_UINT16>(discriminator_bytes);
    for (unsigned i = 0; i < discriminator_bytes && i < 64; ++i) {
      bytes[4 + host_bytes + i] = static_cast<unsigned char>(i + 1);
    }
  }
  VIP_NET_ADDRESS* get() { return reinterpret_cast<VIP_NET_ADDRESS*>(bytes); }
  VIP_NET_ADDRESS* operator->() { return get(); }
};

TEST_F(ViplControl, PassesMemoryAttributesOn) {
  start();
  VIP_PROTECTION_HANDLE ptag = nullptr;
  ASSERT_EQ(VipCreatePtag(nic, &ptag), VIP_SUCCESS);
  ASSERT_NE(ptag, nullptr);
  VIP_MEM_ATTRIBUTES a = {ptag, 2, 0};
  VIP_MEM_HANDLE handle = 0;
  const layout::CommandBody sent = asked_by([&] {
    ASSERT_EQ(VipRegisterMem(nic, arena.get(), 100, &a, &handle), VIP_SUCCESS);
  });
  EXPECT_NE(handle, 0u);
  EXPECT_EQ(sent.memory.address, reinterpret_cast<std::uint64_t>(arena.get()));
  EXPECT_EQ(sent.memory.length, 100u);
  EXPECT_NE(sent.memory.ptag, 0u);
  EXPECT_EQ(sent.memory.enable_write, 1u);
  EXPECT_EQ(sent.memory.enable_read, 0u);
  VIP_MEM_ATTRIBUTES told = {nullptr, 0, 1};
  ASSERT_EQ(VipQueryMem(nic, arena.get(), handle, &told), VIP_SUCCESS);
  EXPECT_EQ(told.Ptag, ptag);
  EXPECT_EQ(told.EnableRdmaWrite, VIP_TRUE);
  EXPECT_EQ(told.EnableRdmaRead, VIP_FALSE);
  EXPECT_EQ(VipDeregisterMem(nic, arena.get() + 1, handle), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipDeregisterMem(nic, arena.get(), handle), VIP_SUCCESS);
  EXPECT_EQ(VipDeregisterMem(nic, arena.get(), handle), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipDestroyPtag(nic, ptag), VIP_SUCCESS);
}

TEST_F(ViplControl, RefusesImpossibleMemory) {
  start();
  VIP_MEM_HANDLE handle;
  VIP_MEM_ATTRIBUTES foreign = {&handle, 0, 0};
  EXPECT_EQ(VipRegisterMem(nic, nullptr, 8, nullptr, &handle), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipRegisterMem(nic, &handle, 0, nullptr, &handle), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipRegisterMem(nic, &handle, ~0ul, nullptr, &handle), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipRegisterMem(nic, &handle, 8, nullptr, nullptr), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipRegisterMem(nic, &handle, 8, &foreign, &handle), VIP_INVALID_PTAG);
}

TEST_F(ViplControl, ReadsNoDataOfADeregisteredRegion) {
  start();
  const auto [vi, peer] = connected_pair();
  VIP_MEM_HANDLE handle;
  unsigned char data[8] = {};
  ASSERT_EQ(VipRegisterMem(nic, data, sizeof data, nullptr, &handle), VIP_SUCCESS);
  for (const bool registered : {true, false}) {
    ASSERT_EQ(VipPostRecv(peer, packet(1, 8), memory), VIP_SUCCESS);
    VIP_DESCRIPTOR* const send = packet(0, 8);
    send->DS[0].Local.Data.Address = data;
    send->DS[0].Local.Handle = handle;
    ASSERT_EQ(VipPostSend(vi, send, memory), VIP_SUCCESS);
    const auto flags = agent->session().posted(false).request.flags;
    EXPECT_EQ((flags & layout::kSlotInline) != 0, registered);
    VIP_DESCRIPTOR* done = nullptr;
    VipSendWait(vi, 5000, &done);
    VipRecvWait(peer, 5000, &done);
    if (!registered) break;
    ASSERT_EQ(VipDeregisterMem(nic, data, handle), VIP_SUCCESS);
  }
  EXPECT_EQ(arena[0].descriptor.CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_PROTECTION_ERROR);
}

TEST_F(ViplControl, JudgesViAttributes) {
  start();
  VIP_VI_HANDLE vi = nullptr;
  VIP_VI_ATTRIBUTES a = attributes();
  a.QoS = &a;
  EXPECT_EQ(VipCreateVi(nic, &a, nullptr, nullptr, &vi), VIP_INVALID_QOS);
  a = attributes();
  a.MaxTransferSize = 65537;
  EXPECT_EQ(VipCreateVi(nic, &a, nullptr, nullptr, &vi), VIP_INVALID_MTU);
  a.MaxTransferSize = 1ul << 32;
  EXPECT_EQ(VipCreateVi(nic, &a, nullptr, nullptr, &vi), VIP_INVALID_MTU);
  a = attributes();
  a.Ptag = nic;
  EXPECT_EQ(VipCreateVi(nic, &a, nullptr, nullptr, &vi), VIP_INVALID_PTAG);
  EXPECT_EQ(VipCreateVi(nic, nullptr, nullptr, nullptr, &vi), VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi, nullptr);
}

TEST_F(ViplControl, TellsStateAttributesAndEmptyQueuesOfAVi) {
  start();
  VIP_PROTECTION_HANDLE ptag;
  ASSERT_EQ(VipCreatePtag(nic, &ptag), VIP_SUCCESS);
  VIP_VI_ATTRIBUTES a = attributes();
  a.Ptag = ptag;
  a.EnableRdmaWrite = 2;
  VIP_VI_HANDLE vi;
  ASSERT_EQ(VipCreateVi(nic, &a, nullptr, nullptr, &vi), VIP_SUCCESS);
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  VIP_VI_STATE state;
  VIP_VI_ATTRIBUTES back = {};
  VIP_BOOLEAN send_empty = 7, receive_empty = 7;
  ASSERT_EQ(VipQueryVi(vi, &state, &back, &send_empty, &receive_empty), VIP_SUCCESS);
  EXPECT_EQ(state, VIP_STATE_IDLE);
  EXPECT_EQ(send_empty, VIP_TRUE);
  EXPECT_EQ(receive_empty, VIP_FALSE);
  EXPECT_EQ(back.Ptag, ptag);
  EXPECT_EQ(back.EnableRdmaWrite, VIP_TRUE);
  EXPECT_EQ(back.MaxTransferSize, 32768u);
  EXPECT_EQ(back.ReliabilityLevel, VIP_SERVICE_RELIABLE_DELIVERY);
  EXPECT_EQ(state_of(connected_vi()), VIP_STATE_CONNECTED);
}

// The program's own host, where the test waits for requests to `discriminator_bytes` of 1, 2, 3 ...
Address at_home(unsigned discriminator_bytes) {
  Address address(sizeof kNicAddress, discriminator_bytes);
  std::memcpy(address.bytes + 4, kNicAddress, sizeof kNicAddress);
  return address;
}

TEST_F(ViplControl, PassesAddressesOfARequestOn) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  Address local(6, 4), remote(6, 12);
  VIP_VI_ATTRIBUTES a;
  const layout::CommandBody sent = asked_by([&] {
    EXPECT_EQ(VipConnectRequest(vi, local.get(), remote.get(), 250, &a), VIP_NOT_REACHABLE);
  });
  EXPECT_EQ(sent.timeout_ms, 250u);
  EXPECT_EQ(sent.local.discriminator_length, 4);
  EXPECT_EQ(sent.remote.discriminator_length, 12);
  EXPECT_EQ(std::memcmp(sent.remote.host, remote.bytes + 4, 6), 0);
  EXPECT_EQ(std::memcmp(sent.remote.discriminator, remote.bytes + 10, 12), 0);
}

TEST_F(ViplControl, TellsARequesterOfThePeersVi) {
  start();
  VIP_VI_ATTRIBUTES theirs = attributes();
  theirs.EnableRdmaWrite = VIP_TRUE;
  VIP_VI_HANDLE peer = nullptr;
  ASSERT_EQ(VipCreateVi(nic, &theirs, nullptr, nullptr, &peer), VIP_SUCCESS);
  std::thread server([&] {
    Address here = at_home(12), there;
    VIP_VI_ATTRIBUTES a;
    VIP_CONN_HANDLE connection = nullptr;
    ASSERT_EQ(VipConnectWait(nic, here.get(), VIP_INFINITE, there.get(), &a, &connection), VIP_SUCCESS);
    EXPECT_EQ(VipConnectAccept(connection, peer), VIP_SUCCESS);
  });
  Address local = at_home(4), remote = at_home(12);
  VIP_VI_ATTRIBUTES a;
  std::memset(&a, 0xff, sizeof a);
  EXPECT_EQ(VipConnectRequest(make_vi(), local.get(), remote.get(), 10000, &a), VIP_SUCCESS);
  server.join();
  EXPECT_EQ(a.MaxTransferSize, theirs.MaxTransferSize);
  EXPECT_EQ(a.EnableRdmaWrite, VIP_TRUE);
  EXPECT_EQ(a.Ptag, nullptr);
  EXPECT_EQ(a.QoS, nullptr);
}

TEST_F(ViplControl, RefusesImpossibleAddressesAndTimeouts) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  Address good(6, 4), no_host(0, 4), short_host(5, 4), full(6, 64), too_long(6, 65);
  VIP_VI_ATTRIBUTES a;
  const VIP_RETURN no = VIP_INVALID_PARAMETER;
  EXPECT_EQ(VipConnectRequest(vi, good.get(), good.get(), 0, &a), no);
  EXPECT_EQ(VipConnectRequest(vi, good.get(), no_host.get(), 1, &a), no);
  EXPECT_EQ(VipConnectRequest(vi, good.get(), short_host.get(), 1, &a), no);
  EXPECT_EQ(VipConnectRequest(vi, short_host.get(), good.get(), 1, &a), no);
  EXPECT_EQ(VipConnectRequest(vi, good.get(), too_long.get(), 1, &a), no);
  EXPECT_EQ(VipConnectRequest(vi, too_long.get(), good.get(), 1, &a), no);
  EXPECT_EQ(VipConnectRequest(vi, nullptr, good.get(), 1, &a), no);
  EXPECT_EQ(VipConnectRequest(vi, good.get(), nullptr, 1, &a), no);
  EXPECT_EQ(VipConnectRequest(vi, good.get(), good.get(), 1, nullptr), no);
  const layout::CommandBody sent = asked_by([&] {
    EXPECT_EQ(VipConnectRequest(vi, no_host.get(), full.get(), VIP_INFINITE, &a), VIP_NOT_REACHABLE);
  });
  EXPECT_EQ(sent.timeout_ms, layout::kForever);
  EXPECT_EQ(sent.remote.discriminator_length, 64);
}

TEST_F(ViplControl, FillsInEverythingAboutAConnectionThatCame) {
  start();
  VIP_VI_ATTRIBUTES small = attributes();
  small.MaxTransferSize = 4096;
  VIP_VI_HANDLE ours = nullptr;
  ASSERT_EQ(VipCreateVi(nic, &small, nullptr, nullptr, &ours), VIP_SUCCESS);
  for (const bool wanted : {true, false}) {
    std::thread requester([&, wanted] {
      Address from = at_home(3), to = at_home(4);
      std::memcpy(from.bytes + 10, "abc", 3);
      VIP_VI_ATTRIBUTES a;
      VIP_VI_HANDLE vi = nullptr;
      ASSERT_EQ(VipCreateVi(nic, &small, nullptr, nullptr, &vi), VIP_SUCCESS);
      EXPECT_EQ(VipConnectRequest(vi, from.get(), to.get(), VIP_INFINITE, &a),
                wanted ? VIP_SUCCESS : VIP_REJECT);
    });
    Address local = at_home(4), remote;
    remote->HostAddressLen = 0;
    remote->DiscriminatorLen = 0;
    VIP_VI_ATTRIBUTES a;
    VIP_CONN_HANDLE connection = nullptr;
    ASSERT_EQ(VipConnectWait(nic, local.get(), VIP_INFINITE, remote.get(), &a, &connection),
              VIP_SUCCESS);
    EXPECT_EQ(remote->HostAddressLen, 6);
    EXPECT_EQ(remote->DiscriminatorLen, 3);
    EXPECT_EQ(std::memcmp(remote.bytes + 4, kNicAddress, 6), 0);
    EXPECT_EQ(std::memcmp(remote.bytes + 10, "abc", 3), 0);
    EXPECT_EQ(remote.bytes[13], 0xa5);
    EXPECT_EQ(a.MaxTransferSize, 4096u);
    EXPECT_EQ(a.Ptag, nullptr);
    EXPECT_EQ(wanted ? VipConnectAccept(connection, ours) : VipConnectReject(connection), VIP_SUCCESS);
    EXPECT_EQ(VipConnectReject(connection), VIP_INVALID_PARAMETER) << "it has been answered";
    requester.join();
  }
}

TEST_F(ViplControl, TimesOutWhenNoConnectionComes) {
  start();
  Address local(6, 4), remote;
  VIP_VI_ATTRIBUTES a;
  VIP_CONN_HANDLE connection;
  EXPECT_EQ(VipConnectWait(nic, local.get(), 0, remote.get(), &a, &connection), VIP_TIMEOUT);
  EXPECT_EQ(VipConnectWait(nic, local.get(), 20, remote.get(), &a, &connection), VIP_TIMEOUT);
}

TEST_F(ViplControl, KeepsShortCommandsGoingWhileManyThreadsWait) {
  start();
  std::atomic<unsigned> out{0};
  std::vector<std::thread> waiting;
  constexpr unsigned kThreads = 110;  // more than may wait at once
  std::atomic<unsigned> refused{0};
  for (unsigned i = 0; i < kThreads; ++i) {
    waiting.emplace_back([&] {
      Address local(6, 4), remote;
      VIP_VI_ATTRIBUTES a;
      VIP_CONN_HANDLE connection;
      const VIP_RETURN result =
          VipConnectWait(nic, local.get(), VIP_INFINITE, remote.get(), &a, &connection);
      if (result == VIP_ERROR_RESOURCE) ++refused;
      ++out;
    });
  }
  while (out.load() < kThreads - 96) usleep(1000);
  EXPECT_EQ(refused.load(), kThreads - 96);
  EXPECT_EQ(VipDestroyVi(make_vi()), VIP_SUCCESS);
  VipCloseNic(nic);
  nic = nullptr;
  for (std::thread& thread : waiting) thread.join();
}

TEST_F(ViplControl, WritesOnlyTheHostPartOfANamedAddress) {
  start();
  ASSERT_EQ(VipNSInit(nic, nullptr), VIP_SUCCESS);
  ASSERT_EQ(VipNSInit(nic, nullptr), VIP_SUCCESS);
  Address address;
  address->HostAddressLen = 0;
  address->DiscriminatorLen = 4;
  char name[] = "b";
  ASSERT_EQ(VipNSGetHostByName(nic, name, address.get(), 0), VIP_SUCCESS);
  EXPECT_EQ(address->HostAddressLen, 6);
  EXPECT_EQ(address->DiscriminatorLen, 4);
  EXPECT_EQ(std::memcmp(address.bytes + 4, "\x02\0\0\0\0\x0b", 6), 0);
  EXPECT_EQ(address.bytes[10], 0xa5);
  EXPECT_EQ(VipNSGetHostByName(nic, name, address.get(), 1), VIP_ERROR_NAMESERVICE);
  EXPECT_EQ(VipNSGetHostByName(nic, name, address.get(), 1ul << 32), VIP_ERROR_NAMESERVICE);
  std::string long_name(300, 'x');
  EXPECT_EQ(VipNSGetHostByName(nic, long_name.data(), address.get(), 0), VIP_ERROR_NAMESERVICE);
  EXPECT_EQ(VipNSShutdown(nic), VIP_SUCCESS);
  EXPECT_EQ(VipNSShutdown(nic), VIP_SUCCESS);
}

TEST_F(ViplControl, SaysPlainlyWhatIsNotSupported) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  const VIP_CQ_HANDLE cq = make_cq();
  const VIP_RETURN no = VIP_ERROR_NOT_SUPPORTED;
  EXPECT_EQ(VipAddTagCQ(cq, nullptr, 0, 0), no);
  EXPECT_EQ(VipRemoveTagCQ(cq, nullptr, 0), no);
  EXPECT_EQ(VipPostDeferredSends(vi, VIP_FALSE, nullptr), no);
}

// Calls that have nothing but the agent's answer to give.
TEST_F(ViplControl, PassesTheAgentsAnswersOn) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  const VIP_CQ_HANDLE cq = make_cq();
  VIP_MEM_ATTRIBUTES m = {nullptr, VIP_TRUE, 0};
  VIP_VI_ATTRIBUTES a = attributes();
  EXPECT_EQ(VipSetMemAttributes(nic, arena.get(), memory, &m), VIP_SUCCESS);
  m = {};
  EXPECT_EQ(VipQueryMem(nic, arena.get(), memory, &m), VIP_SUCCESS);
  EXPECT_EQ(m.EnableRdmaWrite, VIP_TRUE);
  EXPECT_EQ(VipQueryMem(nic, arena.get() + 1, memory, &m), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipSetMemAttributes(nic, arena.get() + 1, memory, &m), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipResizeCQ(cq, 100), VIP_SUCCESS);
  EXPECT_EQ(VipResizeCQ(cq, 1ul << 31), VIP_ERROR_RESOURCE);
  EXPECT_EQ(VipConnectPeerDone(vi, &a), VIP_INVALID_STATE);
  EXPECT_EQ(VipConnectPeerWait(vi, &a), VIP_INVALID_STATE);
  const OwnAddress here(1), nobody(2);
  EXPECT_EQ(VipConnectPeerRequest(vi, here.get(), nobody.get(), 60'000), VIP_SUCCESS);
  EXPECT_EQ(VipConnectPeerDone(vi, &a), VIP_NOT_DONE);
  EXPECT_EQ(VipConnectPeerRequest(vi, here.get(), nobody.get(), 1), VIP_INVALID_STATE);
  char name[64];
  VIP_ULONG length = sizeof name;
  ASSERT_EQ(VipNSGetHostByAddr(nic, here.get(), name, &length), VIP_SUCCESS);
  EXPECT_EQ(std::string_view(name), "here");
  Address stranger(6, 0);
  length = sizeof name;
  EXPECT_EQ(VipNSGetHostByAddr(nic, stranger.get(), name, &length), VIP_ERROR_NAMESERVICE);
}

TEST_F(ViplControl, RemembersAttributesThatAreSet) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  VIP_VI_ATTRIBUTES a = attributes();
  a.MaxTransferSize = 1000;
  a.EnableRdmaWrite = 2;
  ASSERT_EQ(VipSetViAttributes(vi, &a), VIP_SUCCESS);
  VIP_VI_STATE state;
  VIP_BOOLEAN empty;
  ASSERT_EQ(VipQueryVi(vi, &state, &a, &empty, &empty), VIP_SUCCESS);
  EXPECT_EQ(a.MaxTransferSize, 1000u);
  EXPECT_EQ(a.EnableRdmaWrite, VIP_TRUE);
}

// Submits commands in a known order while the agent looks at none of them.
class ViplStale : public ViplControl {
 protected:
  void submit(std::function<void()> what) {
    const unsigned before = agent->session().commands_under_way();
    threads.emplace_back(std::move(what));
    while (agent->session().commands_under_way() == before) usleep(100);
  }
  void go_on() {
    agent->go_on();
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<std::thread> threads;
};

TEST_F(ViplStale, HandlesDoNotHitTheViThatTookTheirPlace) {
  start();
  const VIP_VI_HANDLE old = make_vi();
  agent->hold();
  VIP_RETURN first, disconnected, second;
  VIP_VI_HANDLE young = nullptr;
  submit([&] { first = VipDestroyVi(old); });
  submit([&] { young = make_vi(); });
  submit([&] { disconnected = VipDisconnect(old); });
  submit([&] { second = VipDestroyVi(old); });
  go_on();
  EXPECT_EQ(first, VIP_SUCCESS);
  EXPECT_EQ(disconnected, VIP_INVALID_PARAMETER);
  EXPECT_EQ(second, VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipDestroyVi(young), VIP_SUCCESS);
}

TEST_F(ViplStale, HandlesDoNotHitTheCqThatTookTheirPlace) {
  start();
  const VIP_CQ_HANDLE old = make_cq();
  agent->hold();
  VIP_RETURN first, second;
  VIP_CQ_HANDLE young = nullptr;
  submit([&] { first = VipDestroyCQ(old); });
  submit([&] { young = make_cq(); });
  submit([&] { second = VipDestroyCQ(old); });
  go_on();
  EXPECT_EQ(first, VIP_SUCCESS);
  EXPECT_EQ(second, VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipDestroyCQ(young), VIP_SUCCESS);
}

// A server whose threads wait for requests can still accept them and look names up.
TEST_F(ViplControl, LeavesRoomForAnswersWhileManyThreadsWait) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  const auto wait = [this](VIP_CONN_HANDLE& connection, VIP_ULONG timeout) {
    Address here = at_home(4), there(6, 16);
    VIP_VI_ATTRIBUTES attributes;
    return VipConnectWait(nic, here.get(), timeout, there.get(), &attributes, &connection);
  };
  std::thread requester([&] {
    VIP_NIC_HANDLE own = nullptr;
    VIP_VI_HANDLE requesting = nullptr;
    VIP_VI_ATTRIBUTES a = attributes();
    ASSERT_EQ(VipOpenNic("nic0", &own), VIP_SUCCESS);
    ASSERT_EQ(VipCreateVi(own, &a, nullptr, nullptr, &requesting), VIP_SUCCESS);
    Address from = at_home(3), to = at_home(4);
    EXPECT_EQ(VipConnectRequest(requesting, from.get(), to.get(), VIP_INFINITE, &a), VIP_SUCCESS);
    EXPECT_EQ(VipCloseNic(own), VIP_SUCCESS);
  });
  VIP_CONN_HANDLE request;
  ASSERT_EQ(wait(request, 5000), VIP_SUCCESS);
  std::vector<std::thread> threads;
  std::atomic<unsigned> refused{0};
  for (unsigned i = 0; i < 96; ++i) {
    threads.emplace_back([&] {
      VIP_CONN_HANDLE connection;
      refused += wait(connection, VIP_INFINITE) != VIP_ERROR_RESOURCE;
    });
  }
  while (agent->session().commands_under_way() < 96) usleep(1000);
  VIP_CONN_HANDLE connection;
  EXPECT_EQ(wait(connection, 1), VIP_ERROR_RESOURCE) << "there is a limit";
  EXPECT_EQ(VipConnectAccept(request, vi), VIP_SUCCESS);
  requester.join();
  Address address(6, 4);
  char name[] = "b";
  EXPECT_EQ(VipNSGetHostByName(nic, name, address.get(), 0), VIP_SUCCESS);
  EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
  nic = nullptr;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 0u);
}

}  // namespace
}  // namespace viaduct::test
