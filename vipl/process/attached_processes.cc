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

void Company::add(int link) {
  for (std::uint32_t i = 0; i < kMost; ++i) {
    if (guests_[i].link >= 0) continue;
    guests_[i].link = link;
    if (i >= end_) end_ = i + 1;
    return;
  }
  sys::close(link);
}

const Company::Guest* Company::find(std::uint32_t program) const {
  for (const Guest& guest : guests_) {
    if (guest.program.load(std::memory_order_acquire) == program) return &guest;
  }
  return nullptr;
}

bool Company::read(std::uint32_t program, std::span<const iovec> remote,
                   std::span<const iovec> local) const {
  const Guest* const guest = find(program);
  return guest != nullptr && copy(remote, local, [&](void* data, std::size_t bytes, std::uint64_t at) {
           return sys::pread(guest->memory, data, bytes, at);
         });
}

bool Company::write(std::uint32_t program, std::span<const iovec> remote,
                    std::span<const iovec> local) const {
  const Guest* const guest = find(program);
  return guest != nullptr && copy(remote, local, [&](void* data, std::size_t bytes, std::uint64_t at) {
           return sys::pwrite(guest->memory, data, bytes, at);
         });
}

void Company::chime(std::uint32_t program) const {
  const Guest* const guest = find(program);
  const std::byte anything{};
  if (guest != nullptr) sys::send(guest->chime, &anything, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace viaduct::vipl
