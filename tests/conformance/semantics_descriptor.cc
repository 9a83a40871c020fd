// Segments, lengths, and the status bits of descriptors that are wrong.
#include "suite.h"

namespace conformance {
namespace {

class SemanticsDescriptor : public Conformance {
 protected:
  static constexpr VIP_RELIABILITY_LEVEL kLevel = VIP_SERVICE_RELIABLE_DELIVERY;

  // The completion of a send that is posted on a connected VI.
  Completion fate(const Descriptor& send) {
    const auto [a, b] = connected_rdma(kLevel);
    const Region in = far.memory(4096);
    must(b.post_recv({.segments = {in.all()}}));
    must(a.post_send(send));
    const Completion done = a.send_wait();
    EXPECT_EQ(done.status.has(VIP_STATUS_DONE), true);
    return done;
  }
};

TEST_F(SemanticsDescriptor, MessagesAreScatteredAsTheReceiveSays) {
  const auto [a, b] = connected(kLevel);
  const Region out = near.memory(8192), in = far.memory(8192);
  out.fill(3);
  for (const std::uint64_t bytes : {1U, 100U, 101U, 2000U, 5000U}) {
    in.clear();
    must(b.post_recv({.segments = {in.part(7000, 100), in.part(0, 0), in.part(1, 1500),
                                   in.part(2000, 4000)}}));
    must(a.post_send({.segments = {out.part(0, bytes / 2), out.part(bytes / 2, bytes - bytes / 2)}}));
    EXPECT_EQ(must(b.recv_wait()).length, bytes);
    const std::uint64_t first = std::min<std::uint64_t>(bytes, 100);
    const std::uint64_t second = std::min<std::uint64_t>(bytes - first, 1500);
    EXPECT_EQ(in.mismatch(3, 7000, first, 0), kMatches) << bytes;
    EXPECT_EQ(in.mismatch(3, 1, second, first), kMatches) << bytes;
    EXPECT_EQ(in.mismatch(3, 2000, bytes - first - second, first + second), kMatches) << bytes;
    must(a.send_wait());
  }
}

TEST_F(SemanticsDescriptor, AsManySegmentsAsTheNicSays) {
  const auto [a, b] = connected(kLevel);
  const std::uint64_t most =
      std::min(near.attributes().max_segments_per_desc, far.attributes().max_segments_per_desc);
  const Region out = near.memory(most * 4), in = far.memory(most * 4);
  out.fill(2);
  std::vector<Segment> gather, scatter;
  for (std::uint64_t s = 0; s < most; ++s) {
    gather.push_back(out.part(s * 3, 3));
    scatter.push_back(in.part(s * 4, 4));
  }
  must(b.post_recv({.segments = scatter}));
  must(a.post_send({.segments = gather}));
  EXPECT_EQ(must(b.recv_wait()).length, most * 3);
  EXPECT_TRUE(in.matches(2, 0, most * 3)) << "one piece behind the other";
  must(a.send_wait());
}

TEST_F(SemanticsDescriptor, OneSegmentMoreIsAFormatError) {
  const std::uint64_t most = near.attributes().max_segments_per_desc;
  const Region out = near.memory(64);
  const Completion done = fate({.segments = std::vector<Segment>(most + 1, out.part(0, 1))});
  EXPECT_EQ(done.code, VIP_DESCRIPTOR_ERROR);
  EXPECT_TRUE(done.status.has(VIP_STATUS_FORMAT_ERROR));
}

TEST_F(SemanticsDescriptor, AReceiveMayBeLongerThanItsRegionIfItIsNotFilledThatFar) {
  CHECKLIST(18);
  const auto [a, b] = connected(kLevel);
  const Region out = near.memory(4096), in = far.memory(4096);
  const Segment beyond{in.address, in.handle, 40000};
  for (const std::uint64_t bytes : {4U, 4096U}) {
    out.fill(7, 0, bytes);
    must(b.post_recv({.segments = {beyond}}));
    must(a.post_send({.segments = {out.part(0, bytes)}}));
    EXPECT_EQ(must(b.recv_wait()).length, bytes);
    EXPECT_TRUE(in.matches(7, 0, bytes));
  }
}

TEST_F(SemanticsDescriptor, AReceivesLengthMayBeLessThanItsSegments) {
  CHECKLIST(18);
  const auto [a, b] = connected(kLevel);
  const Region out = near.memory(100), in = far.memory(4096);
  must(b.post_recv({.segments = {in.all()}, .length = 100}));
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_EQ(must(b.recv_wait()).length, 100U);
}

TEST_F(SemanticsDescriptor, WhatHasNoSenseIsAFormatError) {
  const Region out = near.rdma_memory(64);
  const Descriptor bad[] = {
      {.op = Op::kReserved, .segments = {out.all()}, .remote = out.part(0, 0)},
      {.segments = {out.all()}, .more_control = 0x0010},
      {.segments = {out.all()}, .more_control = 0x8000},
      {.op = Op::kRdmaWrite, .segments = {}, .seg_count = 0, .length = 0},
  };
  for (const Descriptor& descriptor : bad) {
    const Completion done = fate(descriptor);
    EXPECT_EQ(done.code, VIP_DESCRIPTOR_ERROR);
    EXPECT_TRUE(done.status.has(VIP_STATUS_FORMAT_ERROR)) << done.status.bits;
  }
}

TEST_F(SemanticsDescriptor, LengthsThatDisagreeAreALengthError) {
  const Region out = near.memory(8192);
  for (const std::uint32_t length : {0U, 63U, 65U}) {
    const Completion done = fate({.segments = {out.part(0, 64)}, .length = length});
    EXPECT_EQ(done.code, VIP_DESCRIPTOR_ERROR) << length;
    EXPECT_TRUE(done.status.has(VIP_STATUS_LENGTH_ERROR)) << length;
  }
}

TEST_F(SemanticsDescriptor, MoreThanTheMaximumIsALengthError) {
  ViAttributes mine = near.vi_attributes(kLevel), theirs = far.vi_attributes(kLevel);
  mine.max_transfer_size = theirs.max_transfer_size = 1000;
  const Vi a = must(near.create_vi(mine)), b = must(far.create_vi(theirs));
  connect(a, b);
  const Region out = near.memory(1001), in = far.memory(1001);
  must(b.post_recv({.segments = {in.all()}}));
  must(a.post_send({.segments = {out.part(0, 1000)}}));
  EXPECT_EQ(a.send_wait().code, VIP_SUCCESS);
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_TRUE(a.send_wait().status.has(VIP_STATUS_LENGTH_ERROR));
}

TEST_F(SemanticsDescriptor, MemoryThatEndsInTheMiddleIsAPartialError) {
  const std::uint64_t bytes = 200000;
  NEEDS(near.attributes().max_transfer_size >= bytes, "needs long messages");
  const auto [a, b] = connected(kLevel);
  const Region out = near.memory(bytes), first = far.memory(100000), second = far.memory(100000);
  must(b.post_recv({.segments = {first.all(), second.all()}}));
  second.unmap();
  must(a.post_send({.segments = {out.all()}}));
  const Completion received = b.recv_wait();
  if (received.code == VIP_SUCCESS) GTEST_SKIP() << "the provider has kept the memory";
  EXPECT_TRUE(received.status.has(VIP_STATUS_PROTECTION_ERROR | VIP_STATUS_PARTIAL_ERROR));
}

TEST_F(SemanticsDescriptor, AMessageThatIsCutOffIsAPartialError) {
  // When the connection ends in the middle of a message is not in our hands: try until it does.
  const std::uint64_t bytes = near.attributes().max_transfer_size;
  const Region out = near.memory(bytes), in = far.memory(bytes);
  for (int i = 0; i < 200; ++i) {
    const auto [a, b] = connected(kLevel);
    for (int n = 0; n < 8; ++n) {
      must(b.post_recv({.segments = {in.all()}}));
      must(a.post_send({.segments = {out.all()}}));
    }
    if (i % 2 != 0) a.send_wait();
    // The receiver disconnects: a sender's goodbye would go behind its posted messages.
    must(b.disconnect());
    bool partial = false;
    EXPECT_EQ(a.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
    for (const Completion& completion : a.drain_send()) {
      partial |= completion.status.has(VIP_STATUS_PARTIAL_ERROR);
    }
    for (const Completion& completion : b.drain_recv()) {
      partial |= completion.status.has(VIP_STATUS_PARTIAL_ERROR);
    }
    must(a.disconnect());
    must(a.destroy());
    must(b.destroy());
    if (partial) return;
  }
  if (two_processes()) ADD_FAILURE() << "200 messages were disconnected and none was cut off";
}

TEST_F(SemanticsDescriptor, ARefusedWriteIsAnRdmaProtectionError) {
  NEEDS(near.supports(VIP_SERVICE_RELIABLE_RECEPTION), "needs Reliable Reception");
  const auto [a, b] = connected_rdma(VIP_SERVICE_RELIABLE_RECEPTION);
  const Region out = near.rdma_memory(64), in = far.memory(64);
  must(a.post_send({.op = Op::kRdmaWrite, .segments = {out.all()}, .remote = in.part(0, 0)}));
  EXPECT_TRUE(a.send_wait().status.has(VIP_STATUS_RDMA_PROT_ERROR));
}

TEST_F(SemanticsDescriptor, ARefusedReadIsAnRdmaProtectionError) {
  NEEDS(near.supports_rdma_read(kLevel), "needs RDMA read");
  const auto [a, b] = connected_rdma(kLevel);
  const Region out = near.rdma_memory(64), in = far.memory(64);
  must(a.post_send({.op = Op::kRdmaRead, .segments = {out.all()}, .remote = in.part(0, 0)}));
  const Completion read = a.send_wait();
  EXPECT_TRUE(read.status.has(VIP_STATUS_RDMA_PROT_ERROR));
  EXPECT_EQ(read.status.operation(), std::uint32_t{VIP_STATUS_OP_RDMA_READ});
}

TEST_F(SemanticsDescriptor, DescriptorsNeedNotBeAlignedMoreThanTheirFields) {
  const auto [a, b] = connected(kLevel);
  const Region out = near.memory(64), in = far.memory(64);
  const Posted receive = b.post_recv({.segments = {in.all()}, .misalign = 8});
  if (receive.code == VIP_INVALID_PARAMETER) GTEST_SKIP() << "the provider insists on 64";
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_EQ(must(b.recv_wait()).id, receive.id);
  EXPECT_EQ(b.post_recv({.segments = {in.all()}, .misalign = 1}).code, VIP_INVALID_PARAMETER);
}

}  // namespace
}  // namespace conformance
