#include "objects.h"

#include <cstring>
#include <mutex>
#include <thread>

#include "printing.h"

namespace conformance {

Unexpected::Unexpected(VIP_RETURN code, const std::source_location& where)
    : std::runtime_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                         ": must be VIP_SUCCESS, is VIP_" + code_name(code)) {}

// ------------------------------------------------------------------ Region

Region Region::with(VIP_MEM_HANDLE other) const {
  Region region = *this;
  region.handle = other;
  return region;
}
void Region::fill(std::uint32_t seed, std::uint64_t offset, std::uint64_t bytes) const {
  host->call<op::fill>(at(offset), bytes, seed, std::uint64_t{0});
}
std::uint64_t Region::mismatch(std::uint32_t seed, std::uint64_t offset, std::uint64_t bytes,
                               std::uint64_t from) const {
  return host->call<op::mismatch>(at(offset), bytes, seed, from);
}
std::string Region::read(std::uint64_t offset, std::uint64_t bytes) const {
  return host->call<op::read>(at(offset), bytes);
}
void Region::write(std::uint64_t offset, const std::string& bytes) const {
  host->call<op::write>(at(offset), bytes);
}
void Region::set_word(std::uint64_t offset, std::uint32_t value) const {
  write(offset, std::string(reinterpret_cast<const char*>(&value), sizeof value));
}
std::uint32_t Region::word(std::uint64_t offset) const {
  std::uint32_t value = 0;
  std::memcpy(&value, read(offset, sizeof value).data(), sizeof value);
  return value;
}
Watched Region::watch(std::uint64_t flag, std::uint32_t value, std::uint32_t seed,
                      std::uint64_t offset, std::uint64_t bytes, std::uint64_t timeout) const {
  return host->call<op::watch>(at(flag), value, at(offset), bytes, seed, timeout);
}
Result Region::deregister() const { return host->call<op::deregister_mem>(nic, address, handle); }
MemAnswer Region::query(Nulls nulls) const {
  return host->call<op::query_mem>(nic, address, handle, nulls);
}
Result Region::set_attributes(const MemAttributes& attributes, Nulls nulls) const {
  return host->call<op::set_mem_attributes>(nic, address, handle, attributes, nulls);
}
void Region::unmap() const { host->call<op::unmap>(address); }

// ------------------------------------------------------------------ Vi

ViAnswer Vi::query(Nulls nulls) const { return host->call<op::query_vi>(handle, nulls); }
VIP_VI_STATE Vi::await_state(VIP_VI_STATE wanted) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kSoon);
  VIP_VI_STATE now = state();
  while (now != wanted && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    now = state();
  }
  return now;
}
Result Vi::set_attributes(const ViAttributes& attributes, Nulls nulls) const {
  return host->call<op::set_vi_attributes>(handle, attributes, nulls);
}
Result Vi::destroy() const { return host->call<op::destroy_vi>(handle); }
Outgoing Vi::connect_request(const Address& local, const Address& remote, std::uint64_t timeout,
                             Nulls nulls) const {
  return host->call<op::connect_request>(handle, local, remote, timeout, nulls);
}
Result Vi::connect_accept(ConnHandle conn) const {
  return host->call<op::connect_accept>(conn, handle);
}
Result Vi::disconnect() const { return host->call<op::disconnect>(handle); }
Result Vi::connect_peer_request(const Address& local, const Address& remote, std::uint64_t timeout,
                                Nulls nulls) const {
  return host->call<op::connect_peer_request>(handle, local, remote, timeout, nulls);
}
Outgoing Vi::connect_peer_done(Nulls nulls) const {
  return host->call<op::connect_peer_done>(handle, nulls);
}
Outgoing Vi::connect_peer_wait(Nulls nulls) const {
  return host->call<op::connect_peer_wait>(handle, nulls);
}
Posted Vi::post_send(const Descriptor& descriptor, Nulls nulls) const {
  return host->call<op::post_send>(handle, descriptor, nulls);
}
Posted Vi::post_recv(const Descriptor& descriptor, Nulls nulls) const {
  return host->call<op::post_recv>(handle, descriptor, nulls);
}
Completion Vi::send_done(Nulls nulls) const { return host->call<op::send_done>(handle, nulls); }
Completion Vi::recv_done(Nulls nulls) const { return host->call<op::recv_done>(handle, nulls); }
Completion Vi::send_wait(std::uint64_t timeout, Nulls nulls) const {
  return host->call<op::send_wait>(handle, timeout, nulls);
}
Completion Vi::recv_wait(std::uint64_t timeout, Nulls nulls) const {
  return host->call<op::recv_wait>(handle, timeout, nulls);
}
Notify Vi::send_notify(Nulls nulls) const { return host->call<op::send_notify>(handle, nulls); }
Notify Vi::recv_notify(Nulls nulls) const { return host->call<op::recv_notify>(handle, nulls); }
Notification Vi::await_notification(const Notify& registered, std::uint64_t timeout) const {
  return host->call<op::await_notification>(registered.ticket, timeout);
}
std::vector<Completion> Vi::drain_send() const {
  std::vector<Completion> all;
  for (Completion one = send_done(); one.id != kNoDescriptor; one = send_done()) all.push_back(one);
  return all;
}
std::vector<Completion> Vi::drain_recv() const {
  std::vector<Completion> all;
  for (Completion one = recv_done(); one.id != kNoDescriptor; one = recv_done()) all.push_back(one);
  return all;
}

