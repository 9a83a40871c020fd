#include "vipl/process/attached_processes.h"

#include <sys/socket.h>

#include <cerrno>

#include "kagent/contract/iovec_cursor.h"
#include "vipl/process/sys.h"

namespace viaduct::vipl {
namespace {

// Copies between the memory behind a descriptor (`remote`) and our own, piece by piece and in order.
template <class Move>
bool copy(std::span<const iovec> remote, std::span<const iovec> local, Move&& move) {
  IovecCursor cursor(local);
  for (const iovec& piece : remote) {
    auto at = reinterpret_cast<std::uintptr_t>(piece.iov_base);
    for (std::size_t left = piece.iov_len; left != 0;) {
      const std::size_t here = cursor.room() < left ? cursor.room() : left;
      const long moved = here == 0 ? 0 : move(cursor.here(), here, at);
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) return false;
      at += static_cast<std::size_t>(moved);
      left -= static_cast<std::size_t>(moved);
      cursor.advance(static_cast<std::size_t>(moved));
    }
  }
  return true;
}

}  // namespace

void AttachedProcesses::add(int link) {
  for (std::uint32_t i = 0; i < kMost; ++i) {
    if (attached_processes_[i].link >= 0) continue;
    attached_processes_[i].link = link;
    if (i >= end_) end_ = i + 1;
    return;
  }
  sys::close(link);
}

const AttachedProcesses::AttachedProcess* AttachedProcesses::find(std::uint32_t program) const {
  for (const AttachedProcess& attached_process : attached_processes_) {
    if (attached_process.program.load(std::memory_order_acquire) == program) return &attached_process;
  }
  return nullptr;
}

bool AttachedProcesses::read(std::uint32_t program, std::span<const iovec> remote,
                   std::span<const iovec> local) const {
  const AttachedProcess* const attached_process = find(program);
  return attached_process != nullptr && copy(remote, local, [&](void* data, std::size_t bytes, std::uint64_t at) {
           return sys::pread(attached_process->memory, data, bytes, at);
         });
}

bool AttachedProcesses::write(std::uint32_t program, std::span<const iovec> remote,
                    std::span<const iovec> local) const {
  const AttachedProcess* const attached_process = find(program);
  return attached_process != nullptr && copy(remote, local, [&](void* data, std::size_t bytes, std::uint64_t at) {
           return sys::pwrite(attached_process->memory, data, bytes, at);
         });
}

void AttachedProcesses::poll_wake(std::uint32_t program) const {
  const AttachedProcess* const attached_process = find(program);
  const std::byte anything{};
  if (attached_process != nullptr) sys::send(attached_process->poll_wake, &anything, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace viaduct::vipl
