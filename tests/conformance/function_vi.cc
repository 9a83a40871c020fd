// VipCreateVi, VipDestroyVi, VipQueryVi, VipSetViAttributes.
#include "suite.h"

namespace conformance {
namespace {

using FunctionVi = Conformance;

// The refusals that creating and changing have in common. `make` applies attributes.
template <class Make>
void refuses_bad_attributes(const Nic& nic, const Make& make) {
  const ViAttributes good = nic.vi_attributes(VIP_SERVICE_UNRELIABLE);
  ViAttributes bad = good;
  for (const int level : {0, 3, 7, 8, 0x4000}) {
    bad.level = static_cast<VIP_RELIABILITY_LEVEL>(level);
    EXPECT_EQ(make(bad), VIP_INVALID_RELIABILITY_LEVEL) << level;
  }
  bad = good;
  bad.max_transfer_size = nic.attributes().max_transfer_size + 1;
  EXPECT_EQ(make(bad), VIP_INVALID_MTU);
  bad = good;
  bad.qos = 0x1000;
  EXPECT_EQ(make(bad), VIP_INVALID_QOS);
  bad = good;
  bad.ptag = PtagHandle{0x1234};
  EXPECT_EQ(make(bad), VIP_INVALID_PTAG);
  for (const VIP_RELIABILITY_LEVEL level : kLevels) {
    if (!nic.supports(level) || nic.supports_rdma_read(level)) continue;
    bad = nic.vi_attributes(level);
    bad.rdma_read = VIP_TRUE;
    EXPECT_EQ(make(bad), VIP_INVALID_RDMAREAD) << level_name(level);
  }
}

TEST_F(FunctionVi, CreateGivesAnIdleViWithTheseAttributes) {
  for (const VIP_RELIABILITY_LEVEL level : kLevels) {
    if (!near.supports(level)) continue;
    ViAttributes given = near.rdma_vi_attributes(level);
    given.max_transfer_size = 4000;
    const Vi vi = must(near.create_vi(given));
    const ViAnswer told = must(vi.query());
    EXPECT_EQ(told.state, VIP_STATE_IDLE);
    EXPECT_EQ(told.attributes.level, level);
    EXPECT_EQ(told.attributes.max_transfer_size, 4000U);
    EXPECT_EQ(told.attributes.ptag, given.ptag);
    EXPECT_NE(told.attributes.rdma_write, VIP_FALSE);
    EXPECT_EQ(told.send_empty, VIP_TRUE);
    EXPECT_EQ(told.recv_empty, VIP_TRUE);
  }
}

TEST_F(FunctionVi, CreateTakesAnyTrueAndTheNullTag) {
  CHECKLIST(2);
  ViAttributes attributes = near.vi_attributes(VIP_SERVICE_UNRELIABLE);
  attributes.ptag = PtagHandle{};
  attributes.rdma_write = 2;
  const Vi vi = must(near.create_vi(attributes));
  EXPECT_NE(must(vi.query()).attributes.rdma_write, VIP_FALSE);
}

TEST_F(FunctionVi, CreateRefusesBadAttributes) {
  refuses_bad_attributes(near, [&](const ViAttributes& a) { return near.create_vi(a).code; });
}

TEST_F(FunctionVi, CreateRefusesNullAndForeignCqs) {
  const ViAttributes attributes = near.vi_attributes(VIP_SERVICE_UNRELIABLE);
  EXPECT_EQ(near.create_vi(attributes, {}, {}, null(2)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.create_vi(attributes, {}, {}, null(5)).code, VIP_INVALID_PARAMETER);
  const Nic other = open_near();
  const Cq foreign = must(other.create_cq(16)), gone = must(near.create_cq(16));
  must(gone.destroy());
  for (const CqHandle bad : {foreign.handle, gone.handle, CqHandle{0x1234}}) {
    EXPECT_EQ(near.create_vi(attributes, bad).code, VIP_INVALID_PARAMETER);
    EXPECT_EQ(near.create_vi(attributes, {}, bad).code, VIP_INVALID_PARAMETER);
  }
}

TEST_F(FunctionVi, CreateEndsAtTheLimitAndGoesOnAfterIt) {
  std::vector<Vi> vis;
  std::size_t first = 0;
  const ViAttributes attributes = near.vi_attributes(VIP_SERVICE_UNRELIABLE);
  for (int round = 0; round < 2; ++round) {
    Got<Vi> made;
    while ((made = near.create_vi(attributes)).code == VIP_SUCCESS) {
      vis.push_back(made.value);
      ASSERT_LE(vis.size(), near.attributes().max_vi);
    }
    EXPECT_EQ(made.code, VIP_ERROR_RESOURCE);
    if (round == 0) first = vis.size();
    EXPECT_EQ(vis.size(), first) << "something was lost";
    for (const Vi& vi : vis) ASSERT_EQ(vi.destroy().code, VIP_SUCCESS);
    vis.clear();
  }
}

TEST_F(FunctionVi, DestroyWantsAnIdleVi) {
  const auto [a, b] = connected(VIP_SERVICE_UNRELIABLE);
  EXPECT_EQ(a.destroy().code, VIP_INVALID_STATE);
  EXPECT_EQ(a.state(), VIP_STATE_CONNECTED) << "left as it was";
  must(a.disconnect());
  EXPECT_EQ(a.destroy().code, VIP_SUCCESS);
  EXPECT_EQ(a.destroy().code, VIP_INVALID_PARAMETER) << "twice";
  EXPECT_EQ(a.query().code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(here->call<op::destroy_vi>(ViHandle{}).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionVi, DestroyRefusesTheAddressOfAHandle) {
  const Vi vi = near.vi(VIP_SERVICE_UNRELIABLE);
  const Region memory = near.allocate(64);
  EXPECT_EQ(here->call<op::destroy_vi>(static_cast<ViHandle>(memory.address)).code,
            VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi.destroy().code, VIP_SUCCESS);
}

TEST_F(FunctionVi, DestroySucceedsWithDescriptorsOnTheQueues) {
  CHECKLIST(12);
  CHECKLIST(23);
  const auto [a, b] = connected(VIP_SERVICE_UNRELIABLE);
  const Region memory = near.memory(4096);
  for (int i = 0; i < 10; ++i) must(a.post_recv({.segments = {memory.all()}}));
  must(a.disconnect());
  EXPECT_EQ(a.destroy().code, VIP_SUCCESS);
}

TEST_F(FunctionVi, DestroyEndsTheWaitingOfOtherThreads) {
  const Vi vi = near.vi(VIP_SERVICE_UNRELIABLE);
  const Region memory = near.memory(64);
  must(vi.post_recv({.segments = {memory.all()}}));
  auto waiting = start([=] { return vi.recv_wait(kInfinite); });
  EXPECT_FALSE(waiting.returned_within(20));
  must(vi.destroy());
  const VIP_RETURN code = waiting.get().code;
  EXPECT_TRUE(code == VIP_INVALID_PARAMETER || code == VIP_DESCRIPTOR_ERROR ||
              code == VIP_ERROR_RESOURCE)
      << code;
}

TEST_F(FunctionVi, QueryTellsWhetherQueuesAreEmpty) {
  const auto [a, b] = connected(VIP_SERVICE_RELIABLE_DELIVERY);
  const Region out = near.memory(64), in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}}));
  EXPECT_EQ(must(b.query()).recv_empty, VIP_FALSE);
  EXPECT_EQ(must(b.query()).send_empty, VIP_TRUE);
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_EQ(must(a.query()).send_empty, VIP_FALSE) << "completed or not, it was not taken back";
  must(a.send_wait());
  must(b.recv_wait());
  EXPECT_EQ(must(a.query()).send_empty, VIP_TRUE);
  EXPECT_EQ(must(b.query()).recv_empty, VIP_TRUE);
}

TEST_F(FunctionVi, QueryRefusesNull) {
  const Vi vi = near.vi(VIP_SERVICE_UNRELIABLE);
  for (unsigned argument = 2; argument <= 5; ++argument) {
    EXPECT_EQ(vi.query(null(argument)).code, VIP_INVALID_PARAMETER) << argument;
  }
  EXPECT_EQ(here->call<op::query_vi>(ViHandle{}, Nulls{}).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionVi, SetChangesAnIdleVi) {
  const Vi vi = near.vi(VIP_SERVICE_UNRELIABLE);
  ViAttributes wanted = near.rdma_vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY);
  wanted.max_transfer_size = 5000;
  EXPECT_EQ(vi.set_attributes(wanted).code, VIP_SUCCESS);
  const ViAttributes told = must(vi.query()).attributes;
  EXPECT_EQ(told.level, wanted.level);
  EXPECT_EQ(told.max_transfer_size, 5000U);
  EXPECT_NE(told.rdma_write, VIP_FALSE);
}

TEST_F(FunctionVi, SetRefusesBadAttributesAndOtherStates) {
  const Vi vi = near.vi(VIP_SERVICE_UNRELIABLE);
  refuses_bad_attributes(near, [&](const ViAttributes& a) { return vi.set_attributes(a).code; });
  EXPECT_EQ(must(vi.query()).attributes.level, VIP_SERVICE_UNRELIABLE) << "left as it was";
  EXPECT_EQ(vi.set_attributes({}, null(2)).code, VIP_INVALID_PARAMETER);
  const auto [a, b] = connected(VIP_SERVICE_UNRELIABLE);
  EXPECT_EQ(a.set_attributes(near.vi_attributes(VIP_SERVICE_UNRELIABLE)).code, VIP_INVALID_STATE);
  must(b.disconnect());
  EXPECT_EQ(a.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
  EXPECT_EQ(a.set_attributes(near.vi_attributes(VIP_SERVICE_UNRELIABLE)).code, VIP_INVALID_STATE);
}

}  // namespace
}  // namespace conformance
