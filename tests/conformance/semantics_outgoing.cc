// Posted messages go out before their connection, session or registration ends.
#include "suite.h"

namespace conformance {
namespace {

constexpr std::uint32_t kMessages = 60;
constexpr std::uint64_t kBytes = 2000;

class SemanticsOutgoing : public EachLevel {
 protected:
  // Two VIs, and kMessages receives at the second.
  void SetUp() override {
    EachLevel::SetUp();
    if (IsSkipped()) return;
    const auto [first, second] = connected(level());
    a = first, b = second;
    in = far.memory(kMessages * kBytes);
    out = near.memory(kMessages * kBytes);
    out.fill(1);
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      must(b.post_recv({.segments = {in.part(i * kBytes, kBytes)}}));
    }
  }

  void post() const {
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      must(a.post_send({.segments = {out.part(i * kBytes, kBytes)}}));
    }
  }

  void expect_sent() const {
    for (std::uint32_t i = 0; i < kMessages; ++i) EXPECT_EQ(a.send_done().code, VIP_SUCCESS) << i;
  }

  void expect_arrived() const {
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      ASSERT_EQ(b.recv_wait().code, VIP_SUCCESS) << i;
    }
    EXPECT_TRUE(in.matches(1));
  }

  Vi a, b;
  Region in, out;
};
ON_EACH_LEVEL(SemanticsOutgoing);

TEST_P(SemanticsOutgoing, GoesOutBeforeADisconnect) {
  post();
  EXPECT_EQ(a.disconnect().code, VIP_SUCCESS);
  EXPECT_EQ(a.state(), VIP_STATE_IDLE);
  expect_sent();
  EXPECT_EQ(b.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
  expect_arrived();
}

TEST_P(SemanticsOutgoing, GoesOutBeforeAViIsChangedAndDestroyed) {
  post();
  EXPECT_EQ(a.set_attributes(near.vi_attributes(level())).code, VIP_INVALID_STATE);
  EXPECT_EQ(a.destroy().code, VIP_INVALID_STATE);
  must(a.disconnect());
  ViAttributes other = near.vi_attributes(level());
  other.ptag = must(near.create_ptag());
  EXPECT_EQ(a.set_attributes(other).code, VIP_SUCCESS);
  EXPECT_EQ(a.destroy().code, VIP_SUCCESS);
  expect_arrived();
}

TEST_P(SemanticsOutgoing, GoesOutBeforeMemoryIsDeregistered) {
  post();
  EXPECT_EQ(out.deregister().code, VIP_SUCCESS);
  expect_arrived();
  expect_sent();
}

TEST_P(SemanticsOutgoing, GoesOutBeforeMemoryGetsAnotherTag) {
  MemAttributes other = near.mem_attributes();
  other.ptag = must(near.create_ptag());
  post();
  EXPECT_EQ(out.set_attributes(other).code, VIP_SUCCESS);
  expect_arrived();
  expect_sent();
}

TEST_P(SemanticsOutgoing, GoesOutBeforeTheNicIsClosed) {
  post();
  EXPECT_EQ(near.close().code, VIP_SUCCESS);
  expect_arrived();
}

TEST_P(SemanticsOutgoing, ADisconnectDoesNotWaitForAPeerThatIsOutOfReach) {
  NEEDS(reliable(), "an unreliable send waits for nobody");
  NEEDS_CUT();
  Cut cut;
  post();
  EXPECT_EQ(a.disconnect().code, VIP_SUCCESS);
  EXPECT_EQ(a.state(), VIP_STATE_IDLE);
  const std::vector<Completion> left = a.drain_send();
  ASSERT_EQ(left.size(), kMessages);
  EXPECT_TRUE(left.back().status.has(VIP_STATUS_DESC_FLUSHED_ERROR));
}

TEST_P(SemanticsOutgoing, ASendPostedBeforeTheConnectionIsNotSentOnIt) {
  must(a.disconnect());
  must(b.disconnect());
  b.drain_recv();
  must(b.post_recv({.segments = {in.part(0, kBytes)}}));
  must(a.post_send({.segments = {out.part(0, 8)}, .immediate = 1}));
  connect(a, b);
  must(a.post_send({.segments = {out.part(0, 8)}, .immediate = 2}));
  const Completion flushed = a.send_wait();
  EXPECT_EQ(flushed.code, VIP_DESCRIPTOR_ERROR);
  EXPECT_TRUE(flushed.status.has(VIP_STATUS_DESC_FLUSHED_ERROR));
  EXPECT_EQ(a.send_wait().code, VIP_SUCCESS);
  EXPECT_EQ(must(b.recv_wait()).immediate, 2u);
}

}  // namespace
}  // namespace conformance
