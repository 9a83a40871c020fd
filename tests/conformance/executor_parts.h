// Shared by the executor's source files: conversions, and its private structures.
#ifndef CONFORMANCE_EXECUTOR_PARTS_H
#define CONFORMANCE_EXECUTOR_PARTS_H

#include <thread>

#include "executor.h"

namespace conformance {

template <class Handle>
void* to_pointer(Handle handle) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(handle));
}
template <class Handle>
Handle from_pointer(const void* pointer) {
  return static_cast<Handle>(reinterpret_cast<std::uintptr_t>(pointer));
}
inline void* to_address(std::uint64_t address) { return reinterpret_cast<void*>(address); }

inline VIP_MEM_ATTRIBUTES to_vipl(const MemAttributes& from) {
  VIP_MEM_ATTRIBUTES to = {};
  to.Ptag = to_pointer(from.ptag);
  to.EnableRdmaWrite = from.rdma_write;
  to.EnableRdmaRead = from.rdma_read;
  return to;
}

inline VIP_VI_ATTRIBUTES to_vipl(const ViAttributes& from) {
  VIP_VI_ATTRIBUTES to = {};
  to.ReliabilityLevel = from.level;
  to.MaxTransferSize = from.max_transfer_size;
  to.QoS = to_address(from.qos);
  to.Ptag = to_pointer(from.ptag);
  to.EnableRdmaWrite = from.rdma_write;
  to.EnableRdmaRead = from.rdma_read;
  return to;
}

inline ViAttributes from_vipl(const VIP_VI_ATTRIBUTES& from) {
  return {from.ReliabilityLevel,
          from.MaxTransferSize,
          reinterpret_cast<std::uintptr_t>(from.QoS),
          from_pointer<PtagHandle>(from.Ptag),
          from.EnableRdmaWrite,
          from.EnableRdmaRead};
}

template <class R, class Call>
void run(R& result, Function function, Call call) {
  const auto begin = std::chrono::steady_clock::now();
  result.code = make_recorded(function, call);
  result.elapsed_us =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                     std::chrono::steady_clock::now() - begin)
                                     .count());
}
// RUN(result, CreateCQ, arguments...): calls it, and puts code and time into `result`.
#define RUN(result, name, ...) \
  ::conformance::run(result, Function::k##name, [&] { return ::Vip##name(__VA_ARGS__); })

// Descriptors with up to 30 segments have a slot in a slab; larger ones a slab of their own.
struct Executor::Slab {
  static constexpr std::size_t kSlot = 512;

  std::unique_ptr<char, void (*)(void*)> memory{nullptr, std::free};
  VIP_MEM_HANDLE handle = 0;
  std::size_t slot_bytes = 0;
  std::deque<char*> free_slots;  // the one that was free longest is used next
};

struct Executor::OpenNic {
  Executor* executor = nullptr;
  NicHandle handle{};
  bool open = true;
  OnError on_error = OnError::kKeep;
  std::vector<ErrorEvent> errors;
  std::vector<std::unique_ptr<Slab>> slabs;
};

// A posted descriptor.
struct Executor::Image {
  std::uint64_t id = 0;
  VIP_DESCRIPTOR* where = nullptr;
  VIP_MEM_HANDLE handle = 0;  // of its memory
  Slab* slab = nullptr;       // to which its slot goes back
  char* slot = nullptr;
  std::vector<char> segments;  // as posted
  std::uint16_t control = 0, seg_count = 0;
};

struct Executor::Pending {
  Executor* executor = nullptr;
  std::thread::id caller;
  Notification result;
};

}  // namespace conformance

#endif
