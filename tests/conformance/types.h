// The values that go into VIPL calls and come out of them, in a form that can travel to the other
// host: handles as numbers, structures without pointers.
#ifndef CONFORMANCE_TYPES_H
#define CONFORMANCE_TYPES_H

#include <vipl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace conformance {

// Handles, as the provider on their host gave them out. They mean nothing on another host.
enum class NicHandle : std::uint64_t {};
enum class PtagHandle : std::uint64_t {};  // PtagHandle{} is the NULL tag
enum class ViHandle : std::uint64_t {};
enum class CqHandle : std::uint64_t {};  // CqHandle{} is "no CQ"
enum class ConnHandle : std::uint64_t {};

// Which arguments of a call are to be NULL whatever else is said: null(2) is the second argument of
// the VIPL prototype; null(2) | null(3) both.
struct Nulls {
  std::uint32_t bits = 0;

  bool has(unsigned argument) const { return (bits >> argument & 1) != 0; }
  friend Nulls operator|(Nulls a, Nulls b) { return {a.bits | b.bits}; }
  template <class A>
  void fields(A& archive) {
    archive(bits);
  }
};
inline Nulls null(unsigned argument) { return {1U << argument}; }

// Every call gives a Result, or something that is one.
struct Result {
  VIP_RETURN code = VIP_SUCCESS;
  std::uint64_t elapsed_us = 0;  // from call to return, on its host

  std::uint64_t elapsed_ms() const { return elapsed_us / 1000; }
  template <class A>
  void fields(A& archive) {
    archive(code, elapsed_us);
  }
};

// Of a call that makes something. `handle` is what the call wrote, or kUntouched.
template <class Handle>
struct Made : Result {
  Handle handle{};

  template <class A>
  void fields(A& archive) {
    Result::fields(archive);
    archive(handle);
  }
};
// The contents of out arguments before a call.
inline constexpr std::uint64_t kUntouched = 0x5a5a5a5a5a5a5a5a;
inline constexpr std::uint32_t kUntouchedMem = 0x5a5a5a5a;

struct NicAttributes {
  std::string name;
  bool name_terminated = false;
  std::uint64_t hardware_version = 0, provider_version = 0;
  std::vector<std::uint8_t> address;  // LocalNicAddress, NicAddressLen bytes
  std::int32_t thread_safe = 0;
  std::uint64_t max_discriminator_len = 0, max_register_bytes = 0, max_register_regions = 0,
                max_register_block_bytes = 0, max_vi = 0, max_descriptors_per_queue = 0,
                max_segments_per_desc = 0, max_cq = 0, max_cq_entries = 0, max_transfer_size = 0,
                native_mtu = 0, max_ptags = 0;
  VIP_RELIABILITY_LEVEL reliability_levels = 0, rdma_read_levels = 0;

  template <class A>
  void fields(A& archive) {
    archive(name, name_terminated, hardware_version, provider_version, address, thread_safe,
            max_discriminator_len, max_register_bytes, max_register_regions,
            max_register_block_bytes, max_vi, max_descriptors_per_queue, max_segments_per_desc,
            max_cq, max_cq_entries, max_transfer_size, native_mtu, max_ptags, reliability_levels,
            rdma_read_levels);
  }
};
struct NicAnswer : Result {
  NicAttributes attributes;

  template <class A>
  void fields(A& archive) {
    Result::fields(archive);
    archive(attributes);
  }
};

struct ViAttributes {
  VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY;
  std::uint64_t max_transfer_size = 0;
  std::uint64_t qos = 0;
  PtagHandle ptag{};
  std::int32_t rdma_write = VIP_FALSE;
  std::int32_t rdma_read = VIP_FALSE;

  bool operator==(const ViAttributes&) const = default;
  template <class A>
  void fields(A& archive) {
    archive(level, max_transfer_size, qos, ptag, rdma_write, rdma_read);
  }
};

struct MemAttributes {
  PtagHandle ptag{};
  std::int32_t rdma_write = VIP_FALSE;
  std::int32_t rdma_read = VIP_FALSE;

