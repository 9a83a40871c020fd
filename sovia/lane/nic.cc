#include "sovia/lane/nic.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vipl/vipl_ext.h>

#include <algorithm>
#include <new>

#include "sovia/process/options.h"
#include "sovia/process/units.h"

namespace viaduct::sovia {
namespace {

constexpr VIP_ULONG kCqEntries = 8192;
// From one chunk to the next. At a distance of 32 KB the beginnings of all of them, where small messages
// lie, would have to share four sets of a cache.
constexpr std::size_t kStride = kChunkBytes + 128;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Lanes learn of a VI's errors by themselves; without a handler VIPL would write to the program's standard error.
void on_error(VIP_PVOID nic, VIP_ERROR_DESCRIPTOR* error) {
  SOVIA_LOG("VIPL: %s", VipxErrorText(error->ErrorCode));
  if (error->ResourceCode == VIP_RESOURCE_NIC) static_cast<Nic*>(nic)->lost();
}

// Room for a host address and a discriminator.
union Address {
  VIP_NET_ADDRESS address;
  std::uint8_t room[sizeof(VIP_NET_ADDRESS) + 6 + 64];
};

// "SV", the number of the lane, and the connection as the end with this address sees it.
void set_address(Address& to, const std::uint8_t* host, const Flow& flow, bool local,
                 std::uint32_t number) {
  struct {
    char name[2] = {'S', 'V'};
    std::uint8_t family;
    std::uint8_t number;
    FlowEnd near, far;
  } discriminator;
  static_assert(sizeof discriminator == 40);
  discriminator.family = flow.ipv6 ? 6 : 4;
  discriminator.number = static_cast<std::uint8_t>(number);
  discriminator.near = local ? flow.local : flow.remote;
  discriminator.far = local ? flow.remote : flow.local;
  to.address.HostAddressLen = 6;
  to.address.DiscriminatorLen = sizeof discriminator;
  memcpy(to.address.HostAddress, host, 6);
  memcpy(to.address.HostAddress + 6, &discriminator, sizeof discriminator);
}

}  // namespace

// ---------------------------------------------------------------------------- the NIC

Nic::Nic(void (*on_lost)(Nic& nic))
    : on_lost_(on_lost), registrations_(options().registration_cache != 0) {}

Nic* Nic::open(const char* interface, void (*on_lost)(Nic& nic)) {
  Nic* const nic = new (std::nothrow) Nic(on_lost);
  if (nic == nullptr) return nullptr;
  if (VipOpenNic(interface, &nic->nic_) != VIP_SUCCESS) {
    delete nic;
    return nullptr;
  }
  const bool ready =
      VipQueryNic(nic->nic_, &nic->attributes_) == VIP_SUCCESS &&
      nic->attributes_.MaxTransferSize >= kChunkBytes && nic->attributes_.NicAddressLen == 6 &&
      VipCreatePtag(nic->nic_, &nic->ptag_) == VIP_SUCCESS &&
      VipCreateCQ(nic->nic_, std::min(kCqEntries, nic->attributes_.MaxCQEntries), &nic->cq_) ==
          VIP_SUCCESS;
  if (ready && VipErrorCallback(nic->nic_, nic, on_error) == VIP_SUCCESS) return nic;
  nic->close();
  return nullptr;
}

void Nic::close() {
  VipCloseNic(nic_);
  delete this;
}

bool Nic::next(Arrival& arrival) {
  VIP_VI_HANDLE vi;
  VIP_BOOLEAN receive;
  while (VipxCQDone(cq_, &vi, &receive) == VIP_SUCCESS) {
    if (take(vi, arrival)) return true;
  }
  return false;
}

void Nic::learn_stack_from(VIP_VI_HANDLE vi) {
  // There is nothing to end: only the answer counts.
  if (VipxUnredirect(vi) == VIP_ERROR_NOT_SUPPORTED) has_own_stack_.store(false, std::memory_order_relaxed);
}

bool Nic::take(VIP_VI_HANDLE vi, Arrival& arrival) {
  VIP_DESCRIPTOR* descriptor = nullptr;
  const VIP_RETURN result = VipRecvDone(vi, &descriptor);
  if (descriptor == nullptr) return false;
  auto& posted = *reinterpret_cast<PostedReceive*>(descriptor);
  arrival.wire = posted.owner;
  arrival.lost = result != VIP_SUCCESS || (descriptor->CS.Status & VIP_STATUS_IMMEDIATE) == 0;
  arrival.missing = (descriptor->CS.Status & VIP_STATUS_TRANSPORT_ERROR) != 0;
  arrival.place = posted.place;
  arrival.bytes = descriptor->CS.Length;
  arrival.immediate = descriptor->CS.ImmediateData;
  return true;
}

// ---------------------------------------------------------------------------- a VI

ViWire* ViWire::make(Nic& nic, const LanePlaces& places, const Flow& flow,
                     const std::uint8_t (&peer)[6], std::uint32_t number,
                     std::uint32_t timeout_ms) {
  ViWire* const wire = new (std::nothrow) ViWire(nic, places);
  if (wire == nullptr) return nullptr;
  const std::size_t posts = places.data + places.control + places.receive + places.writes;
  const std::size_t small = whole_pages(posts * sizeof(Posted) + places.control * kControlBytes);
  const std::size_t chunks = whole_pages((places.data + places.receive) * kStride);
  wire->bytes_ = small + chunks;
  // Pages that no data ever comes to take no memory.
  void* const base = mmap(nullptr, wire->bytes_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    delete wire;
    return nullptr;
  }
  wire->base_ = static_cast<std::byte*>(base);
  wire->data_ = reinterpret_cast<Posted*>(wire->base_);
  wire->control_ = wire->data_ + places.data;
  wire->receive_ = wire->control_ + places.control;
  wire->writes_ = wire->receive_ + places.receive;
  wire->control_bytes_ = wire->base_ + posts * sizeof(Posted);
  wire->data_chunks_ = wire->base_ + small;
  wire->receive_chunks_ = wire->data_chunks_ + places.data * kStride;
  for (std::uint32_t i = 0; i < posts; ++i) wire->data_[i].owner = wire;
  for (std::uint32_t i = 0; i < places.receive; ++i) wire->receive_[i].place = i;

  // Memory opened to one peer must be closed to the others. Without a tag the lane has no RDMA.
  if (places.writes != 0 && VipCreatePtag(nic.nic_, &wire->ptag_) != VIP_SUCCESS) wire->ptag_ = nullptr;
  const VIP_PROTECTION_HANDLE ptag = wire->ptag_ != nullptr ? wire->ptag_ : nic.ptag_;
  VIP_MEM_ATTRIBUTES memory{};
  memory.Ptag = ptag;
  VIP_VI_ATTRIBUTES attributes{};
  attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  attributes.MaxTransferSize = kChunkBytes;
  attributes.Ptag = ptag;
  attributes.EnableRdmaWrite = wire->ptag_ != nullptr ? VIP_TRUE : VIP_FALSE;
  wire->reads_ = wire->ptag_ != nullptr && (nic.attributes_.RDMAReadSupport & VIP_SERVICE_RELIABLE_DELIVERY) != 0;
  attributes.EnableRdmaRead = wire->reads_ ? VIP_TRUE : VIP_FALSE;
  bool ready = VipRegisterMem(nic.nic_, wire->base_, wire->bytes_, &memory, &wire->memory_) ==
                   VIP_SUCCESS &&
               VipCreateVi(nic.nic_, &attributes, nullptr, nic.cq_, &wire->vi_) == VIP_SUCCESS;
  for (std::uint32_t i = 0; ready && i < places.receive; ++i) ready = wire->post_receive(i);
  if (ready) nic.learn_stack_from(wire->vi_);
  if (ready) {
    Address local, remote;
    set_address(local, nic.address(), flow, true, number);
    set_address(remote, peer, flow, false, number);
    ready = VipConnectPeerRequest(wire->vi_, &local.address, &remote.address, timeout_ms) ==
            VIP_SUCCESS;
  }
  if (options().pack == 0) wire->fence_ = VIP_CONTROL_QFENCE;
  if (ready) return wire;
  wire->destroy();
  return nullptr;
}

VIP_RETURN ViWire::connected() {
  VIP_VI_ATTRIBUTES peer;
  return VipConnectPeerDone(vi_, &peer);
}

void ViWire::disconnect() { VipDisconnect(vi_); }

void ViWire::destroy() {
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
  close_memories();
  if (memory_ != 0) VipDeregisterMem(nic_.nic_, base_, memory_);
  if (ptag_ != nullptr) VipDestroyPtag(nic_.nic_, ptag_);
  munmap(base_, bytes_);
  delete this;
}

void ViWire::trim() {
  const auto used = static_cast<std::size_t>(data_chunks_ - base_);
  madvise(data_chunks_, bytes_ - used, MADV_DONTNEED);
}

std::byte* ViWire::data_chunk(std::uint32_t place) {
  return data_chunks_ + place * kStride;
}
std::byte* ViWire::control_bytes(std::uint32_t place) {
  return control_bytes_ + std::size_t{place} * kControlBytes;
}
std::byte* ViWire::received(std::uint32_t place) {
  return receive_chunks_ + place * kStride;
}

bool ViWire::send(Posted& posted, const void* data, std::uint32_t bytes, std::uint32_t memory,
                  std::uint32_t immediate) {
  VIP_DESCRIPTOR& d = posted.descriptor;
  d.CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE | fence_;
  d.CS.SegCount = bytes != 0 ? 1 : 0;
  d.CS.Length = bytes;
  d.CS.ImmediateData = immediate;
  d.CS.Reserved = 0;
  d.DS[0].Local.Data.Address = const_cast<void*>(data);
  d.DS[0].Local.Handle = memory;
  d.DS[0].Local.Length = bytes;
  return VipPostSend(vi_, &d, memory_) == VIP_SUCCESS;
}

bool ViWire::post_data(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  return send(data_[place], data_chunk(place), bytes, memory_, immediate);
}

bool ViWire::post_control(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  return send(control_[place], control_bytes(place), bytes, memory_, immediate);
}

bool ViWire::post_memory(std::uint32_t place, const std::byte* data, std::uint32_t bytes,
                         std::uint32_t memory, std::uint32_t immediate) {
  return send(data_[place], data, bytes, memory, immediate);
}

bool ViWire::post_receive(std::uint32_t place) {
  VIP_DESCRIPTOR& d = receive_[place].descriptor;
  d.CS.Control = VIP_CONTROL_OP_SENDRECV;
  d.CS.SegCount = 1;
  d.CS.Length = kChunkBytes;
  d.CS.Reserved = 0;
  d.DS[0].Local.Data.Address = receive_chunks_ + place * kStride;
  d.DS[0].Local.Handle = memory_;
  d.DS[0].Local.Length = kChunkBytes;
  return VipPostRecv(vi_, &d, memory_) == VIP_SUCCESS;
}

bool ViWire::post_remote(std::uint32_t place, VIP_UINT16 operation, std::byte* data, std::uint32_t bytes,
                         std::uint32_t memory, std::uint64_t at, std::uint32_t at_memory) {
  VIP_DESCRIPTOR& d = writes_[place].descriptor;
  d.CS.Control = operation;
  d.CS.SegCount = 2;
  d.CS.Length = bytes;
  d.CS.Reserved = 0;
  d.DS[0].Remote.Data.AddressBits = at;
  d.DS[0].Remote.Handle = at_memory;
  d.DS[0].Remote.Reserved = 0;
  d.DS[1].Local.Data.Address = data;
  d.DS[1].Local.Handle = memory;
  d.DS[1].Local.Length = bytes;
  return VipPostSend(vi_, &d, memory_) == VIP_SUCCESS;
}

bool ViWire::post_write(std::uint32_t place, const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                        std::uint64_t to, std::uint32_t to_memory) {
  return post_remote(place, VIP_CONTROL_OP_RDMAWRITE, const_cast<std::byte*>(data), bytes, memory, to, to_memory);
}

bool ViWire::post_read(std::uint32_t place, std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                       std::uint64_t from, std::uint32_t from_memory) {
  return post_remote(place, VIP_CONTROL_OP_RDMAREAD, data, bytes, memory, from, from_memory);
}

std::uint32_t ViWire::open_memory(std::byte* at, std::size_t bytes, Access access) {
  const auto wanted = static_cast<unsigned>(access);
  VIP_MEM_ATTRIBUTES attributes{};
  attributes.Ptag = ptag_;
  attributes.EnableRdmaWrite = (wanted & static_cast<unsigned>(Access::kWrite)) != 0 ? VIP_TRUE : VIP_FALSE;
  attributes.EnableRdmaRead = (wanted & static_cast<unsigned>(Access::kRead)) != 0 ? VIP_TRUE : VIP_FALSE;
  VIP_MEM_HANDLE memory = 0;
  if (VipRegisterMem(nic_.nic_, at, bytes, &attributes, &memory) != VIP_SUCCESS) return 0;
  const std::scoped_lock guard(opened_lock_);
  opened_.push_back({at, memory});
  return memory;
}

void ViWire::close_memory(std::byte* at, std::uint32_t memory) {
  {
    const std::scoped_lock guard(opened_lock_);
    if (std::erase_if(opened_, [&](const Opened& one) { return one.memory == memory; }) == 0) return;
  }
  VipDeregisterMem(nic_.nic_, at, memory);
}

void ViWire::close_memories() {
  const std::scoped_lock guard(opened_lock_);
  for (const Opened& one : opened_) VipDeregisterMem(nic_.nic_, one.at, one.memory);
  opened_.clear();
}

bool ViWire::redirect(std::byte* to, std::uint32_t bytes, std::uint32_t memory) {
  return VipxRedirect(vi_, to, memory, bytes) == VIP_SUCCESS;
}

// While the session is about to be lost, VIPL may not answer. Taking that for a no would give the program the former
// contents of its receive instead of the packet that has gone to its memory.
bool ViWire::unredirect() {
  constexpr unsigned kTries = 1'000'000;  // for a moment; a NIC that is being closed never says
  VIP_RETURN result = VipxUnredirect(vi_);
  for (unsigned i = 0; result == VIP_ERROR_RESOURCE && i < kTries; ++i) {
    sched_yield();
    result = VipxUnredirect(vi_);
  }
  return result == VIP_SUCCESS;
}

void ViWire::set_more(bool more) { VipxSetMore(vi_, more ? VIP_TRUE : VIP_FALSE); }

std::uint32_t ViWire::completed() {
  std::uint32_t count = 0;
  VIP_DESCRIPTOR* descriptor = nullptr;
  while (VipxSendDone(vi_, &descriptor) == VIP_SUCCESS) ++count;
  return count;
}

}  // namespace viaduct::sovia
