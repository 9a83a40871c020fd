// The states of a VI, what its queues do in each of them, and what is flushed when.
#include "suite.h"

namespace conformance {
namespace {

class SemanticsState : public EachLevel {};
ON_EACH_LEVEL(SemanticsState);

// That a descriptor was flushed, and nothing else.
void expect_flushed(const Completion& completion, const Posted& posted, std::uint32_t operation) {
  EXPECT_EQ(completion.code, VIP_DESCRIPTOR_ERROR);
  EXPECT_EQ(completion.id, posted.id);
  EXPECT_TRUE(completion.status.has(VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR));
  EXPECT_EQ(completion.status.operation(), operation);
}

TEST_P(SemanticsState, AnIdleViKeepsReceivesAndFlushesSends) {
  const Vi vi = near.vi(level());
  const Region memory = near.memory(64);
  must(vi.post_recv({.segments = {memory.all()}}));
  const Posted send = must(vi.post_send({.segments = {memory.all()}}));
  expect_flushed(vi.send_wait(), send, VIP_STATUS_OP_SEND);
  EXPECT_EQ(vi.recv_done().code, VIP_NOT_DONE);
  EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
}

TEST_P(SemanticsState, APendingViIsAsAnIdleOne) {
  const Vi vi = near.vi(level());
  const Region memory = near.memory(64);
  must(vi.connect_peer_request(near.address("p"), far.address("q"), kInfinite));
  EXPECT_EQ(vi.state(), VIP_STATE_CONNECT_PENDING);
  must(vi.post_recv({.segments = {memory.all()}}));
  const Posted send = must(vi.post_send({.segments = {memory.all()}}));
  expect_flushed(vi.send_wait(), send, VIP_STATUS_OP_SEND);
  EXPECT_EQ(vi.recv_done().code, VIP_NOT_DONE);
  EXPECT_EQ(vi.destroy().code, VIP_INVALID_STATE);
  must(vi.disconnect());
  EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
}

TEST_P(SemanticsState, AnOwnDisconnectFlushesInOrderAndLeadsToIdle) {
  const auto [a, b] = connected(level());
  const Region memory = near.memory(64);
  std::vector<Posted> posted;
  for (int i = 0; i < 10; ++i) posted.push_back(must(a.post_recv({.segments = {memory.all()}})));
  must(a.disconnect());
  EXPECT_EQ(a.state(), VIP_STATE_IDLE);
  for (const Posted& one : posted) expect_flushed(a.recv_done(), one, VIP_STATUS_OP_RECEIVE);
  EXPECT_EQ(a.recv_done().id, kNoDescriptor);
}

TEST_P(SemanticsState, ThePeersDisconnectLeadsToErrorAndIsSeenWithoutAnyCall) {
  CHECKLIST(11);
  const auto [a, b] = connected(level());
  const Region memory = near.memory(64);
  std::vector<Posted> posted;
  for (int i = 0; i < 10; ++i) posted.push_back(must(a.post_recv({.segments = {memory.all()}})));
  must(b.disconnect());
  EXPECT_EQ(b.state(), VIP_STATE_IDLE);
  EXPECT_EQ(a.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
  for (const Posted& one : posted) expect_flushed(a.recv_wait(), one, VIP_STATUS_OP_RECEIVE);
  // In Error everything comes back at once.
  const Posted receive = must(a.post_recv({.segments = {memory.all()}}));
  expect_flushed(a.recv_wait(), receive, VIP_STATUS_OP_RECEIVE);
  const Posted send = must(a.post_send({.segments = {memory.all()}}));
  expect_flushed(a.send_wait(), send, VIP_STATUS_OP_SEND);
  must(a.disconnect());
  EXPECT_EQ(a.state(), VIP_STATE_IDLE);
}

TEST_P(SemanticsState, WaitsReturnWhatIsFlushed) {
  const auto [a, b] = connected(level());
  const Region memory = near.memory(64);
  const Posted posted = must(a.post_recv({.segments = {memory.all()}}));
  auto waiting = start([a = a] { return a.recv_wait(kInfinite); });
  EXPECT_FALSE(waiting.returned_within(20));
  must(b.disconnect());
  expect_flushed(waiting.get(), posted, VIP_STATUS_OP_RECEIVE);
}

TEST_P(SemanticsState, AViConnectsAnewAfterAnError) {
  const auto [a, b] = connected(level());
  const Region out = near.memory(500), in = far.memory(500);
  must(b.disconnect());
  EXPECT_EQ(a.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
  must(a.disconnect());
  must(b.post_recv({.segments = {in.all()}}));
  connect(a, b);
  out.fill(4);
  must(a.post_send({.segments = {out.all()}}));
  must(b.recv_wait());
  EXPECT_TRUE(in.matches(4));
}

TEST_P(SemanticsState, FlushedDescriptorsKeepTheirOperation) {
  const auto [a, b] = connected_rdma(level());
  const Region memory = near.rdma_memory(64), target = far.rdma_memory(64);
  must(a.disconnect());
  const Posted write = must(
      a.post_send({.op = Op::kRdmaWrite, .segments = {memory.all()}, .remote = target.part(0, 0)}));
  expect_flushed(a.send_wait(), write, VIP_STATUS_OP_RDMA_WRITE);
}

TEST_P(SemanticsState, FlushedDescriptorsAreAnnouncedOnTheCq) {
  const Cq cq = must(near.create_cq(64));
  const Vi a = must(near.create_vi(near.vi_attributes(level()), cq.handle, cq.handle));
  const Vi b = far.vi(level());
  connect(a, b);
  const Region memory = near.memory(64);
  for (int i = 0; i < 5; ++i) must(a.post_recv({.segments = {memory.all()}}));
  must(a.disconnect());
  for (int i = 0; i < 5; ++i) {
    const CqEntry entry = must(cq.wait());
    EXPECT_EQ(entry.vi, a.handle);
    EXPECT_EQ(entry.recv_queue, VIP_TRUE);
    EXPECT_TRUE(a.recv_done().status.has(VIP_STATUS_DESC_FLUSHED_ERROR));
  }
  EXPECT_EQ(cq.done().code, VIP_NOT_DONE);
}

TEST_P(SemanticsState, DataForAViThatIsNotConnectedGoesNowhere) {
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), in = far.memory(64);
  must(b.disconnect());
  must(b.post_recv({.segments = {in.all()}}));
  must(a.post_send({.segments = {out.all()}}));
  a.send_wait();
  EXPECT_EQ(b.recv_wait(50).code, VIP_TIMEOUT);
}

}  // namespace
}  // namespace conformance
