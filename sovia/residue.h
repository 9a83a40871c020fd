// What the processes that share a socket since a fork have in common, in shared memory.
#ifndef VIADUCT_SOVIA_RESIDUE_H
#define VIADUCT_SOVIA_RESIDUE_H

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

// How many processes hold a socket. One that is killed is not subtracted: the socket then stays with
// the kernel, which is always right.
struct Holders {
  std::atomic<std::int32_t> count;
};

// A new one, of one process; nullptr if there is no memory.
Holders* make_holders();
inline bool sole_holder(const Holders& holders) { return holders.count.load() <= 1; }

// Bytes that came over a lane before the fork. Whichever process reads first takes them.
struct Residue {
  std::atomic<std::uint64_t> at;
  std::uint64_t bytes;

  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
  std::uint64_t left() const {
    const std::uint64_t taken = at.load();
    return taken < bytes ? bytes - taken : 0;
  }
};

Residue* make_residue(std::size_t bytes);
void free_residue(Residue* residue);

// Bytes to the pieces, beginning `skip` bytes into them. peek: they stay.
std::size_t read_residue(Residue& residue, const iovec* pieces, std::size_t count,
                         std::size_t skip, bool peek);

}  // namespace viaduct::sovia

#endif
