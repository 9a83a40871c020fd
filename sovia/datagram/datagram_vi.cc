#include "sovia/datagram/datagram_vi.h"

#include <sys/mman.h>

#include <new>

#include "sovia/lane/vi_calls.h"
#include "sovia/process/units.h"

namespace viaduct::sovia::datagram {
namespace {

// Places are not whole pages apart, as the beginnings of all would then share few sets of a cache.
constexpr std::size_t kStride = kMostBytes + 128;

}  // namespace

bool DatagramVi::map() {
  constexpr std::size_t kPlaces = kSendPlaces + kReceivePlaces;
  constexpr std::size_t kDescriptors = (kPlaces * sizeof(PostedDescriptor) + kPage - 1) / kPage * kPage;
  bytes_ = (kDescriptors + kPlaces * kStride + kPage - 1) / kPage * kPage;
  base_ = vi_calls::map(bytes_);
  if (base_ == nullptr) return false;
  send_ = reinterpret_cast<PostedDescriptor*>(base_);
  receive_ = send_ + kSendPlaces;
  send_places_ = base_ + kDescriptors;
  receive_places_ = send_places_ + kSendPlaces * kStride;
  for (std::uint32_t i = 0; i < kReceivePlaces; ++i) {
    receive_[i].owner = &receives;
    receive_[i].place = i;
  }
  return true;
}

DatagramVi* DatagramVi::make(ProcessNic& nic, const Flow& flow, const std::uint8_t (&peer)[6],
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
    ready = vi_calls::connect(made->vi_, nic, peer, flow, 'U', 0, timeout_ms);
  }
  if (ready) return made;
  made->destroy();
  return nullptr;
}

VIP_RETURN DatagramVi::connected() { return vi_calls::connected(vi_); }

std::byte* DatagramVi::to_send(std::uint32_t place) { return send_places_ + place * kStride; }
const std::byte* DatagramVi::received(std::uint32_t place) { return receive_places_ + place * kStride; }

bool DatagramVi::post(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  return vi_calls::send(vi_, send_[place], to_send(place), bytes, memory_, immediate, 0, memory_);
}

bool DatagramVi::post_receive(std::uint32_t place) {
  return vi_calls::receive(vi_, receive_[place], receive_places_ + place * kStride, kMostBytes, memory_);
}

std::uint32_t DatagramVi::completed() { return vi_calls::completed(vi_); }

void DatagramVi::destroy() {
  if (vi_ != nullptr) vi_calls::destroy(vi_);
  if (memory_ != 0) VipDeregisterMem(nic_.handle(), base_, memory_);
  munmap(base_, bytes_);
  delete this;
}

}  // namespace viaduct::sovia::datagram
