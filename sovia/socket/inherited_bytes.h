// State in shared memory of the processes that share a socket since a fork.
#ifndef VIADUCT_SOVIA_SOCKET_INHERITED_BYTES_H
#define VIADUCT_SOVIA_SOCKET_INHERITED_BYTES_H

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sovia/socket/resume_record.h"

namespace viaduct::sovia {

// How many processes hold a socket. A process that is killed is not subtracted: the socket then stays with the kernel,
// which is always correct.
struct Holders {
  std::atomic<std::int32_t> count;
  std::atomic<std::uint32_t> lanes;  // the number that the connection has had, in any process
  std::atomic<bool> reset_told;      // one of the processes has told its program that the connection was reset
};

// Holders of a socket that one process holds; nullptr if there is no memory.
Holders* make_holders();

// Bytes that came over a lane before the fork, or before another program took the process over. Whichever process reads
// first takes them. As a rule the bytes lie in a file without a name, where a program that is run by exec can find
// them.
//
// Other processes that have the memory may write anything to it at any time: what is read from it is only
// believed within the limits that this process has measured itself.
class InheritedBytes {
 public:
  std::byte* data();
  std::size_t room() const { return room_; }
  // The first `bytes` of data() may be read.
  void set_bytes(std::size_t bytes);
  std::size_t left() const;
  // The record that comes behind these bytes.
  ResumeRecord& record();
  const ResumeRecord& record() const { return const_cast<InheritedBytes*>(this)->record(); }

  // The inode of the socket that the bytes belong to, for a process that gets both in a message.
  void set_socket(std::uint64_t inode);
  std::uint64_t socket() const;

 private:
  struct Shared;
  friend class InheritedFiles;
  friend std::size_t read_inherited_bytes(InheritedBytes& inherited_bytes, const iovec* pieces, std::size_t count,
                                  std::size_t skip, bool peek);

  InheritedBytes(Shared* shared, std::size_t room) : shared_(shared), room_(room) {}
  std::size_t end() const;

  Shared* shared_;
  std::size_t room_;         // bytes of data()
  std::uint64_t inode_ = 0;  // the file's, to find out whether `file_` still is that file
  int file_ = -1;            // the file's descriptor; -1: none
};

// Makes an object with room for `bytes`; nullptr if there is no memory.
InheritedBytes* make_inherited_bytes(std::size_t bytes);
void free_inherited_bytes(InheritedBytes* inherited_bytes);

// The descriptor of the object's file. Without one, makes a file and an object for it, to which the unread bytes move;
// -1: that has failed.
int file_of(InheritedBytes*& inherited_bytes);
// The object for a file that the program before exec has left in this process, for the socket with that inode. The
// descriptor is the library's from now on. nullptr: it is no such file.
InheritedBytes* inherited_bytes_of(int file, std::uint64_t socket);

// For a file that has come in a message (SCM_RIGHTS): whether it holds inherited bytes; and the object, which its
// sender has too if it keeps the socket. The descriptor stays the caller's. nullptr: there is no memory.
bool is_inherited_bytes(int file);
InheritedBytes* passed_inherited_bytes(int file, std::uint64_t& socket);

// Reads bytes to the pieces, from `skip` bytes into them on. With `peek` the bytes stay unread.
std::size_t read_inherited_bytes(InheritedBytes& inherited_bytes, const iovec* pieces, std::size_t count,
                         std::size_t skip, bool peek);

}  // namespace viaduct::sovia

#endif
