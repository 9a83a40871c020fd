// Completion queues.
#include <thread>
#include <vector>

#include "tests/unit/vipl/fixture.h"

namespace viaduct::test {
namespace {

using ViplCq = ViplTest;

void expect_entry(VIP_CQ_HANDLE cq, VIP_VI_HANDLE vi, VIP_BOOLEAN receive) {
  VIP_VI_HANDLE whose = nullptr;
  VIP_BOOLEAN which = 5;
  ASSERT_EQ(VipCQWait(cq, 5000, &whose, &which), VIP_SUCCESS);
  EXPECT_EQ(whose, vi);
  EXPECT_EQ(which, receive);
}

void expect_nothing(VIP_CQ_HANDLE cq) {
  VIP_VI_HANDLE whose = cq;
  VIP_BOOLEAN which = 5;
  EXPECT_EQ(VipCQDone(cq, &whose, &which), VIP_NOT_DONE);
  EXPECT_EQ(whose, nullptr);
  EXPECT_EQ(VipCQWait(cq, 0, &whose, &which), VIP_TIMEOUT);
}

TEST_F(ViplCq, NamesViAndQueueInOrderAndDoneSucceedsAtOnce) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [one, far] = connected_pair(cq, cq);
  const auto [two, other] = connected_pair(nullptr, cq);
  expect_nothing(cq);
  VIP_DESCRIPTOR* done = nullptr;
  for (const VIP_VI_HANDLE vi : {one, two, one}) {
    const VIP_VI_HANDLE peer = vi == one ? far : other;
    ASSERT_EQ(VipPostRecv(vi, packet(1, 8), memory), VIP_SUCCESS);
    ASSERT_EQ(VipPostSend(peer, filled(0, 8, 1), memory), VIP_SUCCESS);
    expect_entry(cq, vi, VIP_TRUE);
    EXPECT_EQ(VipRecvDone(vi, &done), VIP_SUCCESS);
    EXPECT_EQ(VipSendWait(peer, 5000, &done), VIP_SUCCESS);
    if (vi != one) continue;
    ASSERT_EQ(VipPostRecv(peer, packet(1, 8), memory), VIP_SUCCESS);
    ASSERT_EQ(VipPostSend(vi, filled(0, 8, 1), memory), VIP_SUCCESS);
    expect_entry(cq, vi, VIP_FALSE);
    EXPECT_EQ(VipSendDone(vi, &done), VIP_SUCCESS);
    EXPECT_EQ(VipRecvWait(peer, 5000, &done), VIP_SUCCESS);
  }
  expect_nothing(cq);
}

TEST_F(ViplCq, PassesOverEntriesOfDescriptorsAlreadyTaken) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [vi, peer] = connected_pair(cq, cq);
  for (unsigned i = 0; i < 3; ++i) {
    exchange(vi, peer, filled(0, 8, 1), packet(1, 8));
    exchange(peer, vi, filled(0, 8, 1), packet(1, 8));
  }
  expect_nothing(cq);
  VIP_DESCRIPTOR* done = nullptr;
  ASSERT_EQ(VipPostRecv(peer, packet(1, 8), memory), VIP_SUCCESS);
  ASSERT_EQ(VipPostSend(vi, filled(0, 8, 1), memory), VIP_SUCCESS);
  expect_entry(cq, vi, VIP_FALSE);
  ASSERT_EQ(VipPostRecv(vi, packet(2, 8), memory), VIP_SUCCESS);
  ASSERT_EQ(VipPostSend(peer, filled(3, 8, 1), memory), VIP_SUCCESS);
  expect_entry(cq, vi, VIP_TRUE);
  ASSERT_EQ(VipRecvWait(peer, 5000, &done), VIP_SUCCESS);
}

TEST_F(ViplCq, NeverNamesADestroyedVi) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [gone, peer] = connected_pair(cq, cq);
  for (unsigned i = 0; i < 10; ++i) {
    ASSERT_EQ(VipPostRecv(gone, packet(i, 8), memory), VIP_SUCCESS);
  }
  ASSERT_EQ(VipDisconnect(gone), VIP_SUCCESS);
  ASSERT_EQ(VipDestroyVi(gone), VIP_SUCCESS);
  const VIP_VI_HANDLE vi = make_vi(cq, cq);  // takes the same index
  ASSERT_EQ(VipDisconnect(peer), VIP_SUCCESS);
  connect(vi, peer);
  expect_nothing(cq);
  ASSERT_EQ(VipPostRecv(vi, packet(1, 8), memory), VIP_SUCCESS);
  ASSERT_EQ(VipPostRecv(vi, packet(2, 8), memory), VIP_SUCCESS);
  ASSERT_EQ(VipDisconnect(vi), VIP_SUCCESS);
  VIP_VI_HANDLE whose = nullptr;
  VIP_BOOLEAN which;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(VipCQWait(cq, 5000, &whose, &which), VIP_SUCCESS);
    EXPECT_EQ(whose, vi);
  }
  expect_nothing(cq);
}

