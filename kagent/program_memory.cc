#include "kagent/program_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace viaduct {
namespace {

using Address = std::uintptr_t;

bool move_in(int memory, Address from, std::byte* to, std::size_t bytes) {
  while (bytes != 0) {
    const ssize_t n = pread(memory, to, bytes, static_cast<off_t>(from));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += static_cast<std::size_t>(n);
    to += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool move_out(int memory, Address to, const std::byte* from, std::size_t bytes) {
  while (bytes != 0) {
    const ssize_t n = pwrite(memory, from, bytes, static_cast<off_t>(to));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += static_cast<std::size_t>(n);
    from += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

// A position in a list of local pieces.
class Cursor {
 public:
  explicit Cursor(std::span<const iovec> pieces) : pieces_(pieces) { skip_empty(); }

  std::size_t room() const { return pieces_.empty() ? 0 : pieces_[0].iov_len - at_; }
  std::byte* here() const { return static_cast<std::byte*>(pieces_[0].iov_base) + at_; }
  void advance(std::size_t bytes) {
    at_ += bytes;
    skip_empty();
  }

 private:
  void skip_empty() {
    while (!pieces_.empty() && at_ == pieces_[0].iov_len) {
      pieces_ = pieces_.subspan(1);
      at_ = 0;
    }
  }

  std::span<const iovec> pieces_;
  std::size_t at_ = 0;
};

template <bool kRead>
bool copy_run(int memory, Address remote, std::size_t bytes, Cursor& local,
              std::span<std::byte> buffer) {
  while (bytes != 0) {
    const std::size_t room = local.room();
    if (room == 0) return false;
    if (room >= bytes || room >= buffer.size()) {
      const std::size_t n = std::min(room, bytes);
      const bool moved = kRead ? move_in(memory, remote, local.here(), n)
                               : move_out(memory, remote, local.here(), n);
      if (!moved) return false;
      local.advance(n);
      remote += n;
      bytes -= n;
      continue;
    }
    const std::size_t n = std::min(bytes, buffer.size());
    if (kRead && !move_in(memory, remote, buffer.data(), n)) return false;
    for (std::size_t done = 0; done < n;) {
      const std::size_t piece = std::min(n - done, local.room());
      if (piece == 0) return false;
      if (kRead) {
        std::memcpy(local.here(), buffer.data() + done, piece);
      } else {
        std::memcpy(buffer.data() + done, local.here(), piece);
      }
      local.advance(piece);
      done += piece;
    }
    if (!kRead && !move_out(memory, remote, buffer.data(), n)) return false;
    remote += n;
    bytes -= n;
  }
  return true;
}

template <bool kRead>
bool copy(int memory, std::span<const iovec> remote, std::span<const iovec> local,
          std::span<std::byte> buffer) {
  if (memory < 0) return false;
  Cursor cursor(local);
  for (std::size_t i = 0; i < remote.size();) {
    const auto begin = reinterpret_cast<Address>(remote[i].iov_base);
    std::size_t bytes = remote[i].iov_len;
    for (++i; i < remote.size(); ++i) {
      const bool follows = reinterpret_cast<Address>(remote[i].iov_base) == begin + bytes;
      const bool waits = !kRead && remote[i].iov_len <= ProgramMemory::kOrderBytes;
      if (!follows || waits) break;
      bytes += remote[i].iov_len;
    }
    if (!copy_run<kRead>(memory, begin, bytes, cursor, buffer)) return false;
  }
  return true;
}

}  // namespace

bool ProgramMemory::open(const ucred& peer, int pidfd, std::string& why) {
  const std::string file = "/proc/" + std::to_string(peer.pid) + "/mem";
  Descriptor memory(::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY));
  const int error = errno;
  // Looked at after opening: what changes from here on is another address space. The file is the
  // user's only if the process was not given other rights when its program was started.
  struct stat owner{};
  const bool known = memory && fstat(memory.get(), &owner) == 0;
  if (!process_lives(pidfd)) {
    why = "the program that asks has ended";
  } else if (!memory) {
    why = std::string("the agent may not see the program's memory: ") + std::strerror(error);
  } else if (!known || owner.st_uid != peer.uid || owner.st_gid != peer.gid) {
    why = "the program runs with rights that its user does not have";
  } else {
    memory_ = std::move(memory);
    return true;
  }
  return false;
}

bool ProgramMemory::read(std::span<const iovec> remote, std::span<const iovec> local,
                         std::span<std::byte> buffer) const {
  return copy<true>(memory_.get(), remote, local, buffer);
}

bool ProgramMemory::write(std::span<const iovec> remote, std::span<const iovec> local,
                          std::span<std::byte> buffer) const {
  return copy<false>(memory_.get(), remote, local, buffer);
}

ProgramAccess open_program(int socket, const ucred& peer) {
  ProgramAccess out;
  out.process = peer_process(socket, peer);
  if (!out.process) {
    out.why = "the program's process can't be found (another PID namespace?)";
    return out;
  }
  out.user = owning_user(peer);
  out.memory.open(peer, out.process.get(), out.why);
  return out;
}

uid_t owning_user(const ucred& peer) {
  std::ifstream status("/proc/" + std::to_string(peer.pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("Uid:")) continue;
    std::istringstream users(line.substr(4));
    uid_t real = peer.uid;
    return users >> real && real == 0 ? 0 : peer.uid;
  }
  return peer.uid;
}

Descriptor peer_process(int socket, const ucred& peer) {
  int fd = -1;
  socklen_t bytes = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &bytes) == 0) return Descriptor(fd);
  if (errno != ENOPROTOOPT) return Descriptor();
  // Before Linux 6.5. The number may have passed to another process since the connection was made;
  // ProgramMemory::open() takes that only for a process of the same user and group.
  if (peer.pid <= 0) {
    errno = ESRCH;
    return Descriptor();
  }
  return Descriptor(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
}

bool process_lives(int pidfd) {
  pollfd polled{pidfd, POLLIN, 0};
  return ::poll(&polled, 1, 0) == 0;
}

}  // namespace viaduct
