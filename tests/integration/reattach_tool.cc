// A granted program while its agent comes and goes. All open nic0, say "open" and wait for FILE.
//
//   reattach_tool FILE name HOST    looks the host up and says "found" or "not found RESULT"
//   reattach_tool FILE close        closes the NIC and says "closed"
//   reattach_tool FILE wait         says "go" and waits for one request, for ever; says "asked" and
//                                 rejects it
//   reattach_tool FILE ask HOST     asks the process that waits there, and says "rejected" or "RESULT"
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "vipl/vipl_ext.h"

namespace {

constexpr char kDiscriminator[] = "reattach";

struct Address {
  alignas(VIP_NET_ADDRESS) unsigned char room[sizeof(VIP_NET_ADDRESS) + 64] = {};
  VIP_NET_ADDRESS* get() { return reinterpret_cast<VIP_NET_ADDRESS*>(room); }
  void set_discriminator() {
    get()->HostAddressLen = 6;
    get()->DiscriminatorLen = sizeof kDiscriminator;
    std::memcpy(get()->HostAddress + 6, kDiscriminator, sizeof kDiscriminator);
  }
};

Address local_address(VIP_NIC_HANDLE nic) {
  Address out;
  VIP_NIC_ATTRIBUTES about;
  if (VipQueryNic(nic, &about) == VIP_SUCCESS) {
    std::memcpy(out.get()->HostAddress, about.LocalNicAddress, 6);
  }
  out.set_discriminator();
  return out;
}

VIP_RETURN look_up(VIP_NIC_HANDLE nic, char* host, Address& address) {
  if (VipNSInit(nic, nullptr) != VIP_SUCCESS) return VIP_ERROR_NAMESERVICE;
  address.get()->HostAddressLen = 6;
  return VipNSGetHostByName(nic, host, address.get(), 0);
}

VIP_RETURN wait(VIP_NIC_HANDLE nic) {
  Address local = local_address(nic), remote;
  remote.get()->DiscriminatorLen = 64;
  VIP_VI_ATTRIBUTES theirs;
  VIP_CONN_HANDLE request;
  const VIP_RETURN result =
      VipConnectWait(nic, local.get(), VIP_INFINITE, remote.get(), &theirs, &request);
  if (result != VIP_SUCCESS) return result;
  std::puts("asked");
  return VipConnectReject(request);
}

VIP_RETURN ask(VIP_NIC_HANDLE nic, char* host) {
  Address local = local_address(nic), remote;
  if (look_up(nic, host, remote) != VIP_SUCCESS) return VIP_ERROR_NAMESERVICE;
  remote.set_discriminator();
  VIP_VI_ATTRIBUTES attributes = {}, theirs;
  attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  VIP_VI_HANDLE vi;
  if (VipCreateVi(nic, &attributes, nullptr, nullptr, &vi) != VIP_SUCCESS)
    return VIP_ERROR_RESOURCE;
  constexpr VIP_ULONG kMs = 5000;
  return VipConnectRequest(vi, local.get(), remote.get(), kMs, &theirs);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  VIP_NIC_HANDLE nic;
  if (VipOpenNic("nic0", &nic) != VIP_SUCCESS) return 1;
  VipErrorCallback(nic, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR*) { std::puts("NIC error"); });
  std::puts("open");
  while (access(argv[1], F_OK) != 0) usleep(10'000);
  std::puts("go");
  const std::string what = argv[2];
  if (what == "close") {
    if (VipCloseNic(nic) != VIP_SUCCESS) return 1;
    std::puts("closed");
    return 0;
  }
  if (what == "wait") return wait(nic) == VIP_SUCCESS ? 0 : 1;
  if (argc < 4) return 2;
  Address address;
  const bool asks = what == "ask";
  const VIP_RETURN result = asks ? ask(nic, argv[3]) : look_up(nic, argv[3], address);
  if (result == (asks ? VIP_REJECT : VIP_SUCCESS)) {
    std::puts(asks ? "rejected" : "found");
    return 0;
  }
  std::printf("%s%d\n", asks ? "" : "not found ", static_cast<int>(result));
  return 1;
}
