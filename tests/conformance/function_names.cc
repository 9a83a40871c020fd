// VipNSInit, VipNSGetHostByName, VipNSGetHostByAddr, VipNSShutdown.
#include "suite.h"

namespace conformance {
namespace {

using FunctionNames = Conformance;

TEST_F(FunctionNames, InitAndShutdownMayBeRepeated) {
  CHECKLIST(14);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(near.ns_init().code, VIP_SUCCESS);
  EXPECT_EQ(near.ns_shutdown().code, VIP_SUCCESS);
  EXPECT_EQ(near.ns_init().code, VIP_SUCCESS);
  EXPECT_EQ(here->call<op::ns_init>(NicHandle{}).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(here->call<op::ns_shutdown>(NicHandle{}).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionNames, TheNameOfAHostGivesItsAddress) {
  must(near.ns_init());
  const NameAnswer own = must(near.ns_get_host_by_name(options.name));
  EXPECT_EQ(own.address.host, near.attributes().address);
  const NameAnswer peer = must(near.ns_get_host_by_name(options.peer_name));
  EXPECT_EQ(peer.address.host, far.attributes().address);
}

TEST_F(FunctionNames, OnlyTheHostPartIsWritten) {
  CHECKLIST(5);
  CHECKLIST(22);
  must(near.ns_init());
  for (const std::uint8_t prefill : {std::uint8_t{0}, std::uint8_t{0xff}}) {
    const NameAnswer answer =
        must(near.ns_get_host_by_name(options.peer_name, 0, {}, prefill));
    EXPECT_EQ(answer.address.host, far.attributes().address);
    EXPECT_FALSE(answer.beyond) << "DiscriminatorLen and what follows stay as they were";
  }
}

TEST_F(FunctionNames, AnAddressStaysValidAfterShutdown) {
  CHECKLIST(14);
  must(near.ns_init());
  Address address = must(near.ns_get_host_by_name(options.peer_name)).address;
  must(near.ns_shutdown());
  const std::string name = fresh();
  address.discriminator = far.address(name).discriminator;
  address.discriminator_len.reset();
  address.host_len.reset();
  const Vi client = near.vi(VIP_SERVICE_UNRELIABLE);
  auto asked = start([client, address, local = near.address("c")] {
    return client.connect_request(local, address, kSoon);
  });
  must(far.connect_reject(must(far.connect_wait(far.address(name))).conn));
  EXPECT_EQ(asked.get().code, VIP_REJECT);
}

TEST_F(FunctionNames, WhatIsNotKnownIsSaidToBe) {
  must(near.ns_init());
  EXPECT_EQ(near.ns_get_host_by_name("no-host-has-this-name").code, VIP_ERROR_NAMESERVICE);
  EXPECT_EQ(near.ns_get_host_by_name(options.name, 1000).code, VIP_ERROR_NAMESERVICE);
  EXPECT_EQ(near.ns_get_host_by_name(std::string(5000, 'n')).code, VIP_ERROR_NAMESERVICE);
  EXPECT_EQ(near.ns_get_host_by_name(options.name, 0, null(2)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.ns_get_host_by_name(options.name, 0, null(3)).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionNames, AnAddressHasAName) {
  must(near.ns_init());
  for (const Nic& nic : {near, far}) {
    const NameAnswer answer = must(near.ns_get_host_by_addr(nic.address("")));
    EXPECT_FALSE(answer.name.empty());
    EXPECT_EQ(answer.name_len, answer.name.size());
    EXPECT_EQ(must(near.ns_get_host_by_name(answer.name)).address.host, nic.attributes().address);
  }
}

TEST_F(FunctionNames, ANameNeedsRoom) {
  must(near.ns_init());
  const std::size_t length = must(near.ns_get_host_by_addr(near.address(""))).name.size();
  EXPECT_EQ(near.ns_get_host_by_addr(near.address(""), length).code, VIP_ERROR_RESOURCE)
      << "no room for the NUL";
  EXPECT_EQ(near.ns_get_host_by_addr(near.address(""), length + 1).code, VIP_SUCCESS);
  EXPECT_EQ(near.ns_get_host_by_addr(near.address(""), 0).code, VIP_ERROR_RESOURCE);
}

TEST_F(FunctionNames, AnAddressThatNobodyHasHasNoName) {
  must(near.ns_init());
  const Address nobody{.host = {0x02, 0x77, 0x12, 0x34, 0x56, 0x78}};
  EXPECT_EQ(near.ns_get_host_by_addr(nobody).code, VIP_ERROR_NAMESERVICE);
  for (const unsigned argument : {2U, 3U, 4U}) {
    EXPECT_EQ(near.ns_get_host_by_addr(nobody, 64, null(argument)).code, VIP_INVALID_PARAMETER);
  }
}

}  // namespace
}  // namespace conformance
