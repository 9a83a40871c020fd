// VipCreateCQ, VipDestroyCQ, VipResizeCQ, VipCQDone, VipCQWait.
#include "suite.h"

namespace conformance {
namespace {

class FunctionCq : public Conformance {
 protected:
  // Two connected VIs; both queues of the second one are on the CQ.
  std::pair<Vi, Vi> connected_to(const Cq& cq) {
    const Vi a = near.vi(VIP_SERVICE_RELIABLE_DELIVERY);
    const Vi b = must(far.create_vi(far.vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY), cq.handle,
                                    cq.handle));
    connect(a, b);
    return {a, b};
  }
};

TEST_F(FunctionCq, CreateTakesSizesThatProgramsAskFor) {
  for (const std::uint64_t entries : {1U, 16U, 64U, 1024U}) {
    EXPECT_EQ(must(near.create_cq(entries)).destroy().code, VIP_SUCCESS) << entries;
  }
}

TEST_F(FunctionCq, CreateRefusesNonsense) {
  EXPECT_EQ(near.create_cq(0).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.create_cq(16, null(3)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.create_cq(near.attributes().max_cq_entries + 1).code, VIP_ERROR_RESOURCE);
  EXPECT_EQ(near.create_cq(near.attributes().max_cq_entries).code, VIP_SUCCESS);
  EXPECT_EQ(here->call<op::create_cq>(NicHandle{}, std::uint64_t{16}, Nulls{}).code,
            VIP_INVALID_PARAMETER);
}

TEST_F(FunctionCq, CreateEndsAtTheLimitAndGoesOnAfterIt) {
  std::vector<Cq> cqs;
  std::size_t first = 0;
  for (int round = 0; round < 2; ++round) {
    Got<Cq> made;
    while ((made = near.create_cq(16)).code == VIP_SUCCESS) {
      cqs.push_back(made.value);
      ASSERT_LE(cqs.size(), near.attributes().max_cq);
    }
    EXPECT_EQ(made.code, VIP_ERROR_RESOURCE);
    if (round == 0) first = cqs.size();
    EXPECT_EQ(cqs.size(), first) << "something was lost";
    for (const Cq& cq : cqs) ASSERT_EQ(cq.destroy().code, VIP_SUCCESS);
    cqs.clear();
  }
}

TEST_F(FunctionCq, DestroyRefusesOneThatAViUses) {
  const Cq cq = must(near.create_cq(16));
  const Vi vi = must(near.create_vi(near.vi_attributes(VIP_SERVICE_UNRELIABLE), {}, cq.handle));
  EXPECT_EQ(cq.destroy().code, VIP_ERROR_RESOURCE);
  must(vi.destroy());
  EXPECT_EQ(cq.destroy().code, VIP_SUCCESS);
  EXPECT_EQ(cq.destroy().code, VIP_INVALID_PARAMETER) << "twice";
  EXPECT_EQ(cq.done().code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(cq.wait(0).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(cq.resize(32).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionCq, DestroyEndsTheWaitingOfOtherThreads) {
  CHECKLIST(13);
  for (int i = 0; i < 10; ++i) {
    const Cq cq = must(near.create_cq(16));
    auto first = start([=] { return cq.wait(kInfinite); });
    auto second = start([=] { return cq.wait(kInfinite); });
    EXPECT_FALSE(first.returned_within(i * 2));
    must(cq.destroy());
    EXPECT_NE(first.get().code, VIP_SUCCESS);
    EXPECT_NE(second.get().code, VIP_SUCCESS);
  }
}

TEST_F(FunctionCq, ResizeWhileAThreadWaits) {
  CHECKLIST(13);
  const Cq cq = must(far.create_cq(16));
  const auto [a, b] = connected_to(cq);
  const Region out = near.memory(64), in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}}));
  auto waiting = start([=] { return cq.wait(kInfinite); });
  for (std::uint64_t entries = 48; entries < 1000; entries += 32) {
    ASSERT_EQ(cq.resize(entries).code, VIP_SUCCESS);
  }
  EXPECT_FALSE(waiting.returned());
  must(a.post_send({.segments = {out.all()}}));
  const CqEntry entry = must(waiting.get());
  EXPECT_EQ(entry.vi, b.handle);
  EXPECT_EQ(entry.recv_queue, VIP_TRUE);
}

TEST_F(FunctionCq, ResizeKeepsTheEntries) {
  const Cq cq = must(far.create_cq(64));
  const auto [a, b] = connected_to(cq);
  const Region out = near.memory(64), in = far.memory(64);
  for (int i = 0; i < 20; ++i) must(b.post_recv({.segments = {in.all()}}));
  for (int i = 0; i < 20; ++i) must(a.post_send({.segments = {out.all()}}));
  for (int i = 0; i < 20; ++i) must(a.send_wait());
  EXPECT_EQ(cq.resize(500).code, VIP_SUCCESS);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(cq.wait().code, VIP_SUCCESS) << i;
    EXPECT_EQ(b.recv_done().code, VIP_SUCCESS) << i;
  }
  EXPECT_EQ(cq.done().code, VIP_NOT_DONE);
}

