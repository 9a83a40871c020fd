// RDMA on a VI: to memory that the peer has opened, and from the peer to memory that this end has opened.
#ifndef VIADUCT_SOVIA_LANE_REMOTE_MEMORY_H
#define VIADUCT_SOVIA_LANE_REMOTE_MEMORY_H

#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

class RemoteMemory {
 public:
  enum class Access : std::uint8_t { kWrite = 1, kRead = 2, kBoth = 3 };

  // Writes to memory that the peer has opened, from memory of the program's, which must stay as it is until this
  // completes. The data arrives before packets posted later. False: as for Transport::post_data.
  virtual bool post_write(std::uint32_t place, const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                          std::uint64_t to, std::uint32_t to_memory) = 0;
  // Whether each end may also read memory that the other has opened.
  virtual bool reads() const = 0;
  // Reads memory that the peer has opened to memory of the program's, which has the data when this has completed.
  virtual bool post_read(std::uint32_t place, std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                         std::uint64_t from, std::uint32_t from_memory) = 0;
  // Opens memory to this lane's peer alone, until close_memory(). 0: it can't be had.
  virtual std::uint32_t open_memory(std::byte* at, std::size_t bytes, Access access) = 0;
  virtual void close_memory(std::byte* at, std::uint32_t memory) = 0;
  // Closes all memory that is open to the peer.
  virtual void close_memories() = 0;

 protected:
  ~RemoteMemory() = default;
};

}  // namespace viaduct::sovia

#endif
