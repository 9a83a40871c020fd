// Opening and closing NICs, handles, the end of an agent, fork.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "vipl/vipl_ext.h"
#include "tests/unit/vipl/fixture.h"
#include "kagent/contract/slice.h"
#include "tests/unit/vipl/hello_relay.h"

namespace viaduct::test {
namespace {

using ViplSession = ViplTest;

VIP_RETURN open_nic(const char* name = "nic0") {
  VIP_NIC_HANDLE nic = nullptr;
  const VIP_RETURN result = VipOpenNic(name, &nic);
  if (result == VIP_SUCCESS) VipCloseNic(nic);
  return result;
}

TEST_F(ViplSession, FailsWithoutAnAgent) {
  setenv("VIADUCT_SOCKET", "@viaduct-nobody-is-here", 1);
  EXPECT_EQ(open_nic(), VIP_ERROR_RESOURCE);
  setenv("VIADUCT_SOCKET", "/nonexistent/socket", 1);
  EXPECT_EQ(open_nic(), VIP_ERROR_RESOURCE);
  setenv("VIADUCT_SOCKET", std::string(200, 'x').c_str(), 1);
  EXPECT_EQ(open_nic(), VIP_ERROR_RESOURCE);
}

TEST_F(ViplSession, RefusesBadArguments) {
  TestAgent somebody;
  EXPECT_EQ(VipOpenNic(nullptr, &nic), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipOpenNic("nic0", nullptr), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipOpenNic(std::string(64, 'n').c_str(), &nic), VIP_INVALID_PARAMETER);
  EXPECT_EQ(nic, nullptr);
  EXPECT_EQ(open_nic(), VIP_SUCCESS);
}

// The agent is told the whole name.
TEST_F(ViplSession, PassesLongNamesOn) {
  TestAgent somebody;
  HelloRelay relay([](auto&, auto&) {});
  EXPECT_EQ(open_nic(std::string(63, 'n').c_str()), VIP_INVALID_PARAMETER);
  EXPECT_EQ(relay.device(), std::string(63, 'n'));
}

TEST_F(ViplSession, RefusesAnswersThatMakeNoSense) {
  TestAgent agent;
  struct Case {
    const char* what;
    HelloRelay::Spoil spoil;
  };
  const Case cases[] = {
      {"magic", [](auto& a, auto&) { a.head.magic = 1; }},
      {"version", [](auto& a, auto&) { ++a.head.version; }},
      {"bytes", [](auto& a, auto&) { --a.head.bytes; }},
      {"one descriptor", [](auto&, auto& fds) { fds.resize(1); }},
      {"no poll wake", [](auto&, auto& fds) { fds.resize(2); }},
      {"no descriptors", [](auto&, auto& fds) { fds.clear(); }},
      {"capacity", [](auto& a, auto&) { ++a.capacity.vis; }},
      {"too much capacity", [](auto& a, auto&) { a.capacity.vis = 0xffffffff; }},
      {"size", [](auto& a, auto&) { a.segment_bytes -= 4096; }},
      {"not sealed",
       [](auto& a, auto& fds) {
         const auto bytes = static_cast<std::size_t>(a.segment_bytes);
         Descriptor open(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
         ASSERT_EQ(ftruncate(open.get(), static_cast<off_t>(bytes)), 0);
         // With what the agent has written: the header.
         layout::Header header{};
         const auto size = static_cast<ssize_t>(sizeof header);
         ASSERT_EQ(pread(fds[0].get(), static_cast<void*>(&header), sizeof header, 0), size);
         ASSERT_EQ(pwrite(open.get(), static_cast<const void*>(&header), sizeof header, 0), size);
         fds[0] = std::move(open);
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    HelloRelay liar(c.spoil);
    EXPECT_EQ(open_nic(), VIP_ERROR_RESOURCE);
  }
  HelloRelay honest([](auto&, auto&) {});
  EXPECT_EQ(open_nic(), VIP_SUCCESS);
}

TEST_F(ViplSession, PassesTheAgentsRefusalOn) {
  TestAgent agent;
  EXPECT_EQ(open_nic("nic7"), VIP_INVALID_PARAMETER);
  for (const auto& [says, expected] :
       {std::pair{2u, VIP_INVALID_PARAMETER}, std::pair{3u, VIP_ERROR_RESOURCE},
        std::pair{1234u, VIP_ERROR_RESOURCE}}) {
    const unsigned result = says;
    HelloRelay refuser([result](control::HelloAnswer& a, std::vector<Descriptor>& fds) {
      a.head.result = result;
      std::strcpy(a.reason, "no such device");
      fds.clear();
    });
    EXPECT_EQ(open_nic(), expected);
  }
}

TEST_F(ViplSession, SaysWhatTheNicIs) {
  start();
  VIP_NIC_ATTRIBUTES a;
  ASSERT_EQ(VipQueryNic(nic, &a), VIP_SUCCESS);
  EXPECT_STREQ(a.Name, "via0");
  EXPECT_EQ(a.NicAddressLen, 6);
  EXPECT_EQ(std::memcmp(a.LocalNicAddress, "\2\3\4\5\6\7", 6), 0);
  EXPECT_EQ(a.ThreadSafe, VIP_TRUE);
  EXPECT_EQ(a.MaxTransferSize, 65536u);
  EXPECT_EQ(a.MaxDiscriminatorLen, 64);
  EXPECT_EQ(a.ReliabilityLevelSupport, VIP_SERVICE_UNRELIABLE | VIP_SERVICE_RELIABLE_DELIVERY |
                                           VIP_SERVICE_RELIABLE_RECEPTION);
  EXPECT_EQ(a.NativeMTU, kNicMtu);
  EXPECT_EQ(VipQueryNic(nic, nullptr), VIP_INVALID_PARAMETER);
}

// Short slices are for programs that poll.
TEST_F(ViplSession, GivesTheSliceBackThatItHasShortened) {
  const std::uint64_t before = slice(0);
  if (before <= kShortestSliceNs) GTEST_SKIP() << "the kernel has no slices to change";
  start();
  EXPECT_EQ(slice(0), kShortestSliceNs);
  VIP_NIC_HANDLE other = nullptr;
  ASSERT_EQ(VipOpenNic("nic0", &other), VIP_SUCCESS);
  ASSERT_EQ(VipCloseNic(other), VIP_SUCCESS);
  EXPECT_EQ(slice(0), kShortestSliceNs) << "a NIC is still open";
  ASSERT_EQ(VipCloseNic(nic), VIP_SUCCESS);
  EXPECT_EQ(slice(0), before);
  nic = nullptr;
}

TEST_F(ViplSession, GivesEachOpenASessionOfItsOwn) {
  start();
  VIP_NIC_HANDLE other = nullptr;
  ASSERT_EQ(VipOpenNic("nic0", &other), VIP_SUCCESS);
  EXPECT_NE(nic, other);
  EXPECT_EQ(agent->sessions(), 2u);
  VIP_PROTECTION_HANDLE ptag = nullptr;
  ASSERT_EQ(VipCreatePtag(other, &ptag), VIP_SUCCESS);
  EXPECT_EQ(VipDestroyPtag(nic, ptag), VIP_INVALID_PARAMETER);
  VIP_MEM_ATTRIBUTES a = {ptag, 0, 0};
  VIP_MEM_HANDLE handle;
  EXPECT_EQ(VipRegisterMem(nic, arena.get(), 8, &a, &handle), VIP_INVALID_PTAG);
  EXPECT_EQ(VipRegisterMem(other, arena.get(), 8, &a, &handle), VIP_SUCCESS);
  EXPECT_EQ(VipCloseNic(other), VIP_SUCCESS);
  EXPECT_EQ(VipCloseNic(other), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipCreatePtag(other, &ptag), VIP_INVALID_PARAMETER);
  while (agent->sessions() != 1) usleep(1000);
}

TEST_F(ViplSession, OpensAndClosesManyTimes) {
  TestAgent somebody;
  for (int i = 0; i < 400; ++i) ASSERT_EQ(open_nic(), VIP_SUCCESS) << i;
}

TEST_F(ViplSession, RunsOutOfHandlesCleanly) {
  TestAgent somebody;
  std::vector<VIP_NIC_HANDLE> open;
  VIP_RETURN result;
  VIP_NIC_HANDLE handle;
  while ((result = VipOpenNic("nic0", &handle)) == VIP_SUCCESS) open.push_back(handle);
  EXPECT_EQ(result, VIP_ERROR_RESOURCE);
  EXPECT_EQ(open.size(), 128u);
  for (const VIP_NIC_HANDLE each : open) EXPECT_EQ(VipCloseNic(each), VIP_SUCCESS);
  // The agent sees each end in its turn.
  constexpr unsigned kTries = 5'000;
  for (unsigned n = 0; n < kTries && (result = open_nic()) == VIP_ERROR_RESOURCE; ++n) usleep(1000);
  EXPECT_EQ(result, VIP_SUCCESS);
}

TEST_F(ViplSession, RefusesGarbageForEveryHandle) {
  start();
  VIP_VI_HANDLE vi = make_vi();
  VIP_CQ_HANDLE cq = make_cq();
  std::vector<VIP_PVOID> garbage = {nullptr, &vi, this, reinterpret_cast<VIP_PVOID>(-1),
                                    reinterpret_cast<VIP_PVOID>(1)};
  for (unsigned bit = 0; bit < 64; ++bit) {
    const auto mask = 1ull << bit;
    garbage.push_back(reinterpret_cast<VIP_PVOID>(mask));
    for (const VIP_PVOID good : {nic, vi, cq}) {
      garbage.push_back(reinterpret_cast<VIP_PVOID>(reinterpret_cast<std::uint64_t>(good) ^ mask));
    }
  }
  for (const VIP_PVOID bad : garbage) {
    if (bad == vi || bad == cq || bad == nic) continue;  // kinds differ in one bit
    SCOPED_TRACE(bad);
    VIP_NIC_ATTRIBUTES na;
    VIP_VI_ATTRIBUTES va = attributes();
    VIP_MEM_ATTRIBUTES ma = {nullptr, 0, 0};
    VIP_VI_STATE state;
    VIP_BOOLEAN b;
    VIP_PVOID out;
    VIP_DESCRIPTOR* d;
    VIP_MEM_HANDLE m;
    char name[] = "b";
    VIP_ULONG n = 1;
    VIP_NET_ADDRESS address = {};
    const VIP_RETURN no = VIP_INVALID_PARAMETER;
    EXPECT_EQ(VipQueryNic(bad, &na), no);
    EXPECT_EQ(VipCloseNic(bad), no);
    EXPECT_EQ(VipCreatePtag(bad, &out), no);
    EXPECT_EQ(VipDestroyPtag(nic, bad), no);
    EXPECT_EQ(VipRegisterMem(bad, arena.get(), 8, nullptr, &m), no);
    EXPECT_EQ(VipDeregisterMem(bad, arena.get(), memory), no);
    EXPECT_EQ(VipQueryMem(bad, arena.get(), memory, &ma), no);
    EXPECT_EQ(VipSetMemAttributes(bad, arena.get(), memory, &ma), no);
    EXPECT_EQ(VipCreateVi(bad, &va, nullptr, nullptr, &out), no);
    EXPECT_EQ(VipDestroyVi(bad), no);
    EXPECT_EQ(VipQueryVi(bad, &state, &va, &b, &b), no);
    EXPECT_EQ(VipSetViAttributes(bad, &va), no);
    EXPECT_EQ(VipConnectWait(bad, &address, 0, &address, &va, &out), no);
    EXPECT_EQ(VipConnectAccept(bad, vi), no);
    EXPECT_EQ(VipConnectReject(bad), no);
    EXPECT_EQ(VipConnectRequest(bad, &address, &address, 1, &va), no);
    EXPECT_EQ(VipDisconnect(bad), no);
    EXPECT_EQ(VipConnectPeerRequest(bad, &address, &address, 1), no);
    EXPECT_EQ(VipConnectPeerDone(bad, &va), no);
    EXPECT_EQ(VipConnectPeerWait(bad, &va), no);
    EXPECT_EQ(VipPostSend(bad, packet(0, 8), memory), no);
    EXPECT_EQ(VipPostRecv(bad, packet(0, 8), memory), no);
    EXPECT_EQ(VipSendDone(bad, &d), no);
    EXPECT_EQ(VipRecvDone(bad, &d), no);
    EXPECT_EQ(VipSendWait(bad, 1, &d), no);
    EXPECT_EQ(VipRecvWait(bad, 1, &d), no);
    EXPECT_EQ(VipSendNotify(bad, nullptr, nullptr), no);
    EXPECT_EQ(VipRecvNotify(bad, nullptr, nullptr), no);
    EXPECT_EQ(VipCreateCQ(bad, 16, &out), no);
    EXPECT_EQ(VipDestroyCQ(bad), no);
    EXPECT_EQ(VipResizeCQ(bad, 16), no);
    EXPECT_EQ(VipCQDone(bad, &out, &b), no);
    EXPECT_EQ(VipCQWait(bad, 1, &out, &b), no);
    EXPECT_EQ(VipCQNotify(bad, nullptr, nullptr), no);
    EXPECT_EQ(VipNSInit(bad, nullptr), no);
    EXPECT_EQ(VipNSGetHostByName(bad, name, &address, 0), no);
    EXPECT_EQ(VipNSGetHostByAddr(bad, &address, name, &n), no);
    EXPECT_EQ(VipNSShutdown(bad), no);
    EXPECT_EQ(VipErrorCallback(bad, nullptr, nullptr), no);
    EXPECT_EQ(VipQuerySystemManagementInfo(bad, 1, nullptr), no);
    EXPECT_EQ(VipGetUserData(bad), nullptr);
    VipSetUserData(bad, this);
  }
  EXPECT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
}

// ---------------------------------------------------------------------------- the agent goes away

void expect_dead(const ViplTest&, VIP_VI_HANDLE vi) {
  VIP_VI_STATE state;
  VIP_VI_ATTRIBUTES a;
  VIP_BOOLEAN b;
  ASSERT_EQ(VipQueryVi(vi, &state, &a, &b, &b), VIP_SUCCESS);
  EXPECT_EQ(state, VIP_STATE_ERROR);
}

constexpr std::uint32_t kLost =
    VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_TRANSPORT_ERROR;

TEST_F(ViplSession, FlushesEverythingWhenTheAgentDies) {
  start();
  const auto [vi, peer] = connected_pair();
  for (unsigned i = 0; i < 3; ++i) {
    ASSERT_EQ(VipPostRecv(vi, packet(i, 8), memory), VIP_SUCCESS);
  }
  VIP_DESCRIPTOR* done = nullptr;
  ASSERT_EQ(VipPostSend(peer, filled(10, 8, 1), memory), VIP_SUCCESS);
  ASSERT_EQ(VipSendWait(peer, 5000, &done), VIP_SUCCESS);
  agent->die();
  // Completed descriptors stay so; the rest is flushed, and so are later ones.
  EXPECT_EQ(VipRecvWait(vi, VIP_INFINITE, &done), VIP_SUCCESS);
  for (unsigned i = 1; i < 3; ++i) {
    EXPECT_EQ(VipRecvWait(vi, VIP_INFINITE, &done), VIP_DESCRIPTOR_ERROR);
    ASSERT_EQ(done, &arena[i].descriptor);
    EXPECT_EQ(done->CS.Status, kLost | VIP_STATUS_OP_RECEIVE);
  }
  ASSERT_EQ(VipPostSend(vi, packet(0, 8), memory), VIP_SUCCESS);
  EXPECT_EQ(VipSendWait(vi, VIP_INFINITE, &done), VIP_DESCRIPTOR_ERROR);
  EXPECT_EQ(done->CS.Status, kLost | VIP_STATUS_OP_SEND);
  expect_dead(*this, vi);
  VIP_CQ_HANDLE cq;
  EXPECT_EQ(VipCreateCQ(nic, 16, &cq), VIP_ERROR_RESOURCE);
  EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
  nic = nullptr;
}

TEST_F(ViplSession, CanBeTidiedUpWhenTheAgentHasDied) {
  start();
  VIP_PROTECTION_HANDLE ptag;
  ASSERT_EQ(VipCreatePtag(nic, &ptag), VIP_SUCCESS);
  const VIP_CQ_HANDLE cq = make_cq();
  const VIP_VI_HANDLE vi = connected_vi(cq, nullptr);
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  agent->die();
  VIP_DESCRIPTOR* done;
  EXPECT_EQ(VipRecvWait(vi, VIP_INFINITE, &done), VIP_DESCRIPTOR_ERROR);
  expect_dead(*this, vi);
  EXPECT_EQ(VipDisconnect(vi), VIP_SUCCESS);
  EXPECT_EQ(VipDisconnect(vi), VIP_SUCCESS);
  VIP_VI_STATE state;
  VIP_VI_ATTRIBUTES attributes;
  VIP_BOOLEAN empty;
  ASSERT_EQ(VipQueryVi(vi, &state, &attributes, &empty, &empty), VIP_SUCCESS);
  EXPECT_EQ(state, VIP_STATE_IDLE);
  EXPECT_EQ(VipDestroyCQ(cq), VIP_ERROR_RESOURCE) << "the VI uses it";
  EXPECT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
  EXPECT_EQ(VipDestroyVi(vi), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
  EXPECT_EQ(VipDestroyCQ(cq), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipDeregisterMem(nic, arena.get(), memory), VIP_SUCCESS);
  EXPECT_EQ(VipDeregisterMem(nic, arena.get(), memory), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipDestroyPtag(nic, ptag), VIP_SUCCESS);
}

TEST_F(ViplSession, DeregistersWhatItHasForgottenWhenTheAgentHasDied) {
  // One more than the library's table has room for.
  constexpr std::size_t kMany = (1u << 18) + 1;
  TestAgent::Options options;
  options.regions = 2 * kMany;
  start(options);
  VIP_MEM_HANDLE handle = 0;
  for (std::size_t i = 0; i < kMany; ++i) {
    ASSERT_EQ(VipRegisterMem(nic, arena.get(), 100, nullptr, &handle), VIP_SUCCESS);
  }
  agent->die();
  EXPECT_EQ(VipDeregisterMem(nic, arena.get(), handle), VIP_SUCCESS);
}

TEST_F(ViplSession, AnnouncesFlushedDescriptorsOnCqsOnce) {
  start();
  VIP_CQ_HANDLE cq = make_cq();
  const auto [vi, peer] = connected_pair(nullptr, cq);
  const VIP_VI_HANDLE quiet = connected_vi();
  ASSERT_EQ(VipPostRecv(quiet, packet(9, 8), memory), VIP_SUCCESS);
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_EQ(VipPostRecv(vi, packet(i, 8), memory), VIP_SUCCESS);
  }
  // Two complete; the entry of the first is read and its descriptor taken, the second's is not.
  VIP_DESCRIPTOR* done = nullptr;
  VIP_VI_HANDLE whose;
  VIP_BOOLEAN which;
  for (unsigned i = 0; i < 2; ++i) {
    ASSERT_EQ(VipPostSend(peer, filled(10, 8, 1), memory), VIP_SUCCESS);
    ASSERT_EQ(VipSendWait(peer, 5000, &done), VIP_SUCCESS);
  }
  ASSERT_EQ(VipCQWait(cq, 5000, &whose, &which), VIP_SUCCESS);
  ASSERT_EQ(VipRecvDone(vi, &done), VIP_SUCCESS);
  agent->die();
  for (unsigned i = 1; i < 4; ++i) {
    ASSERT_EQ(VipCQWait(cq, VIP_INFINITE, &whose, &which), VIP_SUCCESS) << i;
    EXPECT_EQ(whose, vi);
    EXPECT_EQ(which, VIP_TRUE);
  }
  for (unsigned i = 1; i < 4; ++i) {
    EXPECT_EQ(VipRecvDone(vi, &done), i == 1 ? VIP_SUCCESS : VIP_DESCRIPTOR_ERROR);
    EXPECT_EQ(done, &arena[i].descriptor);
  }
  EXPECT_EQ(VipCQWait(cq, VIP_INFINITE, &whose, &which), VIP_ERROR_RESOURCE);
  EXPECT_EQ(VipCQDone(cq, &whose, &which), VIP_ERROR_RESOURCE);
}

TEST_F(ViplSession, AnnouncesNothingThatWasTakenBackWithoutItsEntry) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [vi, peer] = connected_pair(cq, cq);
  for (int i = 0; i < 3; ++i) {
    exchange(vi, peer, filled(0, 8, 1), packet(1, 8));
    exchange(peer, vi, filled(0, 8, 1), packet(1, 8));
  }
  ASSERT_EQ(VipPostRecv(vi, packet(1, 8), memory), VIP_SUCCESS);
  agent->die();
  VIP_VI_HANDLE whose;
  VIP_BOOLEAN which;
  ASSERT_EQ(VipCQWait(cq, VIP_INFINITE, &whose, &which), VIP_SUCCESS);
  EXPECT_EQ(whose, vi);
  EXPECT_EQ(which, VIP_TRUE);
  EXPECT_EQ(VipCQWait(cq, VIP_INFINITE, &whose, &which), VIP_ERROR_RESOURCE);
}

TEST_F(ViplSession, WakesEverybodyWhenTheAgentDies) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const VIP_VI_HANDLE vi = connected_vi();
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  const VIP_VI_HANDLE polled = connected_vi();
  ASSERT_EQ(VipPostRecv(polled, packet(1, 8), memory), VIP_SUCCESS);
  std::thread in_queue([&] {
    VIP_DESCRIPTOR* done = nullptr;
    EXPECT_EQ(VipRecvWait(vi, VIP_INFINITE, &done), VIP_DESCRIPTOR_ERROR);
    EXPECT_EQ(done, &arena[0].descriptor);
  });
  std::thread in_cq([&] {
    VIP_VI_HANDLE whose;
    VIP_BOOLEAN which;
    EXPECT_EQ(VipCQWait(cq, VIP_INFINITE, &whose, &which), VIP_ERROR_RESOURCE);
  });
  std::thread in_command([&] {
    VIP_NET_ADDRESS local = {};
    alignas(8) unsigned char remote[128];
    VIP_VI_ATTRIBUTES a;
    VIP_CONN_HANDLE connection;
    EXPECT_EQ(VipConnectWait(nic, &local, VIP_INFINITE, reinterpret_cast<VIP_NET_ADDRESS*>(remote),
                             &a, &connection),
              VIP_ERROR_RESOURCE);
  });
  std::thread polling([&] {
    VIP_DESCRIPTOR* done = nullptr;
    VIP_RETURN result;
    while ((result = VipRecvDone(polled, &done)) == VIP_NOT_DONE) {
    }
    EXPECT_EQ(result, VIP_DESCRIPTOR_ERROR);
    EXPECT_EQ(done, &arena[1].descriptor);
  });
  usleep(30000);
  agent->die();
  for (std::thread* thread : {&in_queue, &in_cq, &in_command, &polling}) thread->join();
  expect_dead(*this, vi);
}

TEST_F(ViplSession, TakesTheWordClosedForTheAgentsDeath) {
  start();
  const VIP_VI_HANDLE vi = connected_vi();
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  std::thread waiter([&] {
    VIP_DESCRIPTOR* done = nullptr;
    EXPECT_EQ(VipRecvWait(vi, VIP_INFINITE, &done), VIP_DESCRIPTOR_ERROR);
  });
  while (agent->session().slept_on() == 0) usleep(1000);
  agent->session().end();
  waiter.join();
  expect_dead(*this, vi);
}

TEST_F(ViplSession, LetsEverybodyOutWhenTheNicIsClosed) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const VIP_VI_HANDLE vi = connected_vi();
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    VIP_VI_HANDLE whose;
    VIP_BOOLEAN which;
    EXPECT_EQ(VipCQWait(cq, VIP_INFINITE, &whose, &which), VIP_ERROR_RESOURCE);
  });
  threads.emplace_back([&] {
    VIP_DESCRIPTOR* done = nullptr;
    EXPECT_EQ(VipRecvWait(vi, VIP_INFINITE, &done), VIP_DESCRIPTOR_ERROR);
  });
  threads.emplace_back([&] {
    VIP_VI_HANDLE whose;
    VIP_BOOLEAN which;
    VIP_RETURN result;
    while ((result = VipCQDone(cq, &whose, &which)) == VIP_NOT_DONE) {
    }
    EXPECT_TRUE(result == VIP_ERROR_RESOURCE || result == VIP_INVALID_PARAMETER);
  });
  while (agent->session().slept_on() < 2) usleep(1000);
  EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
  for (std::thread& thread : threads) thread.join();
  nic = nullptr;
}

