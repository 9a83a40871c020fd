// Order: of messages, of completions, of RDMA writes before what follows, of the bytes of a write.
#include "suite.h"

namespace conformance {
namespace {

class SemanticsOrder : public EachLevel {};
ON_EACH_LEVEL(SemanticsOrder);
class SemanticsRdmaOrder : public EachLevel {};
ON_RELIABLE_LEVELS(SemanticsRdmaOrder);

TEST_P(SemanticsOrder, MessagesArriveInOrderInTheOldestReceive) {
  CHECKLIST(7);
  const auto [a, b] = connected(level());
  constexpr std::uint64_t kMessages = 100;
  const Region out = near.memory(kMessages * 8), in = far.memory(kMessages * 8);
  std::vector<Posted> receives, sends;
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    out.set_word(i * 8, static_cast<std::uint32_t>(i));
    receives.push_back(must(b.post_recv({.segments = {in.part(i * 8, 8)}})));
  }
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    sends.push_back(must(a.post_send({.segments = {out.part(i * 8, 1 + i % 8)}})));
  }
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    const Completion sent = must(a.send_wait());
    EXPECT_EQ(sent.id, sends[i].id);
  }
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    const Completion received = b.recv_wait(reliable() ? kSoon : 200);
    if (received.code == VIP_TIMEOUT && !reliable()) break;  // lost ones leave receives behind
    EXPECT_EQ(received.id, receives[i].id);
    const std::uint32_t number = in.word(i * 8) & 0xff;
    EXPECT_GE(number, last);
    EXPECT_EQ(received.length, 1 + number % 8) << "one send, one receive";
    last = number;
  }
  if (reliable()) {
    EXPECT_EQ(last, kMessages - 1);
  }
}

TEST_P(SemanticsOrder, TheQueuesOfAViDoNotWaitForEachOther) {
  const auto [a, b] = connected(level());
  const Region out = near.memory(64), in = near.memory(64), theirs = far.memory(64);
  must(a.post_recv({.segments = {in.all()}}));
  must(b.post_recv({.segments = {theirs.all()}}));
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_EQ(a.send_wait().code, VIP_SUCCESS) << "though the receive is pending";
  EXPECT_EQ(a.recv_done().code, VIP_NOT_DONE);
}

TEST_P(SemanticsRdmaOrder, WritesArePlacedBeforeALaterMessage) {
  CHECKLIST(10);
  const auto [a, b] = connected_rdma(level());
  constexpr std::uint64_t kBytes = 20000;
  const Region out = near.rdma_memory(kBytes), in = far.rdma_memory(kBytes);
  const Region empty = far.memory(64);
  for (std::uint32_t round = 1; round <= 20; ++round) {
    const bool immediate = round % 2 != 0;
    out.fill(round);
    must(b.post_recv({.segments = {empty.part(0, 0)}}));
    for (std::uint64_t at = 0; at < kBytes; at += 5000) {
      must(a.post_send({.op = Op::kRdmaWrite,
                        .segments = {out.part(at, 5000)},
                        .remote = in.part(at, 0)}));
    }
    if (immediate) {
      must(a.post_send({.op = Op::kRdmaWrite,
                        .segments = {out.part(0, 8)},
                        .remote = in.part(0, 0),
                        .immediate = round}));
    } else {
      must(a.post_send({.immediate = round}));
    }
    const Completion received = must(b.recv_wait());
    EXPECT_EQ(received.immediate, round);
    EXPECT_EQ(received.status.operation(), immediate
                                               ? std::uint32_t{VIP_STATUS_OP_REMOTE_RDMA_WRITE}
                                               : std::uint32_t{VIP_STATUS_OP_RECEIVE});
    EXPECT_TRUE(in.matches(round)) << "round " << round;
    for (int i = 0; i < 5; ++i) must(a.send_wait());
  }
}

TEST_P(SemanticsRdmaOrder, TheLastWordOfAWriteAppearsLast) {
  CHECKLIST(10);
  CHECKLIST(19);
  const auto [a, b] = connected_rdma(level());
  for (const std::uint64_t bytes : {64U, 1000U, 4096U, 30000U}) {
    const Region out = near.rdma_memory(bytes + 4), in = far.rdma_memory(bytes + 4);
    for (std::uint32_t round = 1; round <= 10; ++round) {
      in.clear();
      out.fill(round, 0, bytes);
      out.set_word(bytes, 0xf1a60000 + round);
      auto watching = start([in, bytes, round] {
        return in.watch(bytes, 0xf1a60000 + round, round, 0, bytes);
      });
      must(a.post_send({.op = Op::kRdmaWrite, .segments = {out.all()}, .remote = in.part(0, 0)}));
      const Watched watched = watching.get();
      EXPECT_TRUE(watched.came);
      EXPECT_EQ(watched.mismatch, kMatches) << bytes << " bytes, round " << round;
      must(a.send_wait());
    }
  }
}

TEST_P(SemanticsRdmaOrder, ReadsCompleteInOrderWithWhatIsPostedAround) {
  NEEDS(near.supports_rdma_read(level()), "needs RDMA read");
  const auto [a, b] = connected_rdma(level());
  const Region mine = near.rdma_memory(65536), theirs = far.rdma_memory(65536), in = far.memory(64);
  theirs.fill(77);
  std::vector<Posted> posted;
  for (std::uint64_t i = 0; i < 40; ++i) {
    if (i % 4 == 3) {
      must(b.post_recv({.segments = {in.all()}}));
      posted.push_back(must(a.post_send({.segments = {mine.part(0, 8)}})));
    } else {
      posted.push_back(must(a.post_send({.op = Op::kRdmaRead,
                                         .segments = {mine.part(i * 1000, 1000)},
                                         .remote = theirs.part(i * 1000, 0)})));
    }
  }
  for (const Posted& one : posted) EXPECT_EQ(must(a.send_wait()).id, one.id);
  EXPECT_TRUE(mine.matches(77, 1000, 0));
  EXPECT_EQ(mine.mismatch(77, 1000, 2000, 1000), kMatches);
}

TEST_P(SemanticsRdmaOrder, AFencedDescriptorWaitsForEarlierReads) {
  NEEDS(near.supports_rdma_read(level()), "needs RDMA read");
  const auto [a, b] = connected_rdma(level());
  const std::uint64_t bytes = 30000;
  const Region mine = near.rdma_memory(bytes), theirs = far.rdma_memory(bytes),
               copy = far.rdma_memory(bytes);
  for (std::uint32_t round = 1; round <= 10; ++round) {
    theirs.fill(round);
    mine.clear();
    // The write sends what the read has fetched, so it must not begin before.
    must(a.post_send({.op = Op::kRdmaRead, .segments = {mine.all()}, .remote = theirs.part(0, 0)}));
    must(a.post_send({.op = Op::kRdmaWrite,
                      .segments = {mine.all()},
                      .remote = copy.part(0, 0),
                      .fence = true}));
    must(a.send_wait());
    must(a.send_wait());
    EXPECT_TRUE(copy.matches(round)) << "round " << round;
  }
}

}  // namespace
}  // namespace conformance
