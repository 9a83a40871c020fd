// VipRegisterMem, VipDeregisterMem, VipQueryMem, VipSetMemAttributes.
#include "suite.h"

namespace conformance {
namespace {

using FunctionMemory = Conformance;

TEST_F(FunctionMemory, RegisterTakesAnyAlignmentAndLength) {
  CHECKLIST(2);
  const Region memory = near.allocate(65536);
  for (const std::uint64_t offset : {0U, 1U, 63U, 4095U}) {
    for (const std::uint64_t length : {1U, 2U, 4097U, 60000U}) {
      const auto made =
          near.register_mem(memory.at(offset), length, near.mem_attributes());
      ASSERT_EQ(made.code, VIP_SUCCESS) << offset << ' ' << length;
      EXPECT_NE(made.handle, 0U);
      EXPECT_EQ(near.deregister_mem(memory.at(offset), made.handle).code, VIP_SUCCESS);
    }
  }
}

TEST_F(FunctionMemory, RegisterTakesTheSameMemoryRepeatedly) {
  CHECKLIST(2);
  const Region memory = near.allocate(8192);
  const auto plain = must(near.register_mem(memory.address, 8192, near.mem_attributes()));
  const auto rdma = must(near.register_mem(memory.address, 8192, near.rdma_mem_attributes()));
  const auto part = must(near.register_mem(memory.at(100), 5000, near.mem_attributes()));
  EXPECT_NE(plain, rdma);
  EXPECT_NE(plain, part);
  EXPECT_EQ(must(near.query_mem(memory.address, plain)).attributes.rdma_write, VIP_FALSE);
  EXPECT_NE(must(near.query_mem(memory.address, rdma)).attributes.rdma_write, VIP_FALSE);
}

TEST_F(FunctionMemory, RegisterTakesNullAttributes) {
  CHECKLIST(2);
  const Region memory = near.allocate(4096);
  const auto made = near.register_mem(memory.address, 4096, {}, null(4));
  ASSERT_EQ(made.code, VIP_SUCCESS);
  const MemAttributes attributes = must(near.query_mem(memory.address, made.handle)).attributes;
  EXPECT_EQ(attributes.rdma_write, VIP_FALSE);
  EXPECT_EQ(attributes.rdma_read, VIP_FALSE);
}

TEST_F(FunctionMemory, RegisterRefusesNonsense) {
  const Region memory = near.allocate(4096);
  const MemAttributes attributes = near.mem_attributes();
  EXPECT_EQ(near.register_mem(0, 4096, attributes).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.register_mem(memory.address, 0, attributes).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.register_mem(memory.address, 4096, attributes, null(5)).code,
            VIP_INVALID_PARAMETER);
  EXPECT_EQ(here->call<op::register_mem>(NicHandle{}, memory.address, std::uint64_t{4096},
                                         attributes, Nulls{})
                .code,
            VIP_INVALID_PARAMETER);
}

TEST_F(FunctionMemory, RegisterRefusesATagThatIsNone) {
  const Region memory = near.allocate(4096);
  MemAttributes attributes = near.mem_attributes();
  attributes.ptag = PtagHandle{0x1234};
  EXPECT_EQ(near.register_mem(memory.address, 4096, attributes).code, VIP_INVALID_PTAG);
  attributes.ptag = must(near.create_ptag());
  must(near.destroy_ptag(attributes.ptag));
  EXPECT_EQ(near.register_mem(memory.address, 4096, attributes).code, VIP_INVALID_PTAG);
}

TEST_F(FunctionMemory, RegisterRefusesRdmaReadWhereThereIsNone) {
  if (near.attributes().rdma_read_levels != 0) GTEST_SKIP() << "the NIC has RDMA read";
  const Region memory = near.allocate(4096);
  MemAttributes attributes = near.mem_attributes();
  attributes.rdma_read = VIP_TRUE;
  EXPECT_EQ(near.register_mem(memory.address, 4096, attributes).code, VIP_INVALID_RDMAREAD);
}

TEST_F(FunctionMemory, RegisterEndsAtALimitAndGoesOnAfterIt) {
  const Region memory = near.allocate(4096);
  const MemAttributes attributes = near.mem_attributes();
  std::vector<VIP_MEM_HANDLE> handles;
  std::size_t first = 0;
  for (int round = 0; round < 2; ++round) {
    Made<VIP_MEM_HANDLE> made;
    while ((made = near.register_mem(memory.address, 64, attributes)).code == VIP_SUCCESS) {
      handles.push_back(made.handle);
      ASSERT_LE(handles.size(), near.attributes().max_register_regions);
    }
    EXPECT_EQ(made.code, VIP_ERROR_RESOURCE);
    if (round == 0) first = handles.size();
    EXPECT_EQ(handles.size(), first) << "something was lost";
    for (const VIP_MEM_HANDLE handle : handles) {
      ASSERT_EQ(near.deregister_mem(memory.address, handle).code, VIP_SUCCESS);
    }
    handles.clear();
  }
}

TEST_F(FunctionMemory, DeregisterRefusesWhatIsNotRegistered) {
  const Region region = near.memory(4096), other = near.memory(4096);
  EXPECT_EQ(near.deregister_mem(region.at(1), region.handle).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.deregister_mem(region.address, 0).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.deregister_mem(region.address, 0xfffffff1).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.deregister_mem(region.address, other.handle).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(open_near().deregister_mem(region.address, region.handle).code,
            VIP_INVALID_PARAMETER)
      << "of another NIC handle";
  EXPECT_EQ(here->call<op::deregister_mem>(NicHandle{}, region.address, region.handle).code,
            VIP_INVALID_PARAMETER);
  EXPECT_EQ(region.deregister().code, VIP_SUCCESS);
  EXPECT_EQ(region.deregister().code, VIP_INVALID_PARAMETER) << "twice";
}

TEST_F(FunctionMemory, QueryTellsTheAttributes) {
  const MemAttributes given = near.rdma_mem_attributes();
  const Region region = near.memory(4096, given);
  const MemAttributes told = must(region.query()).attributes;
  EXPECT_EQ(told.ptag, given.ptag);
  EXPECT_EQ(told.rdma_write != VIP_FALSE, given.rdma_write != VIP_FALSE);
  EXPECT_EQ(told.rdma_read != VIP_FALSE, given.rdma_read != VIP_FALSE);
  EXPECT_EQ(region.query(null(4)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.query_mem(region.at(1), region.handle).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.query_mem(region.address, 0).code, VIP_INVALID_PARAMETER);
  must(region.deregister());
  EXPECT_EQ(region.query().code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionMemory, SetChangesTheAttributes) {
  const Region region = near.memory(4096);
  MemAttributes wanted = near.rdma_mem_attributes();
  wanted.ptag = must(near.create_ptag());
  EXPECT_EQ(region.set_attributes(wanted).code, VIP_SUCCESS);
  const MemAttributes told = must(region.query()).attributes;
  EXPECT_EQ(told.ptag, wanted.ptag);
  EXPECT_NE(told.rdma_write, VIP_FALSE);
}

TEST_F(FunctionMemory, SetRefusesNonsense) {
  const Region region = near.memory(4096);
  const MemAttributes attributes = near.mem_attributes();
  EXPECT_EQ(near.set_mem_attributes(region.at(1), region.handle, attributes).code,
            VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.set_mem_attributes(region.address, 0, attributes).code, VIP_INVALID_PARAMETER);
  MemAttributes bad = attributes;
  bad.ptag = PtagHandle{0x1234};
  EXPECT_EQ(region.set_attributes(bad).code, VIP_INVALID_PTAG);
  EXPECT_EQ(must(region.query()).attributes, attributes) << "left as it was";
}

}  // namespace
}  // namespace conformance
