// Items of the reference's checklist (section 6.3) that belong to no single function.
#include <dlfcn.h>
#include <pthread.h>

#include <cstring>
#include <thread>

#include "suite.h"

namespace conformance {
namespace {

using Checklist = Conformance;
constexpr VIP_RELIABILITY_LEVEL kChecklistLevel = VIP_SERVICE_RELIABLE_DELIVERY;

TEST_F(Checklist, AThreadThatWaitsHoldsNothing) {
  CHECKLIST(16);
  auto waiting = start([nic = near, address = near.address(fresh())] {
    return nic.connect_wait(address, kInfinite);
  });
  EXPECT_FALSE(waiting.returned_within(20));
  const Region memory = near.memory(64);
  const Cq cq = must(near.create_cq(16));
  const auto [a, b] = connected(kChecklistLevel);
  must(a.disconnect());
  must(a.destroy());
  must(cq.destroy());
  must(memory.deregister());
  EXPECT_FALSE(waiting.returned());
}

TEST_F(Checklist, AThreadThatIsEndedInAWaitHoldsNothing) {
  CHECKLIST(16);
  NEEDS(dlsym(RTLD_DEFAULT, "__asan_init") == nullptr,
        "the address sanitizer takes the frames of a cancelled thread for living ones");
  const std::string name = fresh();
  struct Shared {
    VIP_NIC_HANDLE nic;
    unsigned char address[64];
  } shared{near.raw(), {}};
  auto* const local = reinterpret_cast<VIP_NET_ADDRESS*>(shared.address);
  local->HostAddressLen = 6;
  local->DiscriminatorLen = static_cast<VIP_UINT16>(name.size());
  std::memcpy(local->HostAddress + 6, name.data(), name.size());
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, nullptr,
                [](void* argument) -> void* {
                  auto* const mine = static_cast<Shared*>(argument);
                  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
                  alignas(8) unsigned char remote[256] = {};
                  VIP_VI_ATTRIBUTES attributes;
                  VIP_CONN_HANDLE connection;
                  VipConnectWait(mine->nic, reinterpret_cast<VIP_NET_ADDRESS*>(mine->address),
                                 VIP_INFINITE, reinterpret_cast<VIP_NET_ADDRESS*>(remote),
                                 &attributes, &connection);
                  return nullptr;
                },
                &shared),
            0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ASSERT_EQ(pthread_cancel(thread), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  // Everything goes on, and the request goes to the thread that waits now.
  const Vi client = far.vi(kChecklistLevel), server = near.vi(kChecklistLevel);
  auto asked = start([client, from = far.address("c"), to = near.address(name)] {
    return client.connect_request(from, to, kSoon);
  });
  must(near.connect_accept(must(near.connect_wait(near.address(name))).conn, server));
  EXPECT_EQ(asked.get().code, VIP_SUCCESS);
}

TEST_F(Checklist, AllFunctionsCanBeFoundByName) {
  CHECKLIST(27);
  for (const char* const name :
       {"VipOpenNic", "VipCloseNic", "VipQueryNic", "VipRegisterMem", "VipDeregisterMem",
        "VipQueryMem", "VipSetMemAttributes", "VipCreatePtag", "VipDestroyPtag", "VipCreateVi",
        "VipDestroyVi", "VipQueryVi", "VipSetViAttributes", "VipConnectWait", "VipConnectAccept",
        "VipConnectReject", "VipConnectRequest", "VipDisconnect", "VipConnectPeerRequest",
        "VipConnectPeerDone", "VipConnectPeerWait", "VipPostSend", "VipSendDone", "VipSendWait",
        "VipSendNotify", "VipPostRecv", "VipRecvDone", "VipRecvWait", "VipRecvNotify", "VipCreateCQ",
        "VipDestroyCQ", "VipResizeCQ", "VipCQDone", "VipCQWait", "VipCQNotify", "VipNSInit",
        "VipNSGetHostByName", "VipNSGetHostByAddr", "VipNSShutdown", "VipErrorCallback",
        "VipQuerySystemManagementInfo"}) {
    EXPECT_NE(dlsym(RTLD_DEFAULT, name), nullptr) << name;
  }
}

TEST_F(Checklist, StructuresAreThoseOfTheTime) {
  CHECKLIST(27);
  if (sizeof(void*) != 8) GTEST_SKIP() << "the figures are for 64 bits";
  EXPECT_EQ(sizeof(VIP_DESCRIPTOR), 64U);
  EXPECT_EQ(sizeof(VIP_CONTROL_SEGMENT), 32U);
  EXPECT_EQ(sizeof(VIP_DATA_SEGMENT), 16U);
  EXPECT_EQ(sizeof(VIP_ADDRESS_SEGMENT), 16U);
  EXPECT_EQ(sizeof(VIP_NIC_ATTRIBUTES), 200U);
  EXPECT_EQ(sizeof(VIP_VI_ATTRIBUTES), 40U);
  EXPECT_EQ(sizeof(VIP_MEM_ATTRIBUTES), 16U);
  EXPECT_EQ(sizeof(VIP_ERROR_DESCRIPTOR), 48U);
  EXPECT_EQ(sizeof(VIP_AUTODISCOVERY_LIST), 24U);
  EXPECT_EQ(offsetof(VIP_NET_ADDRESS, HostAddress), 4U);
  EXPECT_EQ(offsetof(VIP_CONTROL_SEGMENT, Status), 28U);
}

TEST_F(Checklist, InfiniteMayComeAs32BitsOfOnes) {
  CHECKLIST(27);
  const Cq cq = must(near.create_cq(16));
  auto waiting = start([cq] { return cq.wait(0x00000000ffffffffULL); });
  EXPECT_FALSE(waiting.returned_within(100));
  must(cq.destroy());
  EXPECT_NE(waiting.get().code, VIP_SUCCESS);
}

TEST_F(Checklist, ANicThatIsClosedWithConnectionsIsAsOneThatDisconnects) {
  CHECKLIST(28);
  const Nic other = open_far();
  const Vi a = near.vi(kChecklistLevel), b = other.vi(kChecklistLevel);
  connect(near, a, other, b);
  const Region in = near.memory(64);
  must(a.post_recv({.segments = {in.all()}}));
  other.memory(100000);
  must(other.close());
  EXPECT_TRUE(a.recv_wait().status.has(VIP_STATUS_DESC_FLUSHED_ERROR));
  EXPECT_EQ(a.state(), VIP_STATE_ERROR);
}

TEST_F(Checklist, APeerThatLeavesWithoutAWordIsAsOneThatDisconnects) {
  CHECKLIST(28);
  NEEDS_TWO_PROCESSES();
  const Region in = near.memory(64);
  for (int i = 0; i < 3; ++i) {
    const HostPtr other = another_there();
    const Nic nic = must(Nic::open(other, options.peer_device));
    const Vi a = near.vi(kChecklistLevel), b = nic.vi(kChecklistLevel);
    connect(near, a, nic, b);
    must(a.post_recv({.segments = {in.all()}}));
    nic.memory(100000);
    kill_peer(other);
    EXPECT_TRUE(a.recv_wait().status.has(VIP_STATUS_DESC_FLUSHED_ERROR));
    EXPECT_EQ(a.state(), VIP_STATE_ERROR);
    EXPECT_EQ(a.disconnect().code, VIP_SUCCESS);
  }
}

TEST_F(Checklist, WhatAProgramHasPostedBeforeItEndsArrives) {
  CHECKLIST(28);
  NEEDS_TWO_PROCESSES();
  constexpr std::uint32_t kMessages = 100, kBytes = 32768;
  const Region in = near.memory(kBytes);
  const HostPtr other = another_there();
  const Nic nic = must(Nic::open(other, options.peer_device));
  const Vi a = near.vi(kChecklistLevel), b = nic.vi(kChecklistLevel);
  connect(near, a, nic, b);
  const Region out = nic.memory(kBytes);
  for (std::uint32_t i = 0; i < kMessages; ++i) must(a.post_recv({.segments = {in.all()}}));
  post_and_leave(b, {.segments = {out.all()}}, kMessages);
  for (std::uint32_t i = 0; i < kMessages; ++i) ASSERT_EQ(a.recv_wait().code, VIP_SUCCESS) << i;
  EXPECT_EQ(a.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
}

TEST_F(Checklist, AHostReachesItsOwnAddress) {
  CHECKLIST(29);
  const Nic other = open_near();
  for (const Nic& to : {near, other}) {
    const Vi a = near.vi(kChecklistLevel), b = to.vi(kChecklistLevel);
    connect(near, a, to, b);
    const Region out = near.memory(5000), in = to.memory(5000);
    out.fill(2);
    must(b.post_recv({.segments = {in.all()}}));
    must(a.post_send({.segments = {out.all()}}));
    EXPECT_EQ(b.recv_wait().code, VIP_SUCCESS);
    EXPECT_TRUE(in.matches(2));
    must(a.send_wait());
  }
}

TEST_F(Checklist, NoNameOfAProgramIsCaptured) {
  CHECKLIST(24);
  // The suite defines such functions itself; see captured_names.c. Here the library is made to
  // sleep and to wake, which it must not do through them.
  const Cq cq = must(near.create_cq(16));
  auto waiting = start([cq] { return cq.wait(50); });
  EXPECT_EQ(waiting.get().code, VIP_TIMEOUT);
  const auto [a, b] = connected(kChecklistLevel);
  EXPECT_EQ(a.state(), VIP_STATE_CONNECTED);
}

TEST_F(Checklist, ServersTakePeersInAFixedOrderWhileOthersRetry) {
  CHECKLIST(4);
  std::vector<std::string> names;
  std::vector<Started<Outgoing>> asked;
  for (int i = 0; i < 5; ++i) names.push_back(fresh());
  for (int i = 4; i >= 0; --i) {
    asked.push_back(start([vi = near.vi(kChecklistLevel), from = near.address("c"),
                           to = far.address(names[static_cast<std::size_t>(i)])] {
      Outgoing answer;
      do answer = vi.connect_request(from, to, 30);
      while (answer.code == VIP_NO_MATCH || answer.code == VIP_TIMEOUT);
      return answer;
    }));
  }
  for (const std::string& name : names) {
    for (;;) {
      const Incoming incoming = must(far.connect_wait(far.address(name)));
      if (far.connect_accept(incoming.conn, far.vi(kChecklistLevel)).code == VIP_SUCCESS) break;
    }
  }
  for (auto& one : asked) EXPECT_EQ(one.get().code, VIP_SUCCESS);
}

}  // namespace
}  // namespace conformance