// Entries beyond the ring of a CQ come later.
TEST_F(ViplCq, LosesNoEntryWhenMoreCompleteThanAreShown) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  for (int round = 0; round < 2; ++round) {
    const std::vector<VIP_VI_HANDLE> vis = overflow(cq);
    for (const VIP_VI_HANDLE vi : vis) {
      for (std::size_t i = 0; i < kOverflowOfOne; ++i) {
        VIP_DESCRIPTOR* done = nullptr;
        expect_entry(cq, vi, VIP_TRUE);
        ASSERT_EQ(VipRecvDone(vi, &done), VIP_DESCRIPTOR_ERROR);
        ASSERT_NE(done, nullptr);
      }
    }
    expect_nothing(cq);
    for (const VIP_VI_HANDLE vi : vis) ASSERT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
  }
}

TEST_F(ViplCq, GoesRoundItsRing) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [vi, peer] = connected_pair(cq, cq);
  VIP_DESCRIPTOR* done = nullptr;
  for (unsigned i = 0; i < layout::kCqRingEntries * 5 / 8; ++i) {
    ASSERT_EQ(VipPostRecv(peer, packet(1, 8), memory), VIP_SUCCESS);
    ASSERT_EQ(VipPostSend(vi, packet(0, 8), memory), VIP_SUCCESS);
    expect_entry(cq, vi, VIP_FALSE);
    ASSERT_EQ(VipSendDone(vi, &done), VIP_SUCCESS);
    ASSERT_EQ(VipRecvWait(peer, 5000, &done), VIP_SUCCESS);
    ASSERT_EQ(VipPostRecv(vi, packet(1, 8), memory), VIP_SUCCESS);
    ASSERT_EQ(VipPostSend(peer, packet(0, 8), memory), VIP_SUCCESS);
    expect_entry(cq, vi, VIP_TRUE);
    ASSERT_EQ(VipRecvDone(vi, &done), VIP_SUCCESS);
    ASSERT_EQ(VipSendWait(peer, 5000, &done), VIP_SUCCESS);
  }
}

TEST_F(ViplCq, WakesASleeperAndTimesOutOtherwise) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [vi, peer] = connected_pair(nullptr, cq);
  VIP_VI_HANDLE whose;
  VIP_BOOLEAN which;
  EXPECT_EQ(VipCQWait(cq, 20, &whose, &which), VIP_TIMEOUT);
  ASSERT_EQ(VipPostRecv(vi, packet(1, 8), memory), VIP_SUCCESS);
  std::thread sleeper([&, vi = vi] { expect_entry(cq, vi, VIP_TRUE); });
  usleep(10000);
  EXPECT_EQ(VipPostSend(peer, packet(0, 8), memory), VIP_SUCCESS);
  sleeper.join();
}

TEST_F(ViplCq, LetsASleeperGoWhenItIsDestroyed) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  std::thread sleeper([&] {
    VIP_VI_HANDLE whose = cq;
    VIP_BOOLEAN which;
    EXPECT_EQ(VipCQWait(cq, VIP_INFINITE, &whose, &which), VIP_INVALID_PARAMETER);
    EXPECT_EQ(whose, nullptr);
  });
  usleep(20000);
  EXPECT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
  sleeper.join();
  VIP_VI_HANDLE whose;
  VIP_BOOLEAN which;
  EXPECT_EQ(VipCQDone(cq, &whose, &which), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipDestroyCQ(cq), VIP_INVALID_PARAMETER);
}

TEST_F(ViplCq, IsNotDestroyedWhileAViUsesIt) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const VIP_VI_HANDLE vi = make_vi(cq, nullptr);
  EXPECT_EQ(VipDestroyCQ(cq), VIP_ERROR_RESOURCE);
  ASSERT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
  EXPECT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
}

TEST_F(ViplCq, RefusesImpossibleSizesAndForeignQueues) {
  start();
  VIP_CQ_HANDLE cq = nullptr;
  EXPECT_EQ(VipCreateCQ(nic, 0, &cq), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipCreateCQ(nic, 1ul << 40, &cq), VIP_ERROR_RESOURCE);
  EXPECT_EQ(VipCreateCQ(nic, 1, nullptr), VIP_INVALID_PARAMETER);
  VIP_NIC_HANDLE other = nullptr;
  ASSERT_EQ(VipOpenNic("nic0", &other), VIP_SUCCESS);
  ASSERT_EQ(VipCreateCQ(other, 16, &cq), VIP_SUCCESS);
  VIP_VI_ATTRIBUTES a = attributes();
  VIP_VI_HANDLE vi;
  EXPECT_EQ(VipCreateVi(nic, &a, cq, nullptr, &vi), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipCreateVi(nic, &a, nullptr, nic, &vi), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipCloseNic(other), VIP_SUCCESS);
}

}  // namespace
}  // namespace viaduct::test
