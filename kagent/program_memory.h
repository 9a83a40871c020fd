// The memory of another process.
//
// It is reached through /proc/PID/mem and not by process number. The descriptor stands for the
// address space that the process had when it was opened, so neither a process that gets the number
// after it, nor a set-user-ID program that the process turns itself into with exec(), can ever be
// read or written through a session of an ordinary user: their address spaces are others, and the
// one that was opened is then gone and refuses every access.
//
// A system call costs as much as process_vm_readv does for one piece, and covers one run of remote
// addresses. So remote pieces that follow each other are copied in one call, by way of a buffer.
#ifndef VIADUCT_KAGENT_PROGRAM_MEMORY_H
#define VIADUCT_KAGENT_PROGRAM_MEMORY_H

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string>

#include "kagent/descriptor.h"

namespace viaduct {

class ProgramMemory {
 public:
  // Pieces up to this many bytes are what callers write last, to be visible last: they are never
  // written together with the piece before.
  static constexpr std::size_t kOrderBytes = 64;

  // Opens the memory of the process at the other end of a Unix socket; `pidfd` names the same
  // process. Refuses a process that runs with other rights than it had when it connected, or whose
  // memory its own user may not see. False: `why` says why, for people.
  bool open(const ucred& peer, int pidfd, std::string& why);

  // Every access is refused from now on.
  void close() { memory_.close(); }

  // See Environment::read_program. `buffer` is scratch space of at least a few pages.
  bool read(std::span<const iovec> remote, std::span<const iovec> local,
            std::span<std::byte> buffer) const;
  bool write(std::span<const iovec> remote, std::span<const iovec> local,
             std::span<std::byte> buffer) const;

 private:
  Descriptor memory_;
};

// What is to be known of a process before it is given a session.
struct ProgramAccess {
  Descriptor process;
  ProgramMemory memory;
  uid_t user = 0;   // owning_user()
  std::string why;  // it can't be had, for people; empty: it can
};

// Finds that out of the process at the other end of a Unix socket. The process can make this last: its
// memory can't be opened while it is in exec(), which takes as long as its address space is large.
ProgramAccess open_program(int socket, const ucred& peer);

// Whose connections the process at the other end of a Unix socket may call its own: those of the user
// that it connected as, and everybody's if its real user is root, whatever other user's place it has
// taken for the time, as an ftp server does at a login. To be asked before ProgramMemory::open, which
// refuses a program that its user has started with the rights of another.
uid_t owning_user(const ucred& peer);

// A descriptor that names the process at the other end of a Unix socket. Invalid, with errno, if
// there is none (any more).
Descriptor peer_process(int socket, const ucred& peer);

// Whether the process of a pidfd is still there.
bool process_lives(int pidfd);

}  // namespace viaduct

#endif
