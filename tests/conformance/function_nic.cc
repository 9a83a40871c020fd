// VipOpenNic, VipCloseNic, VipQueryNic.
#include "suite.h"

namespace conformance {
namespace {

using FunctionNic = Conformance;

TEST_F(FunctionNic, OpenGivesADifferentHandleEachTime) {
  CHECKLIST(1);
  const Nic second = open_near();
  EXPECT_NE(second.handle, near.handle);
  EXPECT_EQ(second.attributes().address, near.attributes().address);
}

TEST_F(FunctionNic, HandlesOfOneNicHaveObjectsOfTheirOwn) {
  CHECKLIST(1);
  const Nic second = open_near();
  const PtagHandle tag = must(second.create_ptag());
  EXPECT_EQ(must(second.create_cq(16)).nic, second.handle);
  EXPECT_NE(near.destroy_ptag(tag).code, VIP_SUCCESS) << "a tag of the other handle";
  MemAttributes attributes = near.mem_attributes();
  attributes.ptag = tag;
  const Region region = near.allocate(4096);
  EXPECT_EQ(near.register_mem(region.address, region.length, attributes).code, VIP_INVALID_PTAG);
  EXPECT_EQ(second.register_mem(region.address, region.length, attributes).code, VIP_SUCCESS);
}

TEST_F(FunctionNic, OpenRefusesANameThatNoDeviceHas) {
  EXPECT_EQ(Nic::open(here, "/dev/via_nothing_has_this_name").code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(Nic::open(here, "").code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(Nic::open(here, std::string(4096, 'n')).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionNic, OpenDoesNotAcceptEveryNumber) {
  for (const char* const name : {"nic999", "VINIC999", "/dev/via_eth999"}) {
    EXPECT_EQ(Nic::open(here, name).code, VIP_INVALID_PARAMETER) << name;
  }
}

TEST_F(FunctionNic, OpenRefusesNull) {
  EXPECT_EQ(Nic::open(here, options.device, null(1)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(Nic::open(here, options.device, null(2)).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionNic, ManyHandlesMayBeOpenAtATime) {
  std::vector<Nic> nics;
  for (int i = 0; i < 8; ++i) nics.push_back(open_near());
  for (const Nic& nic : nics) EXPECT_EQ(nic.close().code, VIP_SUCCESS);
}

TEST_F(FunctionNic, CloseRefusesWhatIsNotOpen) {
  const Nic nic = open_near();
  EXPECT_EQ(nic.close().code, VIP_SUCCESS);
  EXPECT_EQ(nic.close().code, VIP_INVALID_PARAMETER) << "closed before";
  EXPECT_EQ(nic.query().code, VIP_INVALID_PARAMETER) << "closed before";
  EXPECT_EQ(here->call<op::close_nic>(NicHandle{}).code, VIP_INVALID_PARAMETER) << "NULL";
}

TEST_F(FunctionNic, CloseTakesEverythingWithIt) {
  CHECKLIST(12);
  const Nic nic = open_near();
  const Cq cq = must(nic.create_cq(16));
  const Vi vi =
      must(nic.create_vi(nic.vi_attributes(VIP_SERVICE_UNRELIABLE), cq.handle, cq.handle));
  const Region region = nic.memory(4096);
  must(vi.post_recv({.segments = {region.all()}}));
  EXPECT_EQ(nic.close().code, VIP_SUCCESS);
  EXPECT_EQ(vi.query().code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(cq.done().code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(region.query().code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionNic, CloseEndsTheWaitingOfOtherThreads) {
  const Nic nic = open_near();
  const Cq cq = must(nic.create_cq(16));
  const Vi vi = nic.vi(VIP_SERVICE_UNRELIABLE);
  const Region region = nic.memory(64);
  must(vi.post_recv({.segments = {region.all()}}));
  const Address address = nic.address(fresh());
  auto receive = start([=] { return vi.recv_wait(kInfinite); });
  auto entry = start([=] { return cq.wait(kInfinite); });
  auto request = start([=] { return nic.connect_wait(address, kInfinite); });
  EXPECT_FALSE(receive.returned_within(20));
  EXPECT_FALSE(entry.returned());
  EXPECT_FALSE(request.returned());
  EXPECT_EQ(nic.close().code, VIP_SUCCESS);
  EXPECT_NE(receive.get().code, VIP_SUCCESS);
  EXPECT_NE(entry.get().code, VIP_SUCCESS);
  EXPECT_NE(request.get().code, VIP_SUCCESS);
}

TEST_F(FunctionNic, QueryTellsWhatTheNicCanDo) {
  for (const Nic& nic : {near, far}) {
    const NicAttributes a = must(nic.query()).attributes;
    EXPECT_TRUE(a.name_terminated);
    EXPECT_FALSE(a.name.empty());
    EXPECT_EQ(a.address.size(), 6U) << "programs rely on it";
    EXPECT_TRUE(a.thread_safe == VIP_TRUE || a.thread_safe == VIP_FALSE);
    EXPECT_GE(a.max_discriminator_len, 16U);
    EXPECT_GT(a.max_register_bytes, 0U);
    EXPECT_GT(a.max_register_regions, 0U);
    EXPECT_GT(a.max_register_block_bytes, 0U);
    EXPECT_GT(a.max_vi, 1U);
    EXPECT_GE(a.max_descriptors_per_queue, 300U);
    EXPECT_GE(a.max_segments_per_desc, 2U);
    EXPECT_GT(a.max_cq, 0U);
    EXPECT_GE(a.max_cq_entries, 1024U);
    EXPECT_GE(a.max_transfer_size, 32768U);
    EXPECT_GT(a.native_mtu, 0U);
    EXPECT_GT(a.max_ptags, 0U);
    EXPECT_EQ(a.reliability_levels & ~7U, 0U) << "only levels that exist";
    EXPECT_TRUE((a.reliability_levels & VIP_SERVICE_UNRELIABLE) != 0) << "all providers must";
    EXPECT_EQ(a.rdma_read_levels & ~a.reliability_levels, 0U);
    EXPECT_EQ(a.rdma_read_levels & VIP_SERVICE_UNRELIABLE, 0U) << "RDMA read is not for these";
  }
}

TEST_F(FunctionNic, TransferSizeFitsWhereProgramsKeepIt) {
  CHECKLIST(26);
  EXPECT_LT(near.attributes().max_transfer_size, std::uint64_t{1} << 31);
  EXPECT_GE(near.attributes().max_transfer_size, 32768U);
}

TEST_F(FunctionNic, AttributesDoNotChange) {
  const NicAttributes first = must(near.query()).attributes, second = must(near.query()).attributes;
  EXPECT_EQ(first.name, second.name);
  EXPECT_EQ(first.address, second.address);
  EXPECT_EQ(first.max_vi, second.max_vi);
  EXPECT_EQ(first.max_transfer_size, second.max_transfer_size);
}

TEST_F(FunctionNic, QueryRefusesNull) {
  EXPECT_EQ(near.query(null(2)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(here->call<op::query_nic>(NicHandle{}, Nulls{}).code, VIP_INVALID_PARAMETER);
}

}  // namespace
}  // namespace conformance
