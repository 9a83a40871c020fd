// The promises of the three reliability levels.
#include "suite.h"

namespace conformance {
namespace {

class SemanticsReliability : public EachLevel {};
ON_EACH_LEVEL(SemanticsReliability);

TEST_P(SemanticsReliability, AMessageArrivesInBothDirections) {
  const auto [a, b] = connected(level());
  EXPECT_EQ(a.state(), VIP_STATE_CONNECTED);
  EXPECT_EQ(b.state(), VIP_STATE_CONNECTED);
  const Region mine = near.memory(8192), theirs = far.memory(8192);
  const struct {
    Vi from, to;
    Region out, in;
  } directions[] = {{a, b, mine, theirs}, {b, a, theirs, mine}};

  std::uint32_t seed = 7;
  for (const auto& [from, to, out, in] : directions) {
    ++seed;
    in.clear();
    out.fill(seed, 0, 3000);
    const Posted receive = must(to.post_recv({.segments = {in.part(100, 5000)}}));
    const Posted send = must(from.post_send({.segments = {out.part(0, 3000)}}));

    const Completion received = must(to.recv_wait());
    EXPECT_EQ(received.id, receive.id);
    EXPECT_EQ(received.status, Status{VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE});
    EXPECT_EQ(received.length, 3000U);
    EXPECT_TRUE(received.intact);
    EXPECT_TRUE(in.matches(seed, 100, 3000));
    EXPECT_EQ(in.read(3100, 100), std::string(100, '\0')) << "nothing behind the message";

    const Completion sent = must(from.send_wait());
    EXPECT_EQ(sent.id, send.id);
    EXPECT_EQ(sent.status, Status{VIP_STATUS_DONE | VIP_STATUS_OP_SEND});
    EXPECT_TRUE(sent.intact);
  }
}

TEST_P(SemanticsReliability, ImmediateDataArrivesWithTheMessage) {
  CHECKLIST(8);
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}, .old_immediate = 0x01020304}));
  must(b.post_recv({.segments = {in.all()}, .old_immediate = 0x01020304}));
  must(a.post_send({.segments = {out.all()}, .immediate = 0xdeadbeef}));
  must(a.post_send({.segments = {out.all()}}));

  const Completion with = must(b.recv_wait()), without = must(b.recv_wait());
  EXPECT_EQ(with.status, Status{VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE});
  EXPECT_EQ(with.immediate, 0xdeadbeefU);
  EXPECT_EQ(without.status, Status{VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE});
  EXPECT_EQ(without.immediate, 0x01020304U) << "left as it was";
}

TEST_P(SemanticsReliability, MessagesOfEverySizeArrive) {
  const auto [a, b] = connected(level());
  const std::uint64_t largest =
      std::min(near.attributes().max_transfer_size, far.attributes().max_transfer_size);
  const Region out = near.memory(largest), in = far.memory(largest);
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1499}, std::uint64_t{32768}, largest}) {
    out.fill(static_cast<std::uint32_t>(size), 0, size);
    must(b.post_recv({.segments = {in.all()}}));
    must(a.post_send({.segments = {out.part(0, size)}}));
    const Completion received = must(b.recv_wait());
    EXPECT_EQ(received.length, size);
    EXPECT_TRUE(in.matches(static_cast<std::uint32_t>(size), 0, size)) << size << " bytes";
    must(a.send_wait());
  }
}

TEST_P(SemanticsReliability, AWaitThatRunsOutTakesItsTime) {
  const auto [a, b] = connected(level());
  const Region in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}}));
  const Completion nothing = b.recv_wait(100);
  EXPECT_EQ(nothing.code, VIP_TIMEOUT);
  EXPECT_EQ(nothing.id, kNoDescriptor);
  EXPECT_GE(nothing.elapsed_ms(), 100U);
}

}  // namespace
}  // namespace conformance
