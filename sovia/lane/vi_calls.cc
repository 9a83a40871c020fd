#include "sovia/lane/vi_calls.h"

#include <string.h>
#include <sys/mman.h>
#include <vipl/vipl_ext.h>

namespace viaduct::sovia::vi_calls {
namespace {

// Room for a host address and a discriminator.
union Address {
  VIP_NET_ADDRESS address;
  std::uint8_t room[sizeof(VIP_NET_ADDRESS) + 6 + 64];
};

// The discriminator of an end's address: "S", the kind, the number, and the connection as that end sees it.
void set_address(Address& to, const std::uint8_t* host, const Flow& flow, bool local, char kind, std::uint8_t number) {
  struct {
    char name[2];
    std::uint8_t family;
    std::uint8_t number;
    FlowEnd near, far;
  } discriminator;
  static_assert(sizeof discriminator == 40);
  discriminator.name[0] = 'S';
  discriminator.name[1] = kind;
  discriminator.family = flow.ipv6 ? 6 : 4;
  discriminator.number = number;
  discriminator.near = local ? flow.local : flow.remote;
  discriminator.far = local ? flow.remote : flow.local;
  to.address.HostAddressLen = 6;
  to.address.DiscriminatorLen = sizeof discriminator;
  memcpy(to.address.HostAddress, host, 6);
  memcpy(to.address.HostAddress + 6, &discriminator, sizeof discriminator);
}

template <class Done>
void take_all(VIP_VI_HANDLE vi, Done&& done) {
  VIP_DESCRIPTOR* descriptor;
  do {
    descriptor = nullptr;
    done(vi, &descriptor);
  } while (descriptor != nullptr);
}

}  // namespace

std::byte* map(std::size_t bytes) {
  void* const base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return base != MAP_FAILED ? static_cast<std::byte*>(base) : nullptr;
}

bool connect(VIP_VI_HANDLE vi, ProcessNic& nic, const std::uint8_t (&peer)[6], const Flow& flow, char kind,
             std::uint8_t number, std::uint32_t timeout_ms) {
  Address local, remote;
  set_address(local, nic.address(), flow, true, kind, number);
  set_address(remote, peer, flow, false, kind, number);
  return VipConnectPeerRequest(vi, &local.address, &remote.address, timeout_ms) == VIP_SUCCESS;
}

VIP_RETURN connected(VIP_VI_HANDLE vi) {
  VIP_VI_ATTRIBUTES peer;
  return VipConnectPeerDone(vi, &peer);
}

bool send(VIP_VI_HANDLE vi, PostedDescriptor& posted, const void* data, std::uint32_t bytes, VIP_MEM_HANDLE memory,
          std::uint32_t immediate, VIP_UINT16 control, VIP_MEM_HANDLE own) {
  VIP_DESCRIPTOR& d = posted.descriptor;
  d.CS.Control = static_cast<VIP_UINT16>(VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE | control);
  d.CS.SegCount = bytes != 0 ? 1 : 0;
  d.CS.Length = bytes;
  d.CS.ImmediateData = immediate;
  d.CS.Reserved = 0;
  d.DS[0].Local.Data.Address = const_cast<void*>(data);
  d.DS[0].Local.Handle = memory;
  d.DS[0].Local.Length = bytes;
  return VipPostSend(vi, &d, own) == VIP_SUCCESS;
}

bool receive(VIP_VI_HANDLE vi, PostedDescriptor& posted, void* data, std::uint32_t bytes, VIP_MEM_HANDLE own) {
  VIP_DESCRIPTOR& d = posted.descriptor;
  d.CS.Control = VIP_CONTROL_OP_SENDRECV;
  d.CS.SegCount = 1;
  d.CS.Length = bytes;
  d.CS.Reserved = 0;
  d.DS[0].Local.Data.Address = data;
  d.DS[0].Local.Handle = own;
  d.DS[0].Local.Length = bytes;
  return VipPostRecv(vi, &d, own) == VIP_SUCCESS;
}

std::uint32_t completed(VIP_VI_HANDLE vi) {
  std::uint32_t count = 0;
  VIP_DESCRIPTOR* descriptor = nullptr;
  while (VipxSendDone(vi, &descriptor) == VIP_SUCCESS) ++count;
  return count;
}

void destroy(VIP_VI_HANDLE vi) {
  VipDisconnect(vi);
  take_all(vi, VipSendDone);
  take_all(vi, VipRecvDone);
  VipDestroyVi(vi);
}

}  // namespace viaduct::sovia::vi_calls