  bool operator==(const MemAttributes&) const = default;
  template <class A>
  void fields(A& archive) {
    archive(ptag, rdma_write, rdma_read);
  }
};
struct MemAnswer : Result {
  MemAttributes attributes;

  template <class A>
  void fields(A& archive) {
    Result::fields(archive);
    archive(attributes);
  }
};

// Of VipQueryVi.
struct ViAnswer : Result {
  VIP_VI_STATE state = VIP_STATE_IDLE;
  ViAttributes attributes;
  std::int32_t send_empty = 0, recv_empty = 0;

  template <class A>
  void fields(A& archive) {
    Result::fields(archive);
    archive(state, attributes, send_empty, recv_empty);
  }
};

// A network address. The lengths are those of the bytes, unless overridden.
struct Address {
  std::vector<std::uint8_t> host = {}, discriminator = {};
  std::optional<std::uint16_t> host_len = {}, discriminator_len = {};

  bool operator==(const Address&) const = default;
  template <class A>
  void fields(A& archive) {
    archive(host, discriminator, host_len, discriminator_len);
  }
};

// Of VipConnectWait.
struct Incoming : Result {
  ConnHandle conn{};
  Address remote;
  ViAttributes attributes;
  bool beyond = false;  // bytes behind the address were changed

  template <class A>
  void fields(A& archive) {
    Result::fields(archive);
    archive(conn, remote, attributes, beyond);
  }
};

// Of VipConnectRequest and VipConnectPeerDone/Wait: the other VI's.
struct Outgoing : Result {
  ViAttributes attributes;

  template <class A>
  void fields(A& archive) {
    Result::fields(archive);
    archive(attributes);
  }
};

// A piece of memory: address on its host, handle of the region, bytes.
struct Segment {
  std::uint64_t address = 0;
  VIP_MEM_HANDLE handle = 0;
  std::uint32_t length = 0;

  template <class A>
  void fields(A& archive) {
    archive(address, handle, length);
  }
};

enum class Op : std::uint16_t {
  kSendRecv = VIP_CONTROL_OP_SENDRECV,
  kRdmaWrite = VIP_CONTROL_OP_RDMAWRITE,
  kRdmaRead = VIP_CONTROL_OP_RDMAREAD,
  kReserved = VIP_CONTROL_OP_RESERVED,
};

// A descriptor to be posted. The plain part says what is meant, and SegCount, Control and Length
// follow from it; the second part is for saying something else.
struct Descriptor {
  Op op = Op::kSendRecv;
  std::vector<Segment> segments = {};
  std::optional<Segment> remote = {};           // RDMA: the peer's memory
  std::optional<std::uint32_t> immediate = {};  // sets VIP_CONTROL_IMMEDIATE too
  bool fence = false;

  std::optional<std::uint16_t> seg_count = {}, control = {};
  std::optional<std::uint32_t> length = {};
  std::uint16_t more_control = 0;        // bits to add to Control
  std::uint32_t reserved = 0;            // CS.Reserved
  std::uint32_t old_status = 0;          // Status as it is when posted
  std::uint32_t old_immediate = 0;       // ImmediateData as it is when posted, without the bit
  std::uint64_t misalign = 0;            // bytes to move the descriptor away from a multiple of 64
  std::optional<std::uint64_t> at = {};  // where it lies; else in memory of its own
  std::optional<VIP_MEM_HANDLE> memory_handle = {};  // third argument of the post

  template <class A>
  void fields(A& archive) {
    archive(op, segments, remote, immediate, fence, seg_count, control, length, more_control,
            reserved, old_status, old_immediate, misalign, at, memory_handle);
  }
};

// Of VipPostSend and VipPostRecv. Descriptors are numbered from 1, on each host.
struct Posted : Result {
  std::uint64_t id = 0;

  template <class A>
  void fields(A& archive) {
    Result::fields(archive);
    archive(id);
  }
};

