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
  std::atomic<std::uint32_t> lanes;  // that the connection has had: whose turn it was must not matter
};

// A new one, of one process; nullptr if there is no memory.
Holders* make_holders();
inline bool sole_holder(const Holders& holders) { return holders.count.load() <= 1; }

// Bytes that came over a lane before the fork, or before another program took the process over.
// Whichever process reads first takes them. As a rule a file without a name, so that a program that
// is run by exec can find it.
struct Residue {
  std::uint64_t magic;
  std::atomic<std::uint64_t> at;
  std::uint64_t bytes;
  std::uint64_t room;   // of the data
  std::uint64_t inode;  // of the file
  std::int32_t file;    // -1: none. It has this number in all processes, as it only comes by inheritance

  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
  std::uint64_t left() const {
    const std::uint64_t taken = at.load();
    return taken < bytes ? bytes - taken : 0;
  }
};

// nullptr if there is no memory.
Residue* make_residue(std::size_t bytes);
void free_residue(Residue* residue);

// Its file's descriptor, which it gets if it had none (what is left moves then); -1: it can't.
int file_of(Residue*& residue);
// That of a file which the program before has left here. It is the library's descriptor from now on.
// nullptr: it is no such file.
Residue* residue_of(int file);

// Bytes to the pieces, beginning `skip` bytes into them. peek: they stay.
std::size_t read_residue(Residue& residue, const iovec* pieces, std::size_t count,
                         std::size_t skip, bool peek);

}  // namespace viaduct::sovia

#endif
