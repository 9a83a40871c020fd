#include "kagent/agent/config/device_names.h"

#include <gtest/gtest.h>

#include <vector>

namespace viaduct {
namespace {

const std::vector<std::string> kTwo = {"eth3", "via0"};

std::optional<std::size_t> find(std::string_view device) { return find_device(device, kTwo); }

TEST(DeviceNames, AreThoseOfAllProviders) {
  for (const char* name : {"/dev/via_eth0", "nic0", "VINIC", "VINIC0", "/dev/clanvi0", "\\\\.\\VI1"}) {
    EXPECT_EQ(find(name), 0u) << name;
  }
  for (const char* name : {"/dev/via_eth1", "nic1", "VINIC1", "/dev/clanvi1", "\\\\.\\VI2"}) {
    EXPECT_EQ(find(name), 1u) << name;
  }
}

TEST(DeviceNames, AreThoseOfTheInterfacesToo) {
  for (const char* name : {"via0", "/dev/via0", "/dev/via_via0"}) EXPECT_EQ(find(name), 1u) << name;
  for (const char* name : {"eth3", "/dev/eth3", "/dev/via_eth3"}) EXPECT_EQ(find(name), 0u) << name;
}

TEST(DeviceNames, OfAnInterfaceGoBeforeNumbers) {
  const std::vector<std::string> interfaces = {"eth0", "nic0", "eth1", "lo"};
  EXPECT_EQ(find_device("nic0", interfaces), 1u);
  EXPECT_EQ(find_device("/dev/via_eth1", interfaces), 2u);
  EXPECT_EQ(find_device("/dev/via_lo", interfaces), 3u);
}

TEST(DeviceNames, OfTheLoopbackDeviceHaveNoNumber) {
  const std::vector<std::string> interfaces = {"via_lo", "lo", "eth0"};
  for (const char* name : {"via_lo", "/dev/via_lo", "/etc/via_lo"}) {
    EXPECT_EQ(find_device(name, interfaces), 0u) << name;
    EXPECT_EQ(find(name), std::nullopt) << name;
  }
  EXPECT_EQ(find_device("nic0", interfaces), 1u);
  EXPECT_EQ(find_device("VINIC", interfaces), 1u);
  EXPECT_EQ(find_device("nic1", interfaces), 2u);
  EXPECT_EQ(find_device("nic2", interfaces), std::nullopt);
}

TEST(DeviceNames, EndWithTheLastNic) {
  for (const char* name : {"nic2", "VINIC2", "/dev/via_eth2", "/dev/clanvi2", "\\\\.\\VI3",
                           "\\\\.\\VI0"}) {
    EXPECT_EQ(find(name), std::nullopt) << name;
  }
}

TEST(DeviceNames, AreTakenAsTheyAreWritten) {
  for (const char* name :
       {"", "nic", "nic01", "nic+1", "nic-1", "nic 1", "nic1 ", "NIC1", "vinic1", "nic1x", "/dev/",
        "/dev/via_", "/dev/via_eth", "nic99999999999999999999999", "\\\\.\\VI", "/dev/clanvi",
        "eth", "eth33", "/dev/via_lo0", "nic0x0"}) {
    EXPECT_EQ(find(name), std::nullopt) << name;
  }
}

TEST(DeviceNames, MeanNothingWithoutANic) {
  EXPECT_EQ(find_device("VINIC", {}), std::nullopt);
  EXPECT_EQ(find_device("", {}), std::nullopt);
}

}  // namespace
}  // namespace viaduct