TEST_F(FunctionCq, ResizeRefusesNonsense) {
  const Cq cq = must(near.create_cq(16));
  EXPECT_EQ(cq.resize(0).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(cq.resize(near.attributes().max_cq_entries + 1).code, VIP_ERROR_RESOURCE);
  EXPECT_EQ(here->call<op::resize_cq>(CqHandle{}, std::uint64_t{16}).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionCq, DoneSaysWhichQueueHasCompletedSomething) {
  CHECKLIST(7);
  const Cq cq = must(far.create_cq(16));
  const auto [a, b] = connected_to(cq);
  const Region out = near.memory(64), in = near.memory(64), theirs = far.memory(64);
  EXPECT_EQ(cq.done().code, VIP_NOT_DONE);
  must(b.post_recv({.segments = {theirs.all()}}));
  must(a.post_recv({.segments = {in.all()}}));
  must(a.post_send({.segments = {out.all()}}));
  CqEntry entry;
  while ((entry = cq.done()).code == VIP_NOT_DONE) continue;
  EXPECT_EQ(entry.vi, b.handle);
  EXPECT_EQ(entry.recv_queue, VIP_TRUE) << "exactly 1";
  EXPECT_EQ(b.recv_done().code, VIP_SUCCESS) << "at once";
  must(b.post_send({.segments = {theirs.all()}}));
  entry = must(cq.wait());
  EXPECT_EQ(entry.vi, b.handle);
  EXPECT_EQ(entry.recv_queue, VIP_FALSE) << "exactly 0";
  EXPECT_EQ(b.send_done().code, VIP_SUCCESS) << "at once";
}

TEST_F(FunctionCq, WaitRunsOutAndTakesItsTime) {
  const Cq cq = must(near.create_cq(16));
  const CqEntry poll = cq.wait(0);
  EXPECT_TRUE(poll.code == VIP_TIMEOUT || poll.code == VIP_NOT_DONE) << poll.code;
  const CqEntry one = cq.wait(1), hundred = cq.wait(100);
  EXPECT_EQ(one.code, VIP_TIMEOUT);
  EXPECT_EQ(hundred.code, VIP_TIMEOUT);
  EXPECT_GE(hundred.elapsed_ms(), 100U);
}

TEST_F(FunctionCq, DoneAndWaitRefuseNull) {
  const Cq cq = must(near.create_cq(16));
  EXPECT_EQ(cq.done(null(2)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(cq.done(null(3)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(cq.wait(0, null(3)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(cq.wait(0, null(4)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(here->call<op::cq_done>(CqHandle{}, Nulls{}).code, VIP_INVALID_PARAMETER);
}

}  // namespace
}  // namespace conformance
