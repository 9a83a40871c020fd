// State in shared memory of the processes that share a socket since a fork.
#ifndef VIADUCT_SOVIA_SOCKET_INHERITED_BYTES_H
#define VIADUCT_SOVIA_SOCKET_INHERITED_BYTES_H

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

// How many processes hold a socket. One that is killed is not subtracted: the socket then stays
// with the kernel, which is always right.
struct Holders {
  std::atomic<std::int32_t> count;
  std::atomic<std::uint32_t> lanes;  // that the connection has had, in whichever process
};

// A new one, of one process; nullptr if there is no memory.
Holders* make_holders();
inline bool sole_holder(const Holders& holders) { return holders.count.load() <= 1; }

// Bytes that came over a lane before the fork, or before another program took the process over.
// Whichever process reads first takes them. As a rule in a file without a name, so that a program
// that is run by exec can find it.
//
// Other processes that have the memory may write anything to it at any time: what is read from it is only
// believed within the limits that this process has measured itself.
class InheritedBytes {
 public:
  std::byte* data();
  std::size_t room() const { return room_; }
  // That may be read, of `data()`.
  void set_bytes(std::size_t bytes);
  std::size_t left() const;
  // After these bytes, and what the lane has, the kernel's stream goes on with Resume (packet.h), `received`
  // bytes of the lane having been read or moved here. `certain`: it does; else what is no Resume is new.
  // `complete`: if the kernel's stream ends instead, nothing is missing as far as the peer has told.
  void expect_record(const std::uint8_t* token, std::uint64_t received, bool certain, bool complete);
  bool expects_record() const;
  bool is_record_certain() const;
  // It has come, and said so.
  bool peer_closes() const;
  // Takes it, and what the peer has sent twice, from the kernel. `taken` counts the kernel's bytes. kEnded: the
  // kernel's stream has ended instead, and the peer had told that nothing follows.
  enum class Take { kDone, kEnded, kAgain, kReset };
  Take take_record(int fd, std::uint64_t& taken);
  void move_record(InheritedBytes& to);

  // The inode of the socket that it belongs to, when that matters.
  void set_socket(std::uint64_t inode);
  std::uint64_t socket() const;

 private:
  struct Shared;
  friend class InheritedFiles;
  friend std::size_t read_inherited_bytes(InheritedBytes& inherited_bytes, const iovec* pieces, std::size_t count,
                                  std::size_t skip, bool peek);

  Take take_record_alone(int fd, std::uint64_t& taken);
  InheritedBytes(Shared* shared, std::size_t room) : shared_(shared), room_(room) {}
  std::size_t end() const;

  Shared* shared_;
  std::size_t room_;         // of the data
  std::uint64_t inode_ = 0;  // of the file
  int file_ = -1;            // -1: none
};

// nullptr if there is no memory.
InheritedBytes* make_inherited_bytes(std::size_t bytes);
// One without bytes or file, for a record.
InheritedBytes* make_record();
void free_inherited_bytes(InheritedBytes* inherited_bytes);

// Its file's descriptor, which it gets if it had none (what is left moves then); -1: it can't.
int file_of(InheritedBytes*& inherited_bytes);
// That of a file which the program before has left here. It is the library's descriptor from now
// on. nullptr: it is no such file.
InheritedBytes* inherited_bytes_of(int file);

// A file that has come in a message, under any number: whether it is one of these; and a copy, to
// which all moves that is left. nullptr: there is no memory.
bool is_inherited_bytes(int file);
InheritedBytes* copy_of_inherited_bytes(int file, std::uint64_t& socket);

// Bytes to the pieces, beginning `skip` bytes into them. peek: they stay.
std::size_t read_inherited_bytes(InheritedBytes& inherited_bytes, const iovec* pieces, std::size_t count,
                         std::size_t skip, bool peek);

}  // namespace viaduct::sovia

#endif
