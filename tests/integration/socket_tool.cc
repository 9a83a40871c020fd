// socket_tool: opens the first NIC and prints its address. Status 1: it can't be opened.
#include <cstdio>

#include "vipl/vipl.h"

int main() {
  char device[] = "nic0";
  VIP_NIC_HANDLE nic;
  if (VipOpenNic(device, &nic) != VIP_SUCCESS) return 1;
  VIP_NIC_ATTRIBUTES attributes;
  if (VipQueryNic(nic, &attributes) != VIP_SUCCESS) return 1;
  const auto* const address = attributes.LocalNicAddress;
  std::printf("%02x:%02x:%02x:%02x:%02x:%02x\n", address[0], address[1], address[2], address[3], address[4],
              address[5]);
  return VipCloseNic(nic) == VIP_SUCCESS ? 0 : 1;
}
