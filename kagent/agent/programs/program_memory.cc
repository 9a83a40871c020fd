#include "kagent/agent/programs/program_memory.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kagent/contract/iovec_cursor.h"
#include "kagent/stack/program_proof.h"

namespace viaduct {
namespace {

using Address = std::uintptr_t;

// Moves bytes between the buffer and the pieces at the cursor.
template <bool kIn>
bool move_local(IovecCursor& cursor, std::byte* buffer, std::size_t bytes) {
  while (bytes != 0) {
    const std::size_t n = std::min(bytes, cursor.room());
    if (n == 0) return false;
    if (kIn) {
      std::memcpy(buffer, cursor.here(), n);
    } else {
      std::memcpy(cursor.here(), buffer, n);
    }
    cursor.advance(n);
    buffer += n;
    bytes -= n;
  }
  return true;
}

// Whether the program in this memory has the bytes that the proof was made of.
bool is_author(int memory, const std::string& process, const control::Proof& proof) {
  const Descriptor list(open((process + "/auxv").c_str(), O_RDONLY | O_CLOEXEC));
  std::uint64_t entries[128][2] = {};
  const ssize_t bytes = read(list.get(), entries, sizeof entries);
  for (std::size_t i = 0; bytes > 0 && (i + 1) * sizeof entries[0] <= static_cast<std::size_t>(bytes); ++i) {
    if (entries[i][0] != AT_RANDOM) continue;
    std::byte secret[kProgramSecretBytes];
    if (pread(memory, secret, sizeof secret, static_cast<off_t>(entries[i][1])) != sizeof secret) return false;
    return std::memcmp(prove_program(secret).words, proof.words, sizeof proof.words) == 0;
  }
  return false;
}

// Whether the process still has the user that connected, and can go back to no other user than root.
bool is_still(const ProcessRights& rights, const Peer& peer) {
  return rights.users.effective == peer.uid && rights.groups.effective == peer.gid &&
         (rights.users.real == peer.uid || rights.users.real == 0);
}

}  // namespace

bool gather(std::span<const iovec> local, std::span<std::byte> to) {
  IovecCursor cursor(local);
  return move_local<true>(cursor, to.data(), to.size());
}

bool scatter(std::span<const std::byte> from, std::span<const iovec> local) {
  IovecCursor cursor(local);
  return move_local<false>(cursor, const_cast<std::byte*>(from.data()), from.size());
}

void ProgramCopy::begin(int memory, bool reads) {
  memory_ = memory;
  reads_ = reads;
  bytes_ = 0;
  pieces_.clear();
}

std::size_t ProgramCopy::add(const iovec& remote) {
  const std::size_t n = std::min(remote.iov_len, buffer_.size() - bytes_);
  if (n == 0) return 0;
  pieces_.push_back({remote.iov_base, n});
  bytes_ += n;
  return n;
}

bool ProgramCopy::move(HangGuard::Turn& turn, Address remote, std::byte* local,
                       std::size_t bytes) {
  while (bytes != 0) {
    if (begun_) turn.go_on();
    begun_ = true;
    const auto at = static_cast<off_t>(remote);
    const ssize_t n = reads_ ? pread(memory_, local, bytes, at) : pwrite(memory_, local, bytes, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    remote += static_cast<std::size_t>(n);
    local += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

void ProgramCopy::run(HangGuard::Turn& turn) {
  begun_ = good_ = false;
  std::byte* local = buffer_.data();
  for (std::size_t i = 0; i < pieces_.size();) {
    const auto begin = reinterpret_cast<Address>(pieces_[i].iov_base);
    std::size_t bytes = pieces_[i].iov_len;
    for (++i; i < pieces_.size(); ++i) {
      const bool follows = reinterpret_cast<Address>(pieces_[i].iov_base) == begin + bytes;
      const bool waits = !reads_ && pieces_[i].iov_len <= ProgramMemory::kOrderBytes;
      if (!follows || waits) break;
      bytes += pieces_[i].iov_len;
    }
    if (!move(turn, begin, local, bytes)) return;
    local += bytes;
  }
  good_ = true;
}

template <bool kRead>
ProgramMemory::Copied ProgramMemory::copy_all(std::span<const iovec> remote,
                                              std::span<const iovec> local, ProgramCopy& copy,
                                              HangGuard* hang_guard, std::size_t& begun) const {
  begun = 0;
  if (memory_ == nullptr) return Copied::kFailed;
  IovecCursor cursor(local);
  std::size_t at = 0;  // in the first of `remote`
  while (!remote.empty()) {
    copy.begin(memory_->get(), kRead);
    while (!remote.empty()) {
      const iovec rest{static_cast<std::byte*>(remote[0].iov_base) + at, remote[0].iov_len - at};
      at += copy.add(rest);
      if (at != remote[0].iov_len) break;
      remote = remote.subspan(1);
      at = 0;
    }
    const std::span<std::byte> data = copy.data();
    if (!kRead && !move_local<true>(cursor, data.data(), data.size())) return Copied::kFailed;
    begun += data.size();
    if (hang_guard != nullptr) {
      if (!hang_guard->make(copy)) return Copied::kLate;
    } else {
      HangGuard::Turn alone;
      copy.run(alone);
    }
    if (!copy.good()) return Copied::kFailed;
    if (kRead && !move_local<false>(cursor, data.data(), data.size())) return Copied::kFailed;
  }
  return Copied::kDone;
}

ProgramMemory::Copied ProgramMemory::read(std::span<const iovec> remote,
                                          std::span<const iovec> local, ProgramCopy& copy,
                                          HangGuard* hang_guard) const {
  std::size_t begun;
  return copy_all<true>(remote, local, copy, hang_guard, begun);
}

ProgramMemory::Copied ProgramMemory::write(std::span<const iovec> remote,
                                           std::span<const iovec> local, ProgramCopy& copy,
                                           HangGuard* hang_guard, std::size_t& begun) const {
  return copy_all<false>(remote, local, copy, hang_guard, begun);
}

bool ProgramMemory::open(const Peer& peer, int pidfd, std::string& why, const control::Proof& proof,
                         const std::optional<ProcessRights>& rights) {
  const std::string process = "/proc/" + std::to_string(peer.pid);
  Descriptor memory(::open((process + "/mem").c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY));
  const int error = errno;
  // These facts are looked at after opening: a process that changes from here on has another address space. The file
  // is the user's only if the process was not given other rights when its program was started.
  struct stat owner{};
  const bool known = memory && fstat(memory.get(), &owner) == 0;
  const bool users = known && owner.st_uid == peer.uid && owner.st_gid == peer.gid;
  // The auxv list is read after opening as well: that of an earlier program would name a place of the user's
  // choice.
  const bool proven = memory && proof.is_given() && is_author(memory.get(), process, proof);
  if (!process_lives(pidfd)) {
    why = "the program that asks has ended";
  } else if (!memory) {
    why = std::string("the agent may not see the program's memory: ") + std::strerror(error);
  } else if (!users && !(rights && is_still(*rights, peer))) {
    why = "the program runs with rights that its user does not have";
  } else if (!users && !proof.is_given()) {
    why = "the program has changed its user or hides its memory, and gives no proof that it asks itself (an older "
          "libvipl)";
  } else if (!users && !proven) {
    why = "the program has changed its user or hides its memory, and is not the one that asked";
  } else {
    memory_ = std::make_shared<Descriptor>(std::move(memory));
    account_ = peer.account();
    proven_ = proven;
    return true;
  }
  return false;
}

// The rights are read before the memory is opened: if the program there has asked, the process ran it all the
// time, so they are that program's.
ProgramAccess open_program(int process, const Peer& peer, const control::Proof& proof) {
  ProgramAccess out;
  if (process < 0) {
    out.why = "the program's process can't be found (another PID namespace?)";
    return out;
  }
  out.user = peer.uid;
  out.account = peer.account();
  const auto rights = rights_of(peer.pid, process);
  if (!out.memory.open(peer, process, out.why, proof, rights)) return out;
  const bool is_roots = rights && rights->users.real == 0 && rights->may_administer_again();
  if (is_roots && out.memory.is_proven()) out.user = out.account = 0;
  return out;
}

}  // namespace viaduct
