// RDMA write and read: sizes, alignments, segments, immediate data, both directions.
#include "suite.h"

namespace conformance {
namespace {

class SemanticsRdma : public EachLevel {};
ON_EACH_LEVEL(SemanticsRdma);
class SemanticsRdmaRead : public EachLevel {
 protected:
  void SetUp() override {
    EachLevel::SetUp();
    if (IsSkipped()) return;
    if (!near.supports_rdma_read(level()) || !far.supports_rdma_read(level())) {
      GTEST_SKIP() << "needs RDMA read";
    }
  }
};
ON_RELIABLE_LEVELS(SemanticsRdmaRead);

constexpr std::uint64_t kGuard = 128;

// Waits for what was written: with immediate data, where nothing is lost without it being seen.
void write_and_wait(const Vi& a, const Vi& b, Descriptor write) {
  must(b.post_recv({}));
  write.immediate = 0x12345678;
  must(a.post_send(write));
  const Completion received = must(b.recv_wait());
  EXPECT_EQ(received.status, Status{VIP_STATUS_DONE | VIP_STATUS_OP_REMOTE_RDMA_WRITE |
                                    VIP_STATUS_IMMEDIATE});
  EXPECT_EQ(received.immediate, 0x12345678U);
  const Completion sent = must(a.send_wait());
  EXPECT_EQ(sent.status, Status{VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_WRITE});
  EXPECT_TRUE(sent.intact);
}

TEST_P(SemanticsRdma, WritesOfEverySizeAndAlignmentGoWhereTheyShould) {
  CHECKLIST(10);
  const auto [a, b] = connected_rdma(level());
  const std::uint64_t most = std::min<std::uint64_t>(near.attributes().max_transfer_size, 100000);
  const Region out = near.rdma_memory(most + 64), in = far.rdma_memory(most + 64 + 2 * kGuard);
  std::uint32_t seed = 10;
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7},
                                    std::uint64_t{1500}, std::uint64_t{32769}, most}) {
    for (const std::uint64_t offset : {0U, 3U}) {
      ++seed;
      in.fill(1);
      out.fill(seed, offset, bytes);
      write_and_wait(a, b,
                     {.op = Op::kRdmaWrite,
                      .segments = {out.part(offset, bytes)},
                      .remote = in.part(kGuard + offset, 0)});
      EXPECT_TRUE(in.matches(seed, kGuard + offset, bytes)) << bytes << " bytes";
      EXPECT_EQ(in.mismatch(1, 0, kGuard + offset), kMatches) << "before";
      const std::uint64_t end = kGuard + offset + bytes;
      EXPECT_EQ(in.mismatch(1, end, in.length - end, end), kMatches) << "behind";
    }
  }
}

TEST_P(SemanticsRdma, AWriteGathersItsSegments) {
  const auto [a, b] = connected_rdma(level());
  const Region out = near.rdma_memory(4096), in = far.rdma_memory(4096);
  out.fill(5);
  std::vector<Segment> segments;
  std::uint64_t at = 0;
  const std::uint64_t count = std::min<std::uint64_t>(near.attributes().max_segments_per_desc, 16);
  for (std::uint64_t s = 1; s < count; ++s) segments.push_back(out.part(at, s * 7)), at += s * 7;
  write_and_wait(a, b, {.op = Op::kRdmaWrite, .segments = segments, .remote = in.part(0, 0)});
  EXPECT_TRUE(in.matches(5, 0, at));
}

TEST_P(SemanticsRdma, AWriteWithoutImmediateDataConsumesNoReceive) {
  CHECKLIST(10);
  const auto [a, b] = connected_rdma(level());
  const Region out = near.rdma_memory(64), in = far.rdma_memory(64), plain = far.memory(64);
  const Posted receive = must(b.post_recv({.segments = {plain.all()}}));
  must(a.post_send({.op = Op::kRdmaWrite, .segments = {out.all()}, .remote = in.part(0, 0)}));
  must(a.send_wait());
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_EQ(must(b.recv_wait()).id, receive.id);
}

TEST_P(SemanticsRdma, TheLengthOfAWriteWithImmediateDataIsTold) {
  const auto [a, b] = connected_rdma(level());
  const Region out = near.rdma_memory(5000), in = far.rdma_memory(5000);
  must(b.post_recv({}));
  must(a.post_send({.op = Op::kRdmaWrite,
                    .segments = {out.all()},
                    .remote = in.part(0, 0),
                    .immediate = 1}));
  EXPECT_EQ(must(b.recv_wait()).length, 5000U);
}

TEST_P(SemanticsRdma, WritesGoBothWaysAtOnce) {
  NEEDS(reliable(), "all of them must arrive");
  const auto [a, b] = connected_rdma(level());
  constexpr std::uint64_t kBytes = 20000;
  const Region mine = near.rdma_memory(2 * kBytes), theirs = far.rdma_memory(2 * kBytes);
  mine.fill(1, 0, kBytes);
  theirs.fill(2, 0, kBytes);
  for (int i = 0; i < 10; ++i) {
    must(a.post_send({.op = Op::kRdmaWrite,
                      .segments = {mine.part(0, kBytes)},
                      .remote = theirs.part(kBytes, 0)}));
    must(b.post_send({.op = Op::kRdmaWrite,
                      .segments = {theirs.part(0, kBytes)},
                      .remote = mine.part(kBytes, 0)}));
  }
  for (int i = 0; i < 10; ++i) must(a.send_wait()), must(b.send_wait());
  // The peer's answer proves that the last message has arrived.
  const Region in = near.memory(8), answer = far.memory(8);
  must(a.post_recv({.segments = {in.all()}}));
  must(b.post_recv({.segments = {answer.all()}}));
  must(a.post_send({}));
  must(b.post_send({}));
  must(a.recv_wait());
  must(b.recv_wait());
  EXPECT_TRUE(theirs.matches(1, kBytes, kBytes));
  EXPECT_TRUE(mine.matches(2, kBytes, kBytes));
}

