#include "sovia/lane/vi_transport.h"

#include <sched.h>
#include <sys/mman.h>
#include <vipl/vipl_ext.h>

#include <new>

#include "sovia/lane/packet.h"
#include "sovia/lane/vi_calls.h"
#include "sovia/process/options.h"
#include "sovia/process/units.h"

namespace viaduct::sovia {
namespace {

// The distance from one chunk to the next. With 32 KB the beginnings of all chunks, where small messages lie, would
// share four sets of a cache.
constexpr std::size_t kStride = kChunkBytes + 128;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

// Maps memory for the descriptors and the places.
bool ViTransport::map() {
  const std::size_t posts = places_.data + places_.control + places_.receive + places_.writes;
  const std::size_t small = whole_pages(posts * sizeof(Posted) + places_.control * kControlBytes);
  const std::size_t bytes = small + whole_pages((places_.data + places_.receive) * kStride);
  std::byte* const base = vi_calls::map(bytes);
  if (base == nullptr) return false;
  pages_ = {base, bytes};
  at_.data = reinterpret_cast<Posted*>(base);
  at_.control = at_.data + places_.data;
  at_.receive = at_.control + places_.control;
  at_.writes = at_.receive + places_.receive;
  at_.control_bytes = base + posts * sizeof(Posted);
  at_.data_chunks = base + small;
  at_.receive_chunks = at_.data_chunks + places_.data * kStride;
  for (std::uint32_t i = 0; i < posts; ++i) at_.data[i].owner = &receives;
  for (std::uint32_t i = 0; i < places_.receive; ++i) at_.receive[i].place = i;
  return true;
}

// Makes the VI and posts all its receives.
bool ViTransport::create() {
  // A protection tag of its own keeps memory opened to one peer closed to the others. Without a tag the lane has no
  // RDMA.
  if (places_.writes != 0 && VipCreatePtag(nic_.handle(), &ptag_) != VIP_SUCCESS) ptag_ = nullptr;
  const bool reads = ptag_ != nullptr && nic_.reads_remote();
  VIP_MEM_ATTRIBUTES memory{};
  VIP_VI_ATTRIBUTES attributes{};
  attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  attributes.MaxTransferSize = kChunkBytes;
  memory.Ptag = attributes.Ptag = ptag_ != nullptr ? ptag_ : nic_.ptag();
  attributes.EnableRdmaWrite = ptag_ != nullptr ? VIP_TRUE : VIP_FALSE;
  attributes.EnableRdmaRead = reads ? VIP_TRUE : VIP_FALSE;
  if (VipRegisterMem(nic_.handle(), pages_.data(), pages_.size(), &memory, &memory_) != VIP_SUCCESS ||
      VipCreateVi(nic_.handle(), &attributes, nullptr, nic_.cq(), &vi_) != VIP_SUCCESS) {
    return false;
  }
  if (ptag_ != nullptr) remote_.emplace(nic_, vi_, ptag_, at_.writes, memory_, reads);
  for (std::uint32_t i = 0; i < places_.receive; ++i) {
    if (!post_receive(i)) return false;
  }
  return true;
}

ViTransport* ViTransport::make(ProcessNic& nic, const LanePlaces& places, const Flow& flow,
                               const std::uint8_t (&peer)[6], std::uint32_t number, std::uint32_t timeout_ms) {
  auto* const made = new (std::nothrow) ViTransport(nic, places);
  if (made == nullptr) return nullptr;
  if (!made->map()) {
    delete made;
    return nullptr;
  }
  bool ready = made->create();
  if (ready) nic.learn_stack_from(made->vi_);
  ready = ready &&
          vi_calls::connect(made->vi_, nic, peer, flow, 'V', static_cast<std::uint8_t>(number), timeout_ms);
  if (options().pack == 0) made->fence_ = VIP_CONTROL_QFENCE;
  if (ready) return made;
  made->destroy();
  return nullptr;
}

VIP_RETURN ViTransport::connected() { return vi_calls::connected(vi_); }

void ViTransport::disconnect() { VipDisconnect(vi_); }

void ViTransport::destroy() {
  if (vi_ != nullptr) vi_calls::destroy(vi_);
  remote_.reset();
  if (memory_ != 0) VipDeregisterMem(nic_.handle(), pages_.data(), memory_);
  if (ptag_ != nullptr) VipDestroyPtag(nic_.handle(), ptag_);
  munmap(pages_.data(), pages_.size());
  delete this;
}

void ViTransport::trim() {
  const auto used = static_cast<std::size_t>(at_.data_chunks - pages_.data());
  madvise(at_.data_chunks, pages_.size() - used, MADV_DONTNEED);
}

std::byte* ViTransport::data_chunk(std::uint32_t place) { return at_.data_chunks + place * kStride; }
std::byte* ViTransport::control_bytes(std::uint32_t place) {
  return at_.control_bytes + std::size_t{place} * kControlBytes;
}
std::byte* ViTransport::received(std::uint32_t place) { return at_.receive_chunks + place * kStride; }

bool ViTransport::post_data(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  return send(at_.data[place], data_chunk(place), bytes, memory_, immediate);
}

bool ViTransport::post_control(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  return send(at_.control[place], control_bytes(place), bytes, memory_, immediate);
}

bool ViTransport::post_memory(std::uint32_t place, const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                              std::uint32_t immediate) {
  return send(at_.data[place], data, bytes, memory, immediate);
}

bool ViTransport::send(Posted& posted, const void* data, std::uint32_t bytes, std::uint32_t memory,
                       std::uint32_t immediate) {
  return vi_calls::send(vi_, posted, data, bytes, memory, immediate, fence_, memory_);
}

bool ViTransport::post_receive(std::uint32_t place) {
  return vi_calls::receive(vi_, at_.receive[place], received(place), kChunkBytes, memory_);
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

void ViTransport::set_more(bool more) { VipxSetMore(vi_, more ? VIP_TRUE : VIP_FALSE); }

std::uint32_t ViTransport::completed() { return vi_calls::completed(vi_); }

}  // namespace viaduct::sovia
