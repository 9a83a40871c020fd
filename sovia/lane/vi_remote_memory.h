// RDMA on the VI of a lane (vi_transport.h).
#ifndef VIADUCT_SOVIA_LANE_VI_REMOTE_MEMORY_H
#define VIADUCT_SOVIA_LANE_VI_REMOTE_MEMORY_H

#include <vipl/vipl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sovia/lane/process_nic.h"
#include "sovia/lane/remote_memory.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

class ViRemoteMemory final : public RemoteMemory {
 public:
  // `memory`: the handle of the memory of `writes`, the descriptors.
  ViRemoteMemory(ProcessNic& nic, VIP_VI_HANDLE vi, VIP_PROTECTION_HANDLE ptag, PostedDescriptor* writes,
                 VIP_MEM_HANDLE memory, bool reads)
      : nic_(nic), vi_(vi), ptag_(ptag), writes_(writes), memory_(memory), reads_(reads) {}
  ~ViRemoteMemory() { close_memories(); }
  ViRemoteMemory(const ViRemoteMemory&) = delete;
  ViRemoteMemory& operator=(const ViRemoteMemory&) = delete;

  bool post_write(std::uint32_t place, const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                  std::uint64_t to, std::uint32_t to_memory) override {
    return post(place, VIP_CONTROL_OP_RDMAWRITE, const_cast<std::byte*>(data), bytes, memory, to, to_memory);
  }
  bool reads() const override { return reads_; }
  bool post_read(std::uint32_t place, std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                 std::uint64_t from, std::uint32_t from_memory) override {
    return post(place, VIP_CONTROL_OP_RDMAREAD, data, bytes, memory, from, from_memory);
  }
  std::uint32_t open_memory(std::byte* at, std::size_t bytes, Access access) override;
  void close_memory(std::byte* at, std::uint32_t memory) override;
  void close_memories() override;

 private:
  struct Opened {
    std::byte* at;
    VIP_MEM_HANDLE memory;
  };
  bool post(std::uint32_t place, VIP_UINT16 operation, std::byte* data, std::uint32_t bytes, std::uint32_t memory,
            std::uint64_t at, std::uint32_t at_memory);

  ProcessNic& nic_;
  const VIP_VI_HANDLE vi_;
  const VIP_PROTECTION_HANDLE ptag_;
  PostedDescriptor* const writes_;
  const VIP_MEM_HANDLE memory_;
  const bool reads_;
  Mutex lock_;
  std::vector<Opened> opened_ VIADUCT_GUARDED_BY(lock_);
};

}  // namespace viaduct::sovia

#endif
