// adrift_tool FILE name HOST    opens nic0, waits for the file, looks the host up and says "found" or
//                               "not found RESULT"
// adrift_tool FILE close        the same, but closes the NIC and says "closed"
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "vipl/vipl_ext.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  VIP_NIC_HANDLE nic;
  if (VipOpenNic("nic0", &nic) != VIP_SUCCESS) return 1;
  VipErrorCallback(nic, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR*) { std::puts("NIC error"); });
  std::puts("open");
  while (access(argv[1], F_OK) != 0) usleep(10'000);
  std::puts("go");
  if (std::string(argv[2]) == "close") {
    if (VipCloseNic(nic) != VIP_SUCCESS) return 1;
    std::puts("closed");
    return 0;
  }
  alignas(VIP_NET_ADDRESS) unsigned char room[sizeof(VIP_NET_ADDRESS) + 64] = {};
  auto* const address = reinterpret_cast<VIP_NET_ADDRESS*>(room);
  if (VipNSInit(nic, nullptr) != VIP_SUCCESS) return 1;
  address->HostAddressLen = 6;
  const VIP_RETURN result = VipNSGetHostByName(nic, argv[3], address, 0);
  if (result == VIP_SUCCESS) {
    std::puts("found");
  } else {
    std::printf("not found %d\n", static_cast<int>(result));
  }
  return result == VIP_SUCCESS ? 0 : 1;
}
