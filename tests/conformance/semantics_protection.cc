// Protection: which memory a descriptor, or a peer, may use.
#include "suite.h"

namespace conformance {
namespace {

class SemanticsProtection : public Conformance {
 protected:
  static constexpr VIP_RELIABILITY_LEVEL kLevel = VIP_SERVICE_RELIABLE_DELIVERY;

  // Whether a send from this segment goes through.
  bool sends(const Nic& nic, const ViAttributes& attributes, const Segment& segment) {
    const Vi a = must(nic.create_vi(attributes)), b = far.vi(attributes.level);
    connect(nic, a, far, b);
    const Region in = far.memory(4096);
    must(b.post_recv({.segments = {in.all()}}));
    must(a.post_send({.segments = {segment}}));
    const Completion sent = a.send_wait();
    EXPECT_EQ(sent.code == VIP_SUCCESS, !sent.status.has(VIP_STATUS_PROTECTION_ERROR));
    must(a.disconnect());
    must(b.disconnect());
    return sent.code == VIP_SUCCESS;
  }

  // Whether the peer of a VI with these attributes may use this part of our memory (near's).
  bool peer_may(Op op, const ViAttributes& attributes, const Segment& remote,
                std::uint64_t bytes) {
    ViAttributes initiator = far.rdma_vi_attributes(attributes.level);
    initiator.max_transfer_size = attributes.max_transfer_size;
    const Vi a = must(far.create_vi(initiator)), b = must(near.create_vi(attributes));
    connect(far, a, near, b);
    const Region local = far.rdma_memory(bytes == 0 ? 1 : bytes);
    local.fill(9);
    must(a.post_send({.op = op, .segments = {local.part(0, bytes)}, .remote = remote}));
    const Completion done = a.send_wait();
    bool allowed = done.code == VIP_SUCCESS;
    if (allowed) {
      // On Reliable Delivery a write that the peer refuses may have completed.
      must(b.post_recv({}));
      must(a.post_send({}));
      allowed = b.recv_wait().code == VIP_SUCCESS;
    }
    must(a.disconnect());
    must(b.disconnect());
    return allowed;
  }
};

TEST_F(SemanticsProtection, TagsMustMatch) {
  const PtagHandle one = must(near.create_ptag()), two = must(near.create_ptag());
  const Region region = near.memory(64, {one, VIP_FALSE, VIP_FALSE});
  ViAttributes attributes = near.vi_attributes(kLevel);
  attributes.ptag = one;
  EXPECT_TRUE(sends(near, attributes, region.all()));
  attributes.ptag = two;
  EXPECT_FALSE(sends(near, attributes, region.all()));
}

TEST_F(SemanticsProtection, TheNullTagGoesWithEveryTag) {
  CHECKLIST(2);
  CHECKLIST(21);
  const PtagHandle tag = must(near.create_ptag());
  const Region tagged = near.memory(64, {tag, VIP_FALSE, VIP_FALSE});
  const Region plain = near.memory(64, {PtagHandle{}, VIP_FALSE, VIP_FALSE});
  ViAttributes attributes = near.vi_attributes(kLevel);
  attributes.ptag = PtagHandle{};
  EXPECT_TRUE(sends(near, attributes, tagged.all()));
  EXPECT_TRUE(sends(near, attributes, plain.all()));
  attributes.ptag = tag;
  EXPECT_TRUE(sends(near, attributes, plain.all()));
}

TEST_F(SemanticsProtection, TheNullTagGoesWithEveryTagForThePeerToo) {
  CHECKLIST(21);
  const Region tagged = near.memory(64, {must(near.create_ptag()), VIP_TRUE, VIP_FALSE});
  ViAttributes attributes = near.rdma_vi_attributes(kLevel);
  attributes.ptag = PtagHandle{};
  EXPECT_TRUE(peer_may(Op::kRdmaWrite, attributes, tagged.part(0, 0), 64));
  const Vi a = must(near.create_vi(attributes));
  const Vi b = must(far.create_vi(far.rdma_vi_attributes(kLevel)));
  connect(a, b);
  const Region out = far.memory(64);
  out.fill(2);
  must(a.post_recv({.segments = {tagged.all()}}));
  must(b.post_send({.segments = {out.all()}}));
  EXPECT_EQ(a.recv_wait().code, VIP_SUCCESS);
  EXPECT_TRUE(tagged.matches(2));
}

TEST_F(SemanticsProtection, SegmentsMustLieInTheirRegion) {
  const Region region = near.memory(4096);
  const ViAttributes attributes = near.vi_attributes(kLevel);
  const Region around{region.host, region.nic, region.address - 64, 4096 + 128, region.handle};
  EXPECT_TRUE(sends(near, attributes, region.part(0, 4096)));
  EXPECT_FALSE(sends(near, attributes, around.part(63, 100))) << "one byte before";
  EXPECT_FALSE(sends(near, attributes, around.part(64, 4097))) << "one byte behind";
  EXPECT_FALSE(sends(near, attributes, {0xfffffffffffffff0, region.handle, 32})) << "around 0";
}

TEST_F(SemanticsProtection, HandlesMustBeOfTheSameNicHandle) {
  const Nic other = open_near();
  const Region foreign = other.memory(64);
  const ViAttributes attributes = near.vi_attributes(kLevel);
  EXPECT_FALSE(sends(near, attributes, foreign.all()));
  const Region gone = near.memory(64);
  must(gone.deregister());
  EXPECT_FALSE(sends(near, attributes, gone.all()));
  EXPECT_FALSE(sends(near, attributes, near.allocate(64).all())) << "never registered";
}

TEST_F(SemanticsProtection, WhatIsDeregisteredWhilePostedFails) {
  const auto [a, b] = connected(kLevel);
  const Region out = near.memory(64), in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}}));
  must(in.deregister());
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_TRUE(b.recv_wait().status.has(VIP_STATUS_PROTECTION_ERROR));
}