TEST_P(SemanticsRdma, ReadsAreNotForUnreliableDelivery) {
  NEEDS(!reliable(), "the others may have them");
  const auto [a, b] = connected_rdma(level());
  const Region mine = near.rdma_memory(64), theirs = far.rdma_memory(64);
  must(a.post_send({.op = Op::kRdmaRead, .segments = {mine.all()}, .remote = theirs.part(0, 0)}));
  const Completion read = a.send_wait();
  EXPECT_EQ(read.code, VIP_DESCRIPTOR_ERROR);
  EXPECT_TRUE(read.status.has(VIP_STATUS_FORMAT_ERROR));
}

TEST_P(SemanticsRdmaRead, ReadsOfEverySizeAndAlignmentBringWhatIsThere) {
  const auto [a, b] = connected_rdma(level());
  const std::uint64_t most = std::min<std::uint64_t>(near.attributes().max_transfer_size, 100000);
  const Region in = near.rdma_memory(most + 64 + 2 * kGuard), out = far.rdma_memory(most + 64);
  std::uint32_t seed = 10;
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7},
                                    std::uint64_t{1500}, std::uint64_t{32769}, most}) {
    for (const std::uint64_t offset : {0U, 3U}) {
      ++seed;
      in.fill(1);
      out.fill(seed, offset, bytes);
      must(a.post_send({.op = Op::kRdmaRead,
                        .segments = {in.part(kGuard + offset, bytes)},
                        .remote = out.part(offset, 0)}));
      EXPECT_EQ(must(a.send_wait()).status, Status{VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_READ});
      EXPECT_TRUE(in.matches(seed, kGuard + offset, bytes)) << bytes << " bytes";
      EXPECT_EQ(in.mismatch(1, 0, kGuard + offset), kMatches) << "before";
      const std::uint64_t end = kGuard + offset + bytes;
      EXPECT_EQ(in.mismatch(1, end, in.length - end, end), kMatches) << "behind";
    }
  }
}

TEST_P(SemanticsRdmaRead, AReadScattersOverItsSegments) {
  const auto [a, b] = connected_rdma(level());
  const Region in = near.rdma_memory(4096), out = far.rdma_memory(4096);
  out.fill(6);
  must(a.post_send({.op = Op::kRdmaRead,
                    .segments = {in.part(2000, 100), in.part(0, 1000), in.part(3000, 5)},
                    .remote = out.part(0, 0)}));
  must(a.send_wait());
  EXPECT_EQ(in.mismatch(6, 2000, 100, 0), kMatches);
  EXPECT_EQ(in.mismatch(6, 0, 1000, 100), kMatches);
  EXPECT_EQ(in.mismatch(6, 3000, 5, 1100), kMatches);
}

TEST_P(SemanticsRdmaRead, ManyReadsMayBeUnderWay) {
  const auto [a, b] = connected_rdma(level());
  constexpr std::uint64_t kReads = 100, kBytes = 3000;
  const Region in = near.rdma_memory(kReads * kBytes), out = far.rdma_memory(kReads * kBytes);
  out.fill(8);
  for (std::uint64_t i = 0; i < kReads; ++i) {
    must(a.post_send({.op = Op::kRdmaRead,
                      .segments = {in.part(i * kBytes, kBytes)},
                      .remote = out.part(i * kBytes, 0)}));
  }
  for (std::uint64_t i = 0; i < kReads; ++i) must(a.send_wait());
  EXPECT_TRUE(in.matches(8));
}

TEST_P(SemanticsRdmaRead, ReadsGoBothWaysAtOnce) {
  const auto [a, b] = connected_rdma(level());
  constexpr std::uint64_t kBytes = 20000;
  const Region mine = near.rdma_memory(2 * kBytes), theirs = far.rdma_memory(2 * kBytes);
  mine.fill(1, 0, kBytes);
  theirs.fill(2, 0, kBytes);
  for (int i = 0; i < 10; ++i) {
    must(a.post_send({.op = Op::kRdmaRead,
                      .segments = {mine.part(kBytes, kBytes)},
                      .remote = theirs.part(0, 0)}));
    must(b.post_send({.op = Op::kRdmaRead,
                      .segments = {theirs.part(kBytes, kBytes)},
                      .remote = mine.part(0, 0)}));
  }
  for (int i = 0; i < 10; ++i) must(a.send_wait()), must(b.send_wait());
  EXPECT_TRUE(mine.matches(2, kBytes, kBytes));
  EXPECT_TRUE(theirs.matches(1, kBytes, kBytes));
}

}  // namespace
}  // namespace conformance