TEST_F(ViplSession, ClosesANicWhileAThreadBlocksOnAnother) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  std::atomic<bool> out{false};
  std::thread blocked([&] {
    VIP_VI_HANDLE whose;
    VIP_BOOLEAN which;
    EXPECT_EQ(VipCQWait(cq, VIP_INFINITE, &whose, &which), VIP_INVALID_PARAMETER);
    out = true;
  });
  usleep(10000);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(open_nic(), VIP_SUCCESS);
  EXPECT_FALSE(out);
  EXPECT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
  blocked.join();
}

TEST_F(ViplSession, LeavesTheParentAloneAfterFork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no threads after fork";
#endif
  start();
  const auto [vi, peer] = connected_pair();
  ASSERT_EQ(VipPostRecv(vi, packet(1, 8), memory), VIP_SUCCESS);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    VIP_DESCRIPTOR* done;
    VIP_NIC_HANDLE own = nullptr;
    VIP_PROTECTION_HANDLE ptag;
    int wrong = 0;
    if (VipRecvDone(vi, &done) != VIP_INVALID_PARAMETER) wrong |= 1;
    if (VipPostSend(vi, packet(0, 8), memory) != VIP_INVALID_PARAMETER) wrong |= 2;
    if (VipCloseNic(nic) != VIP_INVALID_PARAMETER) wrong |= 4;
    if (VipOpenNic("via0", &own) != VIP_SUCCESS) wrong |= 8;
    if (own == nic) wrong |= 16;
    if (VipCreatePtag(own, &ptag) != VIP_SUCCESS) wrong |= 32;
    if (VipCloseNic(own) != VIP_SUCCESS) wrong |= 64;
    _exit(wrong);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ASSERT_EQ(VipPostSend(peer, filled(0, 8, 1), memory), VIP_SUCCESS);
  VIP_DESCRIPTOR* done = nullptr;
  EXPECT_EQ(VipRecvWait(vi, 5000, &done), VIP_SUCCESS);
  EXPECT_EQ(done, &arena[1].descriptor);
}