TEST_F(SemanticsProtection, RdmaNeedsTheLeaveOfViAndRegion) {
  for (const Op op : {Op::kRdmaWrite, Op::kRdmaRead}) {
    if (op == Op::kRdmaRead && !near.supports_rdma_read(kLevel)) continue;
    for (const bool vi_allows : {false, true}) {
      for (const bool region_allows : {false, true}) {
        ViAttributes attributes = near.rdma_vi_attributes(kLevel);
        MemAttributes memory = near.rdma_mem_attributes();
        (op == Op::kRdmaWrite ? attributes.rdma_write : attributes.rdma_read) = vi_allows;
        (op == Op::kRdmaWrite ? memory.rdma_write : memory.rdma_read) = region_allows;
        const Region target = near.memory(256, memory);
        target.fill(1);
        EXPECT_EQ(peer_may(op, attributes, target.part(0, 0), 256), vi_allows && region_allows)
            << static_cast<int>(op) << ' ' << vi_allows << ' ' << region_allows;
        if (op == Op::kRdmaWrite) {
          EXPECT_TRUE(target.matches(vi_allows && region_allows ? 9 : 1));
        }
      }
    }
  }
}

TEST_F(SemanticsProtection, RdmaStaysInItsRegion) {
  const ViAttributes attributes = near.rdma_vi_attributes(kLevel);
  const Region whole = near.allocate(3 * 4096);
  const VIP_MEM_HANDLE handle =
      must(near.register_mem(whole.at(4096), 4096, near.rdma_mem_attributes()));
  const Region all = whole.with(handle);
  for (const Op op : {Op::kRdmaWrite, Op::kRdmaRead}) {
    if (op == Op::kRdmaRead && !near.supports_rdma_read(kLevel)) continue;
    whole.fill(1);
    EXPECT_FALSE(peer_may(op, attributes, all.part(4095, 0), 100)) << "one byte before";
    EXPECT_FALSE(peer_may(op, attributes, all.part(4097, 0), 4096)) << "one byte behind";
    EXPECT_FALSE(peer_may(op, attributes, all.part(0, 0), 100)) << "elsewhere";
    EXPECT_FALSE(peer_may(op, attributes, {0xfffffffffffffff0, handle, 0}, 100)) << "around 0";
    EXPECT_TRUE(whole.matches(1)) << "nothing was written";
    EXPECT_TRUE(peer_may(op, attributes, all.part(4096, 0), 4096));
  }
}

TEST_F(SemanticsProtection, RdmaNeedsTheSameTag) {
  const PtagHandle one = must(near.create_ptag()), two = must(near.create_ptag());
  MemAttributes memory = near.rdma_mem_attributes();
  memory.ptag = one;
  const Region target = near.memory(64, memory);
  target.fill(1);
  ViAttributes attributes = near.rdma_vi_attributes(kLevel);
  attributes.ptag = two;
  EXPECT_FALSE(peer_may(Op::kRdmaWrite, attributes, target.part(0, 0), 64));
  EXPECT_TRUE(target.matches(1));
  attributes.ptag = PtagHandle{};
  EXPECT_TRUE(peer_may(Op::kRdmaWrite, attributes, target.part(0, 0), 64)) << "NULL goes with all";
  attributes.ptag = one;
  EXPECT_TRUE(peer_may(Op::kRdmaWrite, attributes, target.part(0, 0), 64));
}

TEST_F(SemanticsProtection, RdmaNeedsAHandleOfTheViSNicHandle) {
  const Nic other = open_near();
  const Region foreign = other.rdma_memory(64), gone = near.rdma_memory(64);
  const ViAttributes attributes = near.rdma_vi_attributes(kLevel);
  foreign.fill(1);
  EXPECT_FALSE(peer_may(Op::kRdmaWrite, attributes, foreign.part(0, 0), 64));
  EXPECT_TRUE(foreign.matches(1));
  must(gone.deregister());
  EXPECT_FALSE(peer_may(Op::kRdmaWrite, attributes, gone.part(0, 0), 64));
}

TEST_F(SemanticsProtection, LeaveCanBeTakenBack) {
  const ViAttributes attributes = near.rdma_vi_attributes(kLevel);
  const Region target = near.rdma_memory(64);
  EXPECT_TRUE(peer_may(Op::kRdmaWrite, attributes, target.part(0, 0), 64));
  must(target.set_attributes(near.mem_attributes()));
  target.fill(1);
  EXPECT_FALSE(peer_may(Op::kRdmaWrite, attributes, target.part(0, 0), 64));
  EXPECT_TRUE(target.matches(1));
}

}  // namespace
}  // namespace conformance
