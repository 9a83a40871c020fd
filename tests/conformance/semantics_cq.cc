// Completion queues: no entry is lost, none is of something that is gone.
#include "suite.h"

namespace conformance {
namespace {

class SemanticsCq : public Conformance {
 protected:
  static constexpr VIP_RELIABILITY_LEVEL kLevel = VIP_SERVICE_RELIABLE_DELIVERY;

  std::pair<Vi, Vi> connected_to(const Cq& cq) {
    const Vi a = near.vi(kLevel);
    const Vi b = must(far.create_vi(far.vi_attributes(kLevel), cq.handle, cq.handle));
    connect(a, b);
    return {a, b};
  }
};

TEST_F(SemanticsCq, ASmallQueueLosesNothing) {
  CHECKLIST(7);
  const Cq cq = must(far.create_cq(16));
  constexpr int kVis = 8, kEach = 64;
  const Region out = near.memory(64), in = far.memory(64);
  std::vector<std::pair<Vi, Vi>> pairs;
  for (int v = 0; v < kVis; ++v) {
    pairs.push_back(connected_to(cq));
    for (int i = 0; i < kEach; ++i) must(pairs[v].second.post_recv({.segments = {in.all()}}));
  }
  for (int i = 0; i < kEach; ++i) {
    for (const auto& [a, b] : pairs) must(a.post_send({.segments = {out.all()}}));
  }
  for (const auto& [a, b] : pairs) {
    for (int i = 0; i < kEach; ++i) must(a.send_wait());
  }
  for (int i = 0; i < kVis * kEach; ++i) {
    const CqEntry entry = cq.wait();
    ASSERT_EQ(entry.code, VIP_SUCCESS) << i;
    bool found = false;
    for (const auto& [a, b] : pairs) {
      if (b.handle != entry.vi) continue;
      found = true;
      ASSERT_EQ(b.recv_done().code, VIP_SUCCESS) << "at once";
    }
    ASSERT_TRUE(found);
  }
  EXPECT_EQ(cq.done().code, VIP_NOT_DONE);
}

TEST_F(SemanticsCq, EntriesOfWhatWasTakenBackWithoutThemDontHurt) {
  const Cq cq = must(far.create_cq(64));
  const auto [a, b] = connected_to(cq);
  const Region out = near.memory(64), in = far.memory(64);
  for (int i = 0; i < 10; ++i) must(b.post_recv({.segments = {in.all()}}));
  for (int i = 0; i < 9; ++i) must(a.post_send({.segments = {out.all()}}));
  for (int i = 0; i < 9; ++i) must(b.recv_wait());
  must(a.post_send({.segments = {out.all()}}));
  const CqEntry entry = must(cq.wait());
  EXPECT_EQ(entry.vi, b.handle);
  EXPECT_EQ(b.recv_done().code, VIP_SUCCESS) << "the entry is of the one that is still there";
}

TEST_F(SemanticsCq, ADestroyedViIsNeverReturned) {
  const Cq cq = must(far.create_cq(64));
  const Region out = near.memory(64), in = far.memory(64);
  for (int round = 0; round < 5; ++round) {
    const auto [a, b] = connected_to(cq);
    for (int i = 0; i < 10; ++i) must(b.post_recv({.segments = {in.all()}}));
    for (int i = 0; i < 5; ++i) must(a.post_send({.segments = {out.all()}}));
    for (int i = 0; i < 5; ++i) must(a.send_wait());
    must(b.disconnect());
    must(b.destroy());
    EXPECT_EQ(cq.done().code, VIP_NOT_DONE);
  }
  const auto [a, b] = connected_to(cq);
  must(b.post_recv({.segments = {in.all()}}));
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_EQ(must(cq.wait()).vi, b.handle);
}

TEST_F(SemanticsCq, TwoQueuesMayHaveDifferentCqs) {
  const Cq sends = must(far.create_cq(16)), receives = must(far.create_cq(16));
  const Vi a = near.vi(kLevel);
  const Vi b = must(far.create_vi(far.vi_attributes(kLevel), sends.handle, receives.handle));
  connect(a, b);
  const Region mine = near.memory(64), theirs = far.memory(64);
  must(b.post_recv({.segments = {theirs.all()}}));
  must(a.post_recv({.segments = {mine.all()}}));
  must(a.post_send({.segments = {mine.all()}}));
  EXPECT_EQ(must(receives.wait()).recv_queue, VIP_TRUE);
  EXPECT_EQ(sends.done().code, VIP_NOT_DONE);
  must(b.post_send({.segments = {theirs.all()}}));
  EXPECT_EQ(must(sends.wait()).recv_queue, VIP_FALSE);
  EXPECT_EQ(receives.done().code, VIP_NOT_DONE);
}

TEST_F(SemanticsCq, AQueueOutlivesItsVis) {
  const Cq cq = must(far.create_cq(16));
  const auto [a, b] = connected_to(cq);
  const Region in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}}));
  must(b.disconnect());
  must(b.destroy());
  EXPECT_EQ(cq.destroy().code, VIP_SUCCESS) << "undrained";
}

}  // namespace
}  // namespace conformance
