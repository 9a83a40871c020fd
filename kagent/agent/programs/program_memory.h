// The memory of another process, and which of it the agent opens.
//
// The agent may do what the user could do by itself: open the memory of a process that belongs to the user and that
// the user may look into (the kernel gives its file in /proc to that user). Two kinds of processes the user may not
// look into: one that began with other rights than it has now (a server that was root's until setuid()), and a program
// that its user has started with more rights. From outside the two look alike, and a process that asked may have
// become the second kind by exec() before its memory is opened. So such a program must prove that it is the one that
// asked (program_proof.h): then it lets the agent into its own memory, and no other process asks in its name. Its
// effective user must still be the one that connected. Its real user must be the same or root, as for a server that
// has taken a user's place for a while.
//
// The memory is reached through /proc/PID/mem and not by process number. The descriptor stands for the
// address space that the process had when it was opened, so neither a process that gets the number
// after it, nor a set-user-ID program that the process turns itself into with exec(), can ever be
// read or written through a session of an ordinary user: their address spaces are others, and the
// one that was opened is then gone and refuses every access.
//
// A system call costs as much as process_vm_readv does for one piece, and covers one run of remote
// addresses. So remote pieces that follow each other are copied in one call.
//
// The program decides how long such a call lasts: it waits for the lock of its address space, which
// mprotect() of a large mapping holds for seconds, and for pages that may lie in a file system in user
// space. So each goes through HangGuard, and by way of a buffer that is the copy's own: one that is late
// must not write into, or read from, a frame that has another owner by then.
#ifndef VIADUCT_KAGENT_AGENT_PROGRAMS_PROGRAM_MEMORY_H
#define VIADUCT_KAGENT_AGENT_PROGRAMS_PROGRAM_MEMORY_H

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kagent/agent/process/hang_guard.h"
#include "kagent/agent/control/peer.h"
#include "kagent/contract/control.h"
#include "xdp/descriptor.h"

namespace viaduct {

// One copy between a program's memory and a buffer.
class ProgramCopy final : public HangGuard::Call {
 public:
  explicit ProgramCopy(std::size_t room) : buffer_(room) {}

  void begin(int memory, bool reads);
  // The memory by its number in the table of descriptors of the thread that runs the copy.
  void set_memory(int memory) { memory_ = memory; }
  // Adds the next piece, or as much of it as there is room for. Returns how much.
  std::size_t add(const iovec& remote);
  void run(HangGuard::Turn& turn) override;
  int descriptor() const override { return memory_; }

  std::span<std::byte> data() { return {buffer_.data(), bytes_}; }
  std::span<const iovec> pieces() const { return pieces_; }
  bool reads() const { return reads_; }
  bool good() const { return good_; }

 private:
  bool move(HangGuard::Turn& turn, std::uintptr_t remote, std::byte* local, std::size_t bytes);

  int memory_ = -1;
  bool reads_ = false;
  bool good_ = false;
  bool begun_ = false;   // a system call has been made
  std::size_t bytes_ = 0;
  std::vector<iovec> pieces_;  // of the program's memory
  std::vector<std::byte> buffer_;
};

class ProgramMemory {
 public:
  // Pieces up to this many bytes are what callers write last, to be visible last: they are never
  // written together with the piece before.
  static constexpr std::size_t kOrderBytes = 64;

  // Opens the memory of the process at the other end of a Unix socket; `pidfd` names the same process. `rights`: as
  // they were before. False: `why` says for people why the memory is not open.
  bool open(const Peer& peer, int pidfd, std::string& why, const control::Proof& proof = {},
            const std::optional<ProcessRights>& rights = std::nullopt);
  // The file of a memory that was opened by a thread with another table of descriptors: taken there, given here.
  Descriptor take_file() { return std::move(*std::exchange(memory_, nullptr)); }
  void give_file(Descriptor file) { memory_ = std::make_shared<Descriptor>(std::move(file)); }

  // The process has proven that the agent has opened the memory that it had when it asked.
  bool is_proven() const { return proven_; }

  // Every access is refused from now on, but for copies that have been begun.
  void close() { memory_.reset(); }
  bool is_open() const { return memory_ != nullptr; }
  // The memory stays open as long as this is kept.
  std::shared_ptr<const Descriptor> file() const { return memory_; }
  uid_t account() const { return account_; }  // of its program

  // See Environment::read_program. `copy` is the buffer for the way. kLate: HangGuard::let_go() is to be called with
  // a function that owns `copy` and file(). Of a write, `copy` then has the last part of the first `begun` bytes; the
  // rest is not copied.
  enum class Copied : std::uint8_t { kDone, kFailed, kLate };
  Copied read(std::span<const iovec> remote, std::span<const iovec> local, ProgramCopy& copy,
              HangGuard* hang_guard) const;
  Copied write(std::span<const iovec> remote, std::span<const iovec> local, ProgramCopy& copy,
               HangGuard* hang_guard, std::size_t& begun) const;

 private:
  template <bool kRead>
  Copied copy_all(std::span<const iovec> remote, std::span<const iovec> local, ProgramCopy& copy,
                  HangGuard* hang_guard, std::size_t& begun) const;

  std::shared_ptr<Descriptor> memory_;
  uid_t account_ = 0;
  bool proven_ = false;
};

// Copies the `local` pieces, one after the other, into `to`, or back. Together they must be as long as it.
bool gather(std::span<const iovec> local, std::span<std::byte> to);
bool scatter(std::span<const std::byte> from, std::span<const iovec> local);


// Facts about a process that the agent needs before it gives it a session.
struct ProgramAccess {
  Descriptor process;
  ProgramMemory memory;
  // The user whose connections the process may call its own: the user that it connected as. Account 0 has the
  // connections of all users: a process has it if it is root, or if its real user is root though it has taken another
  // user's place for a while, as an ftp server does at a login. The latter takes a proof: by exec() a user's process
  // may have become root's program.
  uid_t user = 0, account = 0;
  std::string why;  // why the memory can't be had, for people; empty: it can
};

// Finds these facts about the process of a pidfd, the one at the other end of a Unix socket; `process` stays the
// caller's. The process can make this last: its memory can't be opened while it is in exec(), which takes as long as
// its address space is large, and reading its proof is a copy.
ProgramAccess open_program(int process, const Peer& peer, const control::Proof& proof = {});

}  // namespace viaduct

#endif