TEST_F(ViplSession, GoesByTheEnvironmentThatItWasToKeep) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no threads after fork";
#endif
  agent = std::make_unique<TestAgent>();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    VipxKeepEnvironment();
    setenv("VIADUCT_SOCKET", "@viaduct-nobody-is-here", 1);
    if (open_nic() != VIP_SUCCESS) _exit(1);
    VipxKeepEnvironment();
    if (open_nic() != VIP_SUCCESS) _exit(2);
    environ = reinterpret_cast<char**>(1);
    _exit(open_nic() == VIP_SUCCESS ? 0 : 3);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ViplSession, LeavesThePlacesOfTheStandardStreamsFree) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no threads after fork";
#endif
  agent = std::make_unique<TestAgent>();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (int fd = 0; fd < 3; ++fd) close(fd);
    if (VipOpenNic("nic0", &nic) != VIP_SUCCESS) _exit(1);
    for (int fd = 0; fd < 3; ++fd) {
      if (fcntl(fd, F_GETFD) != -1) _exit(2);
    }
    VIP_PROTECTION_HANDLE ptag;
    _exit(VipCreatePtag(nic, &ptag) == VIP_SUCCESS ? 0 : 3);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ViplSession, EndsForTheAgentWhenTheParentClosesAndAChildLives) {
  start();
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(gate[1]);
    char byte;
    _exit(read(gate[0], &byte, 1) < 0);
  }
  EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
  nic = nullptr;
  while (agent->sessions() != 0) usleep(1000);
  close(gate[0]);
  close(gate[1]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(ViplText, HasATextForEveryCode) {
  for (int code = VIP_SUCCESS; code <= VIP_ERROR_NOT_SUPPORTED; ++code) {
    EXPECT_STRNE(VipxReturnText(static_cast<VIP_RETURN>(code)), "unknown return code") << code;
  }
  EXPECT_STREQ(VipxReturnText(static_cast<VIP_RETURN>(17)), "unknown return code");
  for (int code = VIP_ERROR_POST_DESC; code <= VIP_ERROR_CATASTROPHIC; ++code) {
    EXPECT_STRNE(VipxErrorText(static_cast<VIP_ERROR_CODE>(code)), "unknown error code") << code;
  }
  EXPECT_STREQ(VipxErrorText(static_cast<VIP_ERROR_CODE>(11)), "unknown error code");
  EXPECT_NE(std::string(VipxVersion()), "");
}

}  // namespace
}  // namespace viaduct::test
