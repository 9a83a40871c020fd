#include "sovia/datagram/datagram_vi.h"

#include <string.h>
#include <sys/mman.h>
#include <vipl/vipl_ext.h>

#include <new>

#include "sovia/process/units.h"

namespace viaduct::sovia::datagram {
namespace {

// Not whole pages apart: the beginnings of all would share few sets of a cache.
constexpr std::size_t kStride = kMostBytes + 128;

union Address {
  VIP_NET_ADDRESS address;
  std::uint8_t room[sizeof(VIP_NET_ADDRESS) + 6 + 64];
};

// "SU" and the flow as the end with this address sees it.
void set_address(Address& to, const std::uint8_t* host, const FlowEnd& near, const FlowEnd& far) {
  struct {
    char name[2] = {'S', 'U'};
    std::uint8_t family = 4;
    std::uint8_t zero = 0;
    FlowEnd near, far;
  } discriminator;
  static_assert(sizeof discriminator == 40);
  discriminator.near = near;
  discriminator.far = far;
  to.address.HostAddressLen = 6;
  to.address.DiscriminatorLen = sizeof discriminator;
  memcpy(to.address.HostAddress, host, 6);
  memcpy(to.address.HostAddress + 6, &discriminator, sizeof discriminator);
}

}  // namespace

bool DatagramVi::map() {
  constexpr std::size_t kPlaces = kSendPlaces + kReceivePlaces;
  constexpr std::size_t kDescriptors = (kPlaces * sizeof(PostedReceive) + kPage - 1) / kPage * kPage;
  bytes_ = (kDescriptors + kPlaces * kStride + kPage - 1) / kPage * kPage;
  // Pages that no datagram ever comes to take no memory.
  void* const base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(base);
  send_ = reinterpret_cast<PostedReceive*>(base_);
  receive_ = send_ + kSendPlaces;
  send_places_ = base_ + kDescriptors;
  receive_places_ = send_places_ + kSendPlaces * kStride;
  for (std::uint32_t i = 0; i < kReceivePlaces; ++i) {
    receive_[i].owner = this;
    receive_[i].place = i;
  }
  return true;
}

DatagramVi* DatagramVi::make(Nic& nic, const Flow& flow, const std::uint8_t (&peer)[6],
                             std::uint32_t timeout_ms) {
  auto* const made = new (std::nothrow) DatagramVi(nic);
  if (made == nullptr) return nullptr;
  if (!made->map()) {
    delete made;
    return nullptr;
  }
  VIP_MEM_ATTRIBUTES memory{};
  memory.Ptag = nic.ptag();
  VIP_VI_ATTRIBUTES attributes{};
  attributes.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
  attributes.MaxTransferSize = kMostBytes;
  attributes.Ptag = nic.ptag();
  bool ready = VipRegisterMem(nic.handle(), made->base_, made->bytes_, &memory, &made->memory_) ==
                   VIP_SUCCESS &&
               VipCreateVi(nic.handle(), &attributes, nullptr, nic.cq(), &made->vi_) == VIP_SUCCESS;
  for (std::uint32_t i = 0; ready && i < kReceivePlaces; ++i) ready = made->post_receive(i);
  if (ready) {
    nic.learn_stack_from(made->vi_);
    Address local, remote;
    set_address(local, nic.address(), flow.local, flow.remote);
    set_address(remote, peer, flow.remote, flow.local);
    ready = VipConnectPeerRequest(made->vi_, &local.address, &remote.address, timeout_ms) == VIP_SUCCESS;
  }
  if (ready) return made;
  made->destroy();
  return nullptr;
}

VIP_RETURN DatagramVi::connected() {
  VIP_VI_ATTRIBUTES peer;
  return VipConnectPeerDone(vi_, &peer);
}

std::byte* DatagramVi::to_send(std::uint32_t place) { return send_places_ + place * kStride; }
const std::byte* DatagramVi::received(std::uint32_t place) { return receive_places_ + place * kStride; }

bool DatagramVi::post(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  VIP_DESCRIPTOR& d = send_[place].descriptor;
  d.CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
  d.CS.SegCount = bytes != 0 ? 1 : 0;
  d.CS.Length = bytes;
  d.CS.ImmediateData = immediate;
  d.CS.Reserved = 0;
  d.DS[0].Local.Data.Address = to_send(place);
  d.DS[0].Local.Handle = memory_;
  d.DS[0].Local.Length = bytes;
  return VipPostSend(vi_, &d, memory_) == VIP_SUCCESS;
}

bool DatagramVi::post_receive(std::uint32_t place) {
  VIP_DESCRIPTOR& d = receive_[place].descriptor;
  d.CS.Control = VIP_CONTROL_OP_SENDRECV;
  d.CS.SegCount = 1;
  d.CS.Length = kMostBytes;
  d.CS.Reserved = 0;
  d.DS[0].Local.Data.Address = receive_places_ + place * kStride;
  d.DS[0].Local.Handle = memory_;
  d.DS[0].Local.Length = kMostBytes;
  return VipPostRecv(vi_, &d, memory_) == VIP_SUCCESS;
}

std::uint32_t DatagramVi::completed() {
  std::uint32_t count = 0;
  for (VIP_DESCRIPTOR* done = nullptr;; done = nullptr, ++count) {
    VipxSendDone(vi_, &done);
    if (done == nullptr) return count;
  }
}

void DatagramVi::destroy() {
  if (vi_ != nullptr) {
    VipDisconnect(vi_);
    VIP_DESCRIPTOR* descriptor;
    do {
      descriptor = nullptr;
      VipSendDone(vi_, &descriptor);
    } while (descriptor != nullptr);
    do {
      descriptor = nullptr;
      VipRecvDone(vi_, &descriptor);
    } while (descriptor != nullptr);
    VipDestroyVi(vi_);
  }
  if (memory_ != 0) VipDeregisterMem(nic_.handle(), base_, memory_);
  munmap(base_, bytes_);
  delete this;
}

}  // namespace viaduct::sovia::datagram
