// stuck_tool: a hosted program that sends from a page which it never fills in (userfaultfd). The agent
// must not wait for that: the program says how the send has ended, and waits to be killed.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>

#include "vipl/vipl_ext.h"

namespace {

constexpr std::uint32_t kBytes = 4096;

int fail(const char* what) {
  std::perror(what);
  return 1;
}

bool connect(VIP_NIC_HANDLE nic, VIP_VI_HANDLE from, VIP_VI_HANDLE to) {
  VIP_NIC_ATTRIBUTES about;
  if (VipQueryNic(nic, &about) != VIP_SUCCESS) return false;
  alignas(VIP_NET_ADDRESS) unsigned char rooms[3][sizeof(VIP_NET_ADDRESS) + 64] = {};
  VIP_NET_ADDRESS* addresses[3];
  for (unsigned i = 0; i < 3; ++i) {
    addresses[i] = reinterpret_cast<VIP_NET_ADDRESS*>(rooms[i]);
    addresses[i]->HostAddressLen = 6;
    std::memcpy(addresses[i]->HostAddress, about.LocalNicAddress, 6);
    addresses[i]->DiscriminatorLen = 1;
    addresses[i]->HostAddress[6] = static_cast<VIP_UINT8>('0' + i);
  }
  addresses[2]->DiscriminatorLen = 64;
  bool accepted = false;
  std::thread server([&] {
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;
    accepted = VipConnectWait(nic, addresses[1], 3000, addresses[2], &theirs, &request) ==
                   VIP_SUCCESS &&
               VipConnectAccept(request, to) == VIP_SUCCESS;
  });
  VIP_VI_ATTRIBUTES theirs;
  const bool asked =
      VipConnectRequest(from, addresses[0], addresses[1], 3000, &theirs) == VIP_SUCCESS;
  server.join();
  return asked && accepted;
}

}  // namespace

int main() {
  const auto faults = static_cast<int>(syscall(SYS_userfaultfd, 0));
  uffdio_api api{UFFD_API, 0, 0};
  if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0) {
    std::printf("no userfaultfd\n");
    return 77;
  }
  void* const page =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uffdio_register range{{reinterpret_cast<std::uint64_t>(page), kBytes}, UFFDIO_REGISTER_MODE_MISSING, 0};
  if (page == MAP_FAILED || ioctl(faults, UFFDIO_REGISTER, &range) != 0) return fail("register");
  static VIP_DESCRIPTOR descriptor, received;
  static char room[kBytes];
  VIP_NIC_HANDLE nic;
  VIP_VI_HANDLE from, to;
  VIP_MEM_HANDLE memory, its, rooms;
  VIP_VI_ATTRIBUTES attributes = {};
  attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  attributes.MaxTransferSize = kBytes;
  if (VipOpenNic(const_cast<char*>("nic0"), &nic) != VIP_SUCCESS ||
      VipCreateVi(nic, &attributes, nullptr, nullptr, &from) != VIP_SUCCESS ||
      VipCreateVi(nic, &attributes, nullptr, nullptr, &to) != VIP_SUCCESS ||
      VipRegisterMem(nic, page, kBytes, nullptr, &memory) != VIP_SUCCESS ||
      VipRegisterMem(nic, &descriptor, sizeof descriptor, nullptr, &its) != VIP_SUCCESS ||
      VipRegisterMem(nic, room, sizeof room, nullptr, &rooms) != VIP_SUCCESS) {
    return fail("set-up");
  }
  VIP_MEM_HANDLE received_handle;
  VipRegisterMem(nic, &received, sizeof received, nullptr, &received_handle);
  received.CS.SegCount = 1;
  received.CS.Length = kBytes;
  received.DS[0].Local.Data.Address = room;
  received.DS[0].Local.Handle = rooms;
  received.DS[0].Local.Length = kBytes;
  if (VipPostRecv(to, &received, received_handle) != VIP_SUCCESS) return fail("post");
  if (!connect(nic, from, to)) return fail("connect");
  descriptor.CS.SegCount = 1;
  descriptor.CS.Length = kBytes;
  descriptor.DS[0].Local.Data.Address = page;
  descriptor.DS[0].Local.Handle = memory;
  descriptor.DS[0].Local.Length = kBytes;
  if (VipPostSend(from, &descriptor, its) != VIP_SUCCESS) return fail("send");
  VIP_DESCRIPTOR* done = nullptr;
  const VIP_RETURN result = VipSendWait(from, 10'000, &done);
  std::printf("ended: %s, status %x\n", VipxReturnText(result), done != nullptr ? done->CS.Status : 0u);
  std::fflush(stdout);
  for (;;) pause();
}
