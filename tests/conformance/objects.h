// The vocabulary of the tests: a Nic with its memory, VIs and CQs, on either host. All are small
// values that may be copied, also into threads. Nothing is undone when one goes out of scope: at
// the end of a test all NICs are closed.
//
// Functions that make one VIPL call bear its name, never throw because of its return code, and give
// a Result with the code in it. must(...) around one says that the test makes no sense otherwise:
//
//     EXPECT_EQ(near.create_cq(0).code, VIP_INVALID_PARAMETER);
//     Cq cq = must(near.create_cq(16));
#ifndef CONFORMANCE_OBJECTS_H
#define CONFORMANCE_OBJECTS_H

#include <concepts>
#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "host.h"
#include "types.h"

namespace conformance {

class Nic;

// Of a call that makes one of the objects below.
template <class T>
struct Got : Result {
  T value;
};

// must() throws this: file, line, the code that came.
struct Unexpected : std::runtime_error {
  Unexpected(VIP_RETURN code, const std::source_location& where);
};

template <std::derived_from<Result> R>
R must(R result, std::source_location where = std::source_location::current()) {
  if (result.code != VIP_SUCCESS) throw Unexpected(result.code, where);
  return result;
}
template <class T>
T must(Got<T> got, std::source_location where = std::source_location::current()) {
  if (got.code != VIP_SUCCESS) throw Unexpected(got.code, where);
  return got.value;
}
template <class Handle>
Handle must(Made<Handle> made, std::source_location where = std::source_location::current()) {
  if (made.code != VIP_SUCCESS) throw Unexpected(made.code, where);
  return made.handle;
}

// How long things may take that must happen: ms.
inline constexpr std::uint64_t kSoon = 30000;
inline constexpr std::uint64_t kInfinite = VIP_INFINITE;

// Memory of a host's process, registered or not (handle 0).
class Region {
 public:
  HostPtr host;
  NicHandle nic{};
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  VIP_MEM_HANDLE handle = 0;

  // As a segment of a descriptor, local or remote.
  Segment part(std::uint64_t offset, std::uint64_t bytes) const {
    return {address + offset, handle, static_cast<std::uint32_t>(bytes)};
  }
  Segment all() const { return part(0, length); }
  std::uint64_t at(std::uint64_t offset) const { return address + offset; }
  // The same memory under another handle.
  Region with(VIP_MEM_HANDLE other) const;

  // A pattern that depends on `seed`; without offset and bytes, all of the region. matches() is
  // false where one byte differs; mismatch() tells which (kMatches: none).
  void fill(std::uint32_t seed) const { fill(seed, 0, length); }
  void fill(std::uint32_t seed, std::uint64_t offset, std::uint64_t bytes) const;
  bool matches(std::uint32_t seed) const { return matches(seed, 0, length); }
  bool matches(std::uint32_t seed, std::uint64_t offset, std::uint64_t bytes) const {
    return mismatch(seed, offset, bytes) == kMatches;
  }
  // `from`: where in the pattern the first byte is (scattered messages).
  std::uint64_t mismatch(std::uint32_t seed, std::uint64_t offset, std::uint64_t bytes,
                         std::uint64_t from = 0) const;
  void clear() const { write(0, std::string(length, '\0')); }
  std::string read(std::uint64_t offset, std::uint64_t bytes) const;
  void write(std::uint64_t offset, const std::string& bytes) const;
  void set_word(std::uint64_t offset, std::uint32_t value) const;
  std::uint32_t word(std::uint64_t offset) const;
  // Spins, on the region's host, until the word at `flag` is `value`, and compares `bytes` from
  // `offset` with the pattern in the same moment.
  Watched watch(std::uint64_t flag, std::uint32_t value, std::uint32_t seed, std::uint64_t offset,
                std::uint64_t bytes, std::uint64_t timeout = kSoon) const;

  Result deregister() const;
  MemAnswer query(Nulls nulls = {}) const;
  Result set_attributes(const MemAttributes& attributes, Nulls nulls = {}) const;
  // Takes the memory away from under the registration (munmap).
  void unmap() const;
};

class Vi {
 public:
  HostPtr host;
  NicHandle nic{};
  ViHandle handle{};

  ViAnswer query(Nulls nulls = {}) const;
  VIP_VI_STATE state() const { return query().state; }
  // Asks until the state is this, for at most kSoon; the state at the end.
  VIP_VI_STATE await_state(VIP_VI_STATE wanted) const;
  Result set_attributes(const ViAttributes& attributes, Nulls nulls = {}) const;
  Result destroy() const;

  Outgoing connect_request(const Address& local, const Address& remote, std::uint64_t timeout,
                           Nulls nulls = {}) const;
  Result connect_accept(ConnHandle conn) const;
  Result disconnect() const;
  Result connect_peer_request(const Address& local, const Address& remote, std::uint64_t timeout,
                              Nulls nulls = {}) const;
  Outgoing connect_peer_done(Nulls nulls = {}) const;
  Outgoing connect_peer_wait(Nulls nulls = {}) const;