// ------------------------------------------------------------------ Cq

CqEntry Cq::done(Nulls nulls) const { return host->call<op::cq_done>(handle, nulls); }
CqEntry Cq::wait(std::uint64_t timeout, Nulls nulls) const {
  return host->call<op::cq_wait>(handle, timeout, nulls);
}
Notify Cq::notify(Nulls nulls) const { return host->call<op::cq_notify>(handle, nulls); }
Notification Cq::await_notification(const Notify& registered, std::uint64_t timeout) const {
  return host->call<op::await_notification>(registered.ticket, timeout);
}
Result Cq::resize(std::uint64_t entries) const {
  return host->call<op::resize_cq>(handle, entries);
}
Result Cq::destroy() const { return host->call<op::destroy_cq>(handle); }

// ------------------------------------------------------------------ Nic

struct Nic::Known {
  std::mutex mutex;
  bool asked = false, tagged = false;
  NicAttributes attributes;
  PtagHandle tag{};
};

Got<Nic> Nic::open(const HostPtr& host, const std::string& device, Nulls nulls) {
  const Made<NicHandle> made = host->call<op::open_nic>(device, nulls);
  Got<Nic> got{made, {}};
  got.value.host = host;
  got.value.handle = made.handle;
  got.value.known_ = std::make_shared<Known>();
  return got;
}
Result Nic::close() const { return host->call<op::close_nic>(handle); }
NicAnswer Nic::query(Nulls nulls) const { return host->call<op::query_nic>(handle, nulls); }
const NicAttributes& Nic::attributes() const {
  const std::lock_guard lock(known_->mutex);
  if (!known_->asked) known_->attributes = must(query()).attributes;
  known_->asked = true;
  return known_->attributes;
}
bool Nic::supports(VIP_RELIABILITY_LEVEL level) const {
  return (attributes().reliability_levels & level) != 0;
}
bool Nic::supports_rdma_read(VIP_RELIABILITY_LEVEL level) const {
  return (attributes().rdma_read_levels & level) != 0;
}
Address Nic::address(const std::string& discriminator) const {
  return {attributes().address, {discriminator.begin(), discriminator.end()}, {}, {}};
}
Made<PtagHandle> Nic::create_ptag(Nulls nulls) const {
  return host->call<op::create_ptag>(handle, nulls);
}
Result Nic::destroy_ptag(PtagHandle ptag) const {
  return host->call<op::destroy_ptag>(handle, ptag);
}
PtagHandle Nic::tag() const {
  const std::lock_guard lock(known_->mutex);
  if (!known_->tagged) known_->tag = must(create_ptag());
  known_->tagged = true;
  return known_->tag;
}
MemAttributes Nic::rdma_mem_attributes() const {
  return {tag(), VIP_TRUE, attributes().rdma_read_levels != 0 ? VIP_TRUE : VIP_FALSE};
}
Region Nic::allocate(std::uint64_t bytes, std::uint64_t offset) const {
  Region region;
  region.host = host;
  region.nic = handle;
  region.length = bytes;
  region.address = host->call<op::allocate>(bytes, offset);
  return region;
}
Region Nic::memory(std::uint64_t bytes, const MemAttributes& attributes) const {
  Region region = allocate(bytes);
  region.handle = must(register_mem(region.address, bytes, attributes));
  return region;
}
Made<VIP_MEM_HANDLE> Nic::register_mem(std::uint64_t address, std::uint64_t bytes,
                                       const MemAttributes& attributes, Nulls nulls) const {
  return host->call<op::register_mem>(handle, address, bytes, attributes, nulls);
}
Result Nic::deregister_mem(std::uint64_t address, VIP_MEM_HANDLE mem) const {
  return host->call<op::deregister_mem>(handle, address, mem);
}
MemAnswer Nic::query_mem(std::uint64_t address, VIP_MEM_HANDLE mem, Nulls nulls) const {
  return host->call<op::query_mem>(handle, address, mem, nulls);
}
Result Nic::set_mem_attributes(std::uint64_t address, VIP_MEM_HANDLE mem,
                               const MemAttributes& attributes, Nulls nulls) const {
  return host->call<op::set_mem_attributes>(handle, address, mem, attributes, nulls);
}
ViAttributes Nic::vi_attributes(VIP_RELIABILITY_LEVEL level) const {
  return {level, attributes().max_transfer_size, 0, tag(), VIP_FALSE, VIP_FALSE};
}
ViAttributes Nic::rdma_vi_attributes(VIP_RELIABILITY_LEVEL level) const {
  ViAttributes attributes = vi_attributes(level);
  attributes.rdma_write = VIP_TRUE;
  attributes.rdma_read = supports_rdma_read(level) ? VIP_TRUE : VIP_FALSE;
  return attributes;
}
Got<Vi> Nic::create_vi(const ViAttributes& attributes, CqHandle send_cq, CqHandle recv_cq,
                       Nulls nulls) const {
  const Made<ViHandle> made =
      host->call<op::create_vi>(handle, attributes, send_cq, recv_cq, nulls);
  return {made, {host, handle, made.handle}};
}
Vi Nic::vi(VIP_RELIABILITY_LEVEL level) const { return must(create_vi(vi_attributes(level))); }
Got<Cq> Nic::create_cq(std::uint64_t entries, Nulls nulls) const {
  const Made<CqHandle> made = host->call<op::create_cq>(handle, entries, nulls);
  return {made, {host, handle, made.handle}};
}
Incoming Nic::connect_wait(const Address& local, std::uint64_t timeout, Nulls nulls,
                           std::uint8_t prefill) const {
  return host->call<op::connect_wait>(handle, local, timeout, prefill, nulls);
}
Result Nic::connect_accept(ConnHandle conn, const Vi& vi) const {
  return host->call<op::connect_accept>(conn, vi.handle);
}
Result Nic::connect_reject(ConnHandle conn) const { return host->call<op::connect_reject>(conn); }
Result Nic::ns_init() const { return host->call<op::ns_init>(handle); }
NameAnswer Nic::ns_get_host_by_name(const std::string& name, std::uint64_t index, Nulls nulls,
                                    std::uint8_t prefill) const {
  return host->call<op::ns_get_host_by_name>(handle, name, index, prefill, nulls);
}
NameAnswer Nic::ns_get_host_by_addr(const Address& address, std::uint64_t room, Nulls nulls) const {
  return host->call<op::ns_get_host_by_addr>(handle, address, room, nulls);
}
Result Nic::ns_shutdown() const { return host->call<op::ns_shutdown>(handle); }
Result Nic::error_callback(OnError what) const {
  return host->call<op::error_callback>(handle, what);
}
ErrorEvent Nic::await_error(VIP_ERROR_CODE error, std::uint64_t timeout) const {
  return host->call<op::await_error>(handle, false, error, timeout);
}
ErrorEvent Nic::next_error(std::uint64_t timeout) const {
  return host->call<op::await_error>(handle, true, VIP_ERROR_POST_DESC, timeout);
}
std::vector<ErrorEvent> Nic::errors() const { return host->call<op::errors>(handle); }
void Nic::release_handlers() const { host->call<op::release_handlers>(); }
Discovery Nic::discover(Nulls nulls) const {
  return query_system_management_info(VIP_SMI_AUTODISCOVERY, nulls);
}
Discovery Nic::query_system_management_info(std::uint64_t type, Nulls nulls) const {
  return host->call<op::query_system_management_info>(handle, type, nulls);
}

}  // namespace conformance
