// VipPostSend, VipPostRecv, VipSendDone, VipRecvDone, VipSendWait, VipRecvWait.
#include "suite.h"

namespace conformance {
namespace {

class FunctionTransfer : public EachLevel {};
ON_EACH_LEVEL(FunctionTransfer);

constexpr std::uint32_t kReceived = VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE;
constexpr std::uint32_t kSent = VIP_STATUS_DONE | VIP_STATUS_OP_SEND;

TEST_P(FunctionTransfer, DoneTellsWhatIsAtTheHeadOfAQueue) {
  CHECKLIST(6);
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), in = far.memory(64);
  for (const Completion& empty : {a.send_done(), a.recv_done(), b.recv_done()}) {
    EXPECT_EQ(empty.code, VIP_DESCRIPTOR_ERROR) << "an empty queue";
    EXPECT_EQ(empty.id, kNoDescriptor);
  }
  const Posted posted = must(b.post_recv({.segments = {in.all()}}));
  const Completion pending = b.recv_done();
  EXPECT_EQ(pending.code, VIP_NOT_DONE);
  EXPECT_EQ(pending.id, kNoDescriptor);
  must(a.post_send({.segments = {out.all()}}));
  Completion done;
  while ((done = b.recv_done()).code == VIP_NOT_DONE) continue;
  EXPECT_EQ(done.code, VIP_SUCCESS);
  EXPECT_EQ(done.id, posted.id);
  EXPECT_EQ(b.recv_done().id, kNoDescriptor) << "taken back";
  while ((done = a.send_done()).code == VIP_NOT_DONE) continue;
  EXPECT_EQ(done.code, VIP_SUCCESS);
}

TEST_P(FunctionTransfer, WaitTakesItsTimeAndNotMore) {
  const auto [a, b] = connected(level());
  const Region in = near.memory(64);
  const Completion empty = a.recv_wait(100);
  EXPECT_TRUE(empty.code == VIP_TIMEOUT || empty.code == VIP_DESCRIPTOR_ERROR) << "an empty queue";
  EXPECT_EQ(empty.id, kNoDescriptor);
  must(a.post_recv({.segments = {in.all()}}));
  const Completion poll = a.recv_wait(0);
  EXPECT_TRUE(poll.code == VIP_TIMEOUT || poll.code == VIP_NOT_DONE) << poll.code;
  const Completion wait = a.recv_wait(100);
  EXPECT_EQ(wait.code, VIP_TIMEOUT);
  EXPECT_EQ(wait.id, kNoDescriptor);
  EXPECT_GE(wait.elapsed_ms(), 100U);
}

TEST_P(FunctionTransfer, ALongSendIsSeenUnderWay) {
  const std::uint64_t size = near.attributes().max_transfer_size;
  const auto [a, b] = connected(level());
  const Region out = near.memory(size), in = far.memory(size);
  bool not_done = false, timeout = false;
  for (int i = 0; i < 200 && !(not_done && timeout); ++i) {
    must(b.post_recv({.segments = {in.all()}}));
    must(a.post_send({.segments = {out.all()}}));
    Completion sent = i % 2 != 0 ? a.send_done() : a.send_wait(0);
    not_done |= sent.code == VIP_NOT_DONE && i % 2 != 0;
    timeout |= sent.code == VIP_TIMEOUT;
    if (sent.id == kNoDescriptor) sent = a.send_wait();
    EXPECT_EQ(sent.code, VIP_SUCCESS);
    if (reliable()) must(b.recv_wait());
  }
  EXPECT_TRUE(not_done);
  EXPECT_TRUE(timeout);
}

TEST_P(FunctionTransfer, WaitForEverEndsWhenTheMessageComes) {
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}}));
  auto waiting = start([b = b] { return b.recv_wait(kInfinite); });
  EXPECT_FALSE(waiting.returned_within(50));
  EXPECT_EQ(b.recv_done().code, VIP_NOT_DONE) << "Done does not block beside a Wait";
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_EQ(waiting.get().code, VIP_SUCCESS);
  EXPECT_EQ(must(a.send_wait(kInfinite)).status, Status{kSent});
}

TEST_P(FunctionTransfer, WaitWorksOnQueuesWithACqToo) {
  const Cq cq = must(far.create_cq(16));
  const Vi a = near.vi(level()), b = must(far.create_vi(far.vi_attributes(level()), cq.handle,
                                                        cq.handle));
  connect(a, b);
  const Region out = near.memory(64), in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}}));
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_EQ(b.recv_wait().code, VIP_SUCCESS);
  must(a.send_wait());
}