  Posted post_send(const Descriptor& descriptor, Nulls nulls = {}) const;
  Posted post_recv(const Descriptor& descriptor, Nulls nulls = {}) const;
  Completion send_done(Nulls nulls = {}) const;
  Completion recv_done(Nulls nulls = {}) const;
  Completion send_wait(std::uint64_t timeout = kSoon, Nulls nulls = {}) const;
  Completion recv_wait(std::uint64_t timeout = kSoon, Nulls nulls = {}) const;
  Notify send_notify(Nulls nulls = {}) const;
  Notify recv_notify(Nulls nulls = {}) const;
  Notification await_notification(const Notify& registered, std::uint64_t timeout = kSoon) const;
  // Takes back all that has completed, until the queue is empty or not done.
  std::vector<Completion> drain_send() const;
  std::vector<Completion> drain_recv() const;
};

class Cq {
 public:
  HostPtr host;
  NicHandle nic{};
  CqHandle handle{};

  CqEntry done(Nulls nulls = {}) const;
  CqEntry wait(std::uint64_t timeout = kSoon, Nulls nulls = {}) const;
  Notify notify(Nulls nulls = {}) const;
  Notification await_notification(const Notify& registered, std::uint64_t timeout = kSoon) const;
  Result resize(std::uint64_t entries) const;
  Result destroy() const;
};

class Nic {
 public:
  HostPtr host;
  NicHandle handle{};

  static Got<Nic> open(const HostPtr& host, const std::string& device, Nulls nulls = {});
  Result close() const;
  NicAnswer query(Nulls nulls = {}) const;
  const NicAttributes& attributes() const;  // asked for once
  bool supports(VIP_RELIABILITY_LEVEL level) const;
  bool supports_rdma_read(VIP_RELIABILITY_LEVEL level) const;
  // The address of this NIC, with a discriminator.
  Address address(const std::string& discriminator) const;

  Made<PtagHandle> create_ptag(Nulls nulls = {}) const;
  Result destroy_ptag(PtagHandle ptag) const;
  // One that was made for this NIC handle; the tag of the attributes below.
  PtagHandle tag() const;

  // With tag(), RDMA not allowed.
  MemAttributes mem_attributes() const { return {tag(), VIP_FALSE, VIP_FALSE}; }
  // With tag(), RDMA write allowed, RDMA read too where the NIC can do it.
  MemAttributes rdma_mem_attributes() const;
  // Memory, not registered. `offset`: bytes past a page boundary.
  Region allocate(std::uint64_t bytes, std::uint64_t offset = 0) const;
  // Registered memory. must() is in it.
  Region memory(std::uint64_t bytes) const { return memory(bytes, mem_attributes()); }
  Region memory(std::uint64_t bytes, const MemAttributes& attributes) const;
  Region rdma_memory(std::uint64_t bytes) const { return memory(bytes, rdma_mem_attributes()); }
  Made<VIP_MEM_HANDLE> register_mem(std::uint64_t address, std::uint64_t bytes,
                                    const MemAttributes& attributes, Nulls nulls = {}) const;
  Result deregister_mem(std::uint64_t address, VIP_MEM_HANDLE mem) const;
  MemAnswer query_mem(std::uint64_t address, VIP_MEM_HANDLE mem, Nulls nulls = {}) const;
  Result set_mem_attributes(std::uint64_t address, VIP_MEM_HANDLE mem,
                            const MemAttributes& attributes, Nulls nulls = {}) const;

  // With tag(), the NIC's MaxTransferSize, RDMA not allowed; the same with it allowed.
  ViAttributes vi_attributes(VIP_RELIABILITY_LEVEL level) const;
  ViAttributes rdma_vi_attributes(VIP_RELIABILITY_LEVEL level) const;
  Got<Vi> create_vi(const ViAttributes& attributes, CqHandle send_cq = {}, CqHandle recv_cq = {},
                    Nulls nulls = {}) const;
  // must(create_vi(vi_attributes(level))).
  Vi vi(VIP_RELIABILITY_LEVEL level) const;
  Got<Cq> create_cq(std::uint64_t entries, Nulls nulls = {}) const;

  Incoming connect_wait(const Address& local, std::uint64_t timeout = kSoon, Nulls nulls = {},
                        std::uint8_t prefill = 0xa5) const;
  Result connect_accept(ConnHandle conn, const Vi& vi) const;
  Result connect_reject(ConnHandle conn) const;

  Result ns_init() const;
  NameAnswer ns_get_host_by_name(const std::string& name, std::uint64_t index = 0, Nulls nulls = {},
                                 std::uint8_t prefill = 0xa5) const;
  NameAnswer ns_get_host_by_addr(const Address& address, std::uint64_t room = 256,
                                 Nulls nulls = {}) const;
  Result ns_shutdown() const;

  Result error_callback(OnError what) const;
  // An error event of this NIC handle that was not taken before: the oldest, or the oldest with
  // this code. `came` is false when there was none in time.
  ErrorEvent await_error(VIP_ERROR_CODE error, std::uint64_t timeout = kSoon) const;
  ErrorEvent next_error(std::uint64_t timeout = kSoon) const;
  std::vector<ErrorEvent> errors() const;  // those not taken yet, without waiting
  void release_handlers() const;           // ends the waiting of OnError::kBlock
  Discovery discover(Nulls nulls = {}) const;
  Discovery query_system_management_info(std::uint64_t type, Nulls nulls = {}) const;

  // For calls with the VIP macro, where the host is this process (`near` always is).
  VIP_NIC_HANDLE raw() const { return raw_handle(handle); }
  template <class Handle>
  static void* raw_handle(Handle handle) {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(handle));
  }

 private:
  struct Known;
  std::shared_ptr<Known> known_;
};

}  // namespace conformance

#endif