inline constexpr std::uint64_t kNoDescriptor = 0;                       // the pointer was NULL
inline constexpr std::uint64_t kUnknownDescriptor = ~std::uint64_t{0};  // never posted

// A descriptor's Status as the provider left it, printed by its names.
struct Status {
  std::uint32_t bits = 0;

  bool has(std::uint32_t wanted) const { return (bits & wanted) == wanted; }
  std::uint32_t operation() const { return bits & VIP_STATUS_OP_MASK; }
  std::uint32_t errors() const { return bits & VIP_STATUS_ERROR_MASK; }
  bool operator==(const Status&) const = default;
  template <class A>
  void fields(A& archive) {
    archive(bits);
  }
};

// A descriptor that was taken back: Vip{Send,Recv}{Done,Wait} and Notify handlers.
struct Completion : Result {
  std::uint64_t id = kNoDescriptor;
  Status status;
  std::uint32_t length = 0, immediate = 0;
  bool intact = false;  // Control, SegCount and segments are as they were posted

  template <class A>
  void fields(A& archive) {
    Result::fields(archive);
    archive(id, status, length, immediate, intact);
  }
};

// Of VipCQDone and VipCQWait.
struct CqEntry : Result {
  ViHandle vi{};
  std::int32_t recv_queue = 0;

  template <class A>
  void fields(A& archive) {
    Result::fields(archive);
    archive(vi, recv_queue);
  }
};

// An error handler's report.
struct ErrorEvent {
  bool came = false;  // false: nothing in the time given
  NicHandle nic{};
  ViHandle vi{};
  CqHandle cq{};
  std::uint64_t descriptor = kNoDescriptor;
  std::uint64_t op_code = 0;
  VIP_RESOURCE_CODE resource = VIP_RESOURCE_NIC;
  VIP_ERROR_CODE error = VIP_ERROR_POST_DESC;

  template <class A>
  void fields(A& archive) {
    archive(came, nic, vi, cq, descriptor, op_code, resource, error);
  }
};

// The suite's error handler keeps each report, and besides:
enum class OnError : std::uint8_t {
  kKeep,
  kBlock,       // waits until Nic::release_handlers()
  kDisconnect,  // calls VipDisconnect for the VI
  kExit,        // ends the process; not where it is the tests' own
  kDefault,     // no handler: VipErrorCallback(nic, context, NULL)
};

// That a Notify handler ran.
struct Notification {
  bool came = false;  // false: it did not in the time given
  NicHandle nic{};
  ViHandle vi{};
  std::int32_t recv_queue = 0;  // of VipCQNotify
  Completion completion;        // of VipSendNotify, VipRecvNotify
  bool in_caller = false;       // it ran in the thread that registered it

  template <class A>
  void fields(A& archive) {
    archive(came, nic, vi, recv_queue, completion, in_caller);
  }
};
// Registered by Vip*Notify: for await_notification.
struct Notify : Result {
  std::uint64_t ticket = 0;

  template <class A>
  void fields(A& archive) {
    Result::fields(archive);
    archive(ticket);
  }
};

struct NameAnswer : Result {
  Address address;      // VipNSGetHostByName
  bool beyond = false;  // DiscriminatorLen or bytes behind the host part were changed
  std::string name;     // VipNSGetHostByAddr
  std::uint64_t name_len = 0;

  template <class A>
  void fields(A& archive) {
    Result::fields(archive);
    archive(address, beyond, name, name_len);
  }
};

struct Discovery : Result {
  std::uint64_t hops = 0;
  std::vector<Address> addresses;

  template <class A>
  void fields(A& archive) {
    Result::fields(archive);
    archive(hops, addresses);
  }
};

// Of Region::watch: whether the word came, and then the first byte that was not as expected.
struct Watched {
  bool came = false;
  std::uint64_t mismatch = 0;  // kMatches: none

  template <class A>
  void fields(A& archive) {
    archive(came, mismatch);
  }
};
inline constexpr std::uint64_t kMatches = ~std::uint64_t{0};

}  // namespace conformance

#endif