TEST_P(FunctionTransfer, QueuesTakeAsManyAsTheNicSaysAndNotMore) {
  const Vi vi = near.vi(level());
  const Region in = near.memory(64);
  const std::uint64_t most = near.attributes().max_descriptors_per_queue;
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 0; i < most; ++i) {
      ASSERT_EQ(vi.post_recv({.segments = {in.all()}}).code, VIP_SUCCESS) << i;
    }
    EXPECT_EQ(vi.post_recv({.segments = {in.all()}}).code, VIP_ERROR_RESOURCE);
    // A connection that ends gives them back.
    const Vi peer = far.vi(level());
    connect(vi, peer);
    must(vi.disconnect());
    EXPECT_EQ(vi.drain_recv().size(), most);
  }
  // The send queue stays full as long as the test takes nothing off it.
  for (std::uint64_t i = 0; i < most; ++i) {
    ASSERT_EQ(vi.post_send({.segments = {in.all()}}).code, VIP_SUCCESS) << i;
  }
  EXPECT_EQ(vi.post_send({.segments = {in.all()}}).code, VIP_ERROR_RESOURCE);
  for (std::uint64_t i = 0; i < most; ++i) {
    ASSERT_EQ(vi.send_wait().code, VIP_DESCRIPTOR_ERROR) << "flushed, for the VI is not connected";
  }
  EXPECT_EQ(vi.post_send({.segments = {in.all()}}).code, VIP_SUCCESS);
}

TEST_P(FunctionTransfer, PostRefusesNullAndBadHandles) {
  const Vi vi = near.vi(level());
  const Region in = near.memory(64);
  EXPECT_EQ(vi.post_send({.segments = {in.all()}}, null(2)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi.post_recv({.segments = {in.all()}}, null(2)).code, VIP_INVALID_PARAMETER);
  must(vi.destroy());
  EXPECT_EQ(vi.post_send({.segments = {in.all()}}).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi.post_recv({.segments = {in.all()}}).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi.send_done().code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi.recv_done().code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi.send_wait(0).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi.recv_wait(0).code, VIP_INVALID_PARAMETER);
}

TEST_P(FunctionTransfer, DoneAndWaitRefuseNull) {
  const Vi vi = near.vi(level());
  EXPECT_EQ(vi.send_done(null(2)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi.recv_done(null(2)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi.send_wait(0, null(3)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi.recv_wait(0, null(3)).code, VIP_INVALID_PARAMETER);
}

TEST_P(FunctionTransfer, EmptyMessagesHaveNoSegmentOrAnEmptyOne) {
  CHECKLIST(9);
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), in = far.memory(64);
  for (const bool segment : {false, true}) {
    const auto some = [segment](const Segment& part) {
      return segment ? std::vector<Segment>{part} : std::vector<Segment>{};
    };
    must(b.post_recv({.segments = some(in.part(0, 0))}));
    must(a.post_send({.segments = some(out.part(0, 0)), .immediate = 17}));
    const Completion received = must(b.recv_wait());
    EXPECT_EQ(received.length, 0U);
    EXPECT_EQ(received.immediate, 17U);
    EXPECT_EQ(must(a.send_wait()).status, Status{kSent});
  }
}

TEST_P(FunctionTransfer, ReceivesMayBearTheBitOfImmediateData) {
  CHECKLIST(9);
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}, .immediate = 1}));
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_EQ(must(b.recv_wait()).status, Status{kReceived});
}

TEST_P(FunctionTransfer, AnOldStatusIsOverwritten) {
  CHECKLIST(8);
  CHECKLIST(20);
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), in = far.memory(64);
  constexpr std::uint32_t kOld = 0x90001;
  must(b.post_recv({.segments = {in.all()}, .old_status = kOld}));
  EXPECT_EQ(b.recv_done().code, VIP_NOT_DONE) << "the old status is not a completion";
  must(a.post_send({.segments = {out.all()}, .old_status = kOld}));
  const Completion received = must(b.recv_wait()), sent = must(a.send_wait());
  EXPECT_EQ(received.status, Status{kReceived});
  EXPECT_EQ(sent.status, Status{kSent});
}

TEST_P(FunctionTransfer, DescriptorsComeBackAsTheyWere) {
  CHECKLIST(8);
  const auto [a, b] = connected(level());
  const Region out = near.memory(4096), in = far.memory(4096);
  must(b.post_recv({.segments = {in.part(0, 1000), in.part(1000, 3000)}}));
  must(a.post_send({.segments = {out.part(0, 700), out.part(700, 800)}, .immediate = 3}));
  const Completion received = must(b.recv_wait()), sent = must(a.send_wait());
  EXPECT_TRUE(received.intact);
  EXPECT_TRUE(sent.intact);
  EXPECT_EQ(received.length, 1500U) << "what was received";
  EXPECT_EQ(sent.immediate, 3U) << "the sender's own";
}

TEST_P(FunctionTransfer, ImmediateDataIsWrittenOnlyWhenItCame) {
  CHECKLIST(8);
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}, .old_immediate = 0x11223344}));
  must(a.post_send({.segments = {out.all()}, .old_immediate = 0x55667788}));
  const Completion received = must(b.recv_wait());
  EXPECT_EQ(received.immediate, 0x11223344U);
  must(a.send_wait());
}

TEST_P(FunctionTransfer, WaitEndsWhenTheViIsDestroyed) {
  const Vi vi = near.vi(level());
  const Region in = near.memory(64);
  must(vi.post_recv({.segments = {in.all()}}));
  auto waiting = start([=] { return vi.recv_wait(kInfinite); });
  EXPECT_FALSE(waiting.returned_within(20));
  must(vi.destroy());
  EXPECT_NE(waiting.get().code, VIP_SUCCESS);
}

}  // namespace
}  // namespace conformance
