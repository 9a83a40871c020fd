// The memory of a simulated program: buffers between guard bytes, and which of them the stack may
// touch now. All of it lies at the same addresses in every run, so that a seed is the same run.
#ifndef VIADUCT_TESTS_SIM_WORLD_MEMORY_H
#define VIADUCT_TESTS_SIM_WORLD_MEMORY_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace viaduct::sim {

struct Buffer {
  std::byte* data;
  std::uint32_t size;
  std::uint32_t handle = 0;  // of the region [data, data + region)
  std::uint32_t region = 0;
  bool remote_write = false;  // the region is open to the peer
  bool remote_read = false;
  // The descriptor that the buffer is posted with: until its status is set the stack may use
  // [data, data + posted). null: none.
  const std::atomic<std::uint32_t>* status = nullptr;
  std::uint32_t posted = 0;
  bool incoming = false;  // ... to write to it, else to read from it

  bool is_busy() const { return status != nullptr && status->load() == 0; }
};

class Memory {
 public:
  // Of the program with this number, among those that live.
  explicit Memory(unsigned number);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Whether an address is of the program with that number.
  static bool is_in_arena(unsigned number, const void* address);

  // The reference holds for good. `clear`: filled with what no pattern has.
  Buffer& allocate(std::uint32_t size, bool clear = true);

  bool may_read(std::uint64_t address, std::uint64_t length) const;
  bool may_write(std::uint64_t address, std::uint64_t length) const;

  // Fails if a guard byte was changed.
  void check_guards() const;

 private:
  const Buffer* find(std::uint64_t address, std::uint64_t length) const;

  unsigned number_;
  std::byte* base_;
  std::size_t used_ = 0;
  std::deque<Buffer> buffers_;  // by address
};

}  // namespace viaduct::sim

#endif
