#include "sovia/lane/vi_transport.h"

#include <sched.h>
#include <vipl/vipl_ext.h>

#include <algorithm>
#include <new>

#include "sovia/lane/packet.h"
#include "sovia/lane/vi_calls.h"
#include "sovia/process/options.h"

namespace viaduct::sovia {
namespace {

// VIP_CONTROL_QFENCE keeps small messages from sharing a frame: messages with a fence, which waits for reads of
// remote memory, never do.
VIP_UINT16 fence() { return options().pack == 0 ? VIP_CONTROL_QFENCE : 0; }

}  // namespace

// Makes the VI and posts its first receives.
bool ViTransport::create() {
  // A protection tag of its own keeps memory opened to one peer closed to the others. Without a tag the lane has no
  // RDMA.
  if (pages_.places().writes != 0 && VipCreatePtag(nic_.handle(), &ptag_) != VIP_SUCCESS) ptag_ = nullptr;
  const bool reads = ptag_ != nullptr && nic_.reads_remote();
  VIP_MEM_ATTRIBUTES memory{};
  VIP_VI_ATTRIBUTES attributes{};
  attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  attributes.MaxTransferSize = kChunkBytes;
  memory.Ptag = attributes.Ptag = ptag_ != nullptr ? ptag_ : nic_.ptag();
  attributes.EnableRdmaWrite = ptag_ != nullptr ? VIP_TRUE : VIP_FALSE;
  attributes.EnableRdmaRead = reads ? VIP_TRUE : VIP_FALSE;
  if (VipRegisterMem(nic_.handle(), pages_.all().data(), pages_.all().size(), &memory, &memory_) != VIP_SUCCESS ||
      VipCreateVi(nic_.handle(), &attributes, nullptr, nic_.cq(), &vi_) != VIP_SUCCESS) {
    return false;
  }
  if (ptag_ != nullptr) remote_.emplace(nic_, vi_, ptag_, pages_.writes(), memory_, reads);
  return use_receives(pages_.places().receive_at_first);
}

ViTransport* ViTransport::make(ProcessNic& nic, const LanePlaces& places, const Flow& flow,
                               const std::uint8_t (&peer)[6], std::uint32_t number, std::uint32_t timeout_ms) {
  auto* const made = new (std::nothrow) ViTransport(nic, places);
  if (made == nullptr) return nullptr;
  if (!made->pages_.map()) {
    delete made;
    return nullptr;
  }
  bool ready = made->create();
  if (ready) nic.learn_stack_from(made->vi_);
  ready = ready &&
          vi_calls::connect(made->vi_, nic, peer, flow, 'V', static_cast<std::uint8_t>(number), timeout_ms);
  if (ready) return made;
  made->destroy();
  return nullptr;
}

VIP_RETURN ViTransport::connected() { return vi_calls::connected(vi_); }

void ViTransport::disconnect() { VipDisconnect(vi_); }

void ViTransport::destroy() {
  if (vi_ != nullptr) vi_calls::destroy(vi_);
  remote_.reset();
  if (memory_ != 0) VipDeregisterMem(nic_.handle(), pages_.all().data(), memory_);
  if (ptag_ != nullptr) VipDestroyPtag(nic_.handle(), ptag_);
  delete this;
}

std::byte* ViTransport::data_chunk(std::uint32_t place) { return pages_.data_chunk(place); }
std::byte* ViTransport::control_bytes(std::uint32_t place) { return pages_.control_bytes(place); }
std::byte* ViTransport::received(std::uint32_t place) { return pages_.receive_chunk(place); }

bool ViTransport::post_data(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  return vi_calls::send(vi_, pages_.data()[place], data_chunk(place), bytes, memory_, immediate, fence(), memory_);
}

bool ViTransport::post_control(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  return vi_calls::send(vi_, pages_.control()[place], control_bytes(place), bytes, memory_, immediate, fence(), memory_);
}

bool ViTransport::post_memory(std::uint32_t place, const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                              std::uint32_t immediate) {
  return vi_calls::send(vi_, pages_.data()[place], data, bytes, memory, immediate, fence(), memory_);
}

bool ViTransport::post_receive(std::uint32_t place) {
  return vi_calls::receive(vi_, pages_.receive()[place], received(place), kChunkBytes, memory_);
}

bool ViTransport::use_receives(std::uint32_t count) {
  for (; receives_used_ < std::min(count, pages_.places().receive); ++receives_used_) {
    pages_.receive()[receives_used_].owner = &receives;
    pages_.receive()[receives_used_].place = receives_used_;
    if (!post_receive(receives_used_)) return false;
  }
  return true;
}

bool ViTransport::redirect(std::byte* to, std::uint32_t bytes, std::uint32_t memory) {
  return VipxRedirect(vi_, to, memory, bytes) == VIP_SUCCESS;
}

// VIPL may not answer while the session is about to be lost. It is asked again: if that counted as a no, the program
// would get the former contents of the receive instead of the packet that has gone to its memory.
bool ViTransport::unredirect() {
  constexpr unsigned kTries = 1'000'000;  // for a moment, as a NIC that is being closed never answers
  VIP_RETURN result = VipxUnredirect(vi_);
  for (unsigned i = 0; result == VIP_ERROR_RESOURCE && i < kTries; ++i) {
    sched_yield();
    result = VipxUnredirect(vi_);
  }
  return result == VIP_SUCCESS;
}

void ViTransport::hold(bool holds) { VipxSetMore(vi_, holds ? VIP_TRUE : VIP_FALSE); }

void ViTransport::set_patient(bool patient) { VipxSetPatient(vi_, patient ? VIP_TRUE : VIP_FALSE); }

std::uint32_t ViTransport::completed() { return vi_calls::completed(vi_); }

}  // namespace viaduct::sovia
