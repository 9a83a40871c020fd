// The three reliability levels in case of errors (reference, 3.2).
#include "suite.h"

namespace conformance {
namespace {

class SemanticsLevels : public EachLevel {
 protected:
  // Checks the sender's descriptor and the connection after the peer could not take a message.
  void expect_outcome(const Vi& a, const Vi& b, std::uint32_t reception_status) {
    const Completion sent = a.send_wait();
    switch (level()) {
      case VIP_SERVICE_UNRELIABLE:
        EXPECT_EQ(sent.code, VIP_SUCCESS) << "the sender is not told";
        EXPECT_EQ(a.state(), VIP_STATE_CONNECTED);
        EXPECT_EQ(b.state(), VIP_STATE_CONNECTED);
        return;
      case VIP_SERVICE_RELIABLE_RECEPTION:
        EXPECT_EQ(sent.code, VIP_DESCRIPTOR_ERROR);
        EXPECT_TRUE(sent.status.has(reception_status)) << "the sender is told";
        break;
      default: break;  // may complete, if the data had left by then
    }
    EXPECT_EQ(a.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
    EXPECT_EQ(b.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
  }
};
ON_EACH_LEVEL(SemanticsLevels);

TEST_P(SemanticsLevels, AMessageWithoutAReceive) {
  const auto [a, b] = connected(level());
  const Region out = near.memory(64);
  must(a.post_send({.segments = {out.all()}}));
  expect_outcome(a, b, VIP_STATUS_REMOTE_DESC_ERROR);
}

TEST_P(SemanticsLevels, AMessageThatIsTooLong) {
  const auto [a, b] = connected(level());
  const Region out = near.memory(8000), in = far.memory(8000);
  for (const std::uint64_t bytes : {101U, 8000U}) {
    if (bytes == 8000 && reliable()) break;  // the connection is over by then
    const Posted receive = must(b.post_recv({.segments = {in.part(0, 100)}}));
    must(a.post_send({.segments = {out.part(0, bytes)}}));
    const Completion received = b.recv_wait();
    EXPECT_EQ(received.code, VIP_DESCRIPTOR_ERROR);
    EXPECT_EQ(received.id, receive.id);
    EXPECT_TRUE(received.status.has(VIP_STATUS_LENGTH_ERROR));
    expect_outcome(a, b, VIP_STATUS_REMOTE_DESC_ERROR);
  }
}

TEST_P(SemanticsLevels, AReceiveThatMayNotUseItsMemory) {
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), in = far.allocate(64);
  must(b.post_recv({.segments = {in.all()}}));
  must(a.post_send({.segments = {out.all()}}));
  const Completion received = b.recv_wait();
  EXPECT_EQ(received.code, VIP_DESCRIPTOR_ERROR);
  EXPECT_TRUE(received.status.has(VIP_STATUS_PROTECTION_ERROR));
  expect_outcome(a, b, VIP_STATUS_REMOTE_DESC_ERROR);
}

TEST_P(SemanticsLevels, AnRdmaWriteThatIsNotAllowed) {
  const auto [a, b] = connected_rdma(level());
  const Region out = near.rdma_memory(64), in = far.memory(64);
  in.fill(1);
  must(a.post_send({.op = Op::kRdmaWrite, .segments = {out.all()}, .remote = in.part(0, 0)}));
  EXPECT_TRUE(far.await_error(VIP_ERROR_RDMAW_PROT).came);
  expect_outcome(a, b, VIP_STATUS_RDMA_PROT_ERROR);
  EXPECT_TRUE(in.matches(1)) << "not a byte was written";
}

TEST_P(SemanticsLevels, AnRdmaWriteWithImmediateDataWithoutAReceive) {
  const auto [a, b] = connected_rdma(level());
  const Region out = near.rdma_memory(64), in = far.rdma_memory(64);
  must(a.post_send({.op = Op::kRdmaWrite,
                    .segments = {out.all()},
                    .remote = in.part(0, 0),
                    .immediate = 1}));
  EXPECT_TRUE(far.await_error(VIP_ERROR_RECVQ_EMPTY).came);
  expect_outcome(a, b, VIP_STATUS_REMOTE_DESC_ERROR);
}

TEST_P(SemanticsLevels, WhatFollowsAFailedSendIsNotExecuted) {
  NEEDS(reliable(), "on Unreliable Delivery it is");
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), in = far.memory(64);
  in.fill(1);
  // The second one would find a receive that fits; the first one does not.
  must(b.post_recv({.segments = {in.part(0, 10)}}));
  must(b.post_recv({.segments = {in.all()}}));
  for (int i = 0; i < 3; ++i) must(a.post_send({.segments = {out.all()}}));
  EXPECT_TRUE(b.recv_wait().status.has(VIP_STATUS_LENGTH_ERROR));
  EXPECT_TRUE(b.recv_wait().status.has(VIP_STATUS_DESC_FLUSHED_ERROR));
  EXPECT_TRUE(in.matches(1));
  for (int i = 0; i < 3; ++i) a.send_wait();
  EXPECT_EQ(a.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
}

TEST_P(SemanticsLevels, AnErrorOfAnUnreliableSendIsItsOwn) {
  NEEDS(!reliable(), "on the others it ends the connection");
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), wild = near.allocate(64), in = far.memory(64);
  must(a.post_send({.segments = {wild.all()}}));
  EXPECT_TRUE(a.send_wait().status.has(VIP_STATUS_PROTECTION_ERROR));
  must(b.post_recv({.segments = {in.all()}}));
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_EQ(a.send_wait().code, VIP_SUCCESS);
  EXPECT_EQ(b.recv_wait().code, VIP_SUCCESS);
}

TEST_P(SemanticsLevels, AReliableMessageSurvivesABrokenLink) {
  NEEDS(reliable(), "an unreliable one need not");
  NEEDS_CUT();
  const auto [a, b] = connected(level());
  const Region out = near.memory(60000), in = far.memory(60000);
  out.fill(3);
  must(b.post_recv({.segments = {in.all()}}));
  {
    Cut cut;
    must(a.post_send({.segments = {out.all()}}));
    EXPECT_EQ(b.recv_wait(100).code, VIP_TIMEOUT);
  }
  EXPECT_EQ(b.recv_wait().code, VIP_SUCCESS);
  EXPECT_TRUE(in.matches(3));
  EXPECT_EQ(a.send_wait().code, VIP_SUCCESS);
}

TEST_P(SemanticsLevels, AReliableMessageThatCantArriveIsATransportError) {
  NEEDS(reliable(), "an unreliable one is lost");
  NEEDS_CUT();
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}}));
  Cut cut;
  must(a.post_send({.segments = {out.all()}}));
  const Completion sent = a.send_wait();
  EXPECT_EQ(sent.code, VIP_DESCRIPTOR_ERROR);
  EXPECT_TRUE(sent.status.has(VIP_STATUS_TRANSPORT_ERROR));
  EXPECT_EQ(a.state(), VIP_STATE_ERROR);
  EXPECT_TRUE(b.recv_wait().status.has(VIP_STATUS_DESC_FLUSHED_ERROR));
}

}  // namespace
}  // namespace conformance
