#include "vipl/process/attached_processes.h"

#include "kagent/contract/control.h"
#include "vipl/granted/driver.h"
#include "vipl/session/message.h"
#include "vipl/process/sys.h"

namespace viaduct::vipl {
namespace {

// Copies between the memory behind a descriptor (`remote`) and our own, piece by piece and in order.
template <class Move>
bool copy(std::span<const iovec> remote, std::span<const iovec> local, Move&& move) {
  std::size_t in_local = 0;  // bytes of local.front() that are done
  for (const iovec& piece : remote) {
    auto at = reinterpret_cast<std::uintptr_t>(piece.iov_base);
    for (std::size_t left = piece.iov_len; left != 0;) {
      if (local.empty()) return false;
      const std::size_t room = local.front().iov_len - in_local;
      const std::size_t here = room < left ? room : left;
      auto* const data = static_cast<std::byte*>(local.front().iov_base) + in_local;
      const long moved = here == 0 ? 0 : move(data, here, at);
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0 && here != 0) return false;
      at += static_cast<std::size_t>(moved);
      left -= static_cast<std::size_t>(moved);
      in_local += static_cast<std::size_t>(moved);
      if (in_local == local.front().iov_len) local = local.subspan(1), in_local = 0;
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

void Company::close(Driver& driver, Guest& guest) {
  // From then on the driver does not ask for it.
  if (guest.program != 0) driver.leave(guest.program);
  guest.program = 0;
  for (const int fd : {guest.link, guest.memory, guest.chime}) {
    if (fd >= 0) sys::close(fd);
  }
  guest.link = guest.memory = guest.chime = -1;
}

void Company::hear(Driver& driver, std::uint32_t number) {
  Guest& guest = guests_[number];
  control::Join join;
  int memory = -1;
  unsigned count = 1;
  const long bytes = receive_message(guest.link, &join, sizeof join, &memory, count, MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const bool right = bytes == sizeof join && count == 1 && guest.program == 0 &&
                     join.head.magic == control::kMagic && join.head.version == control::kVersion &&
                     join.head.kind == static_cast<std::uint16_t>(control::Kind::kJoin);
  if (right && take_in(driver, guest, memory, join.parent, join.forks)) return;
  if (!right && memory >= 0) sys::close(memory);
  close(driver, guest);
}

// The guest has been told when this returns true. Takes `memory` over.
bool Company::take_in(Driver& driver, Guest& guest, int memory, std::uint32_t parent,
                      std::uint32_t forks) {
  guest.memory = sys::out_of_the_way(memory);
  int ends[2];
  if (sys::socketpair(SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, ends) != 0) return false;
  guest.chime = sys::out_of_the_way(ends[0]);
  any_.store(true);
  guest.program = driver.join(parent, forks);
  control::Joined joined = {};
  joined.head.kind = static_cast<std::uint16_t>(control::Kind::kJoin);
  joined.head.bytes = sizeof joined;
  joined.head.result = guest.program != 0 ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
  bool told = false;
  if (guest.program != 0) {
    driver.name(guest.program, joined.member, joined.program_id);
    int pokes[2];
    driver.pokes(pokes);
    const int fds[control::kJoinedDescriptors] = {pokes[0], pokes[1], ends[1]};
    told = send_message(guest.link, &joined, sizeof joined, fds, control::kJoinedDescriptors,
                        MSG_DONTWAIT);
  }
  sys::close(ends[1]);
  return told;
}

void Company::end_all(Driver& driver) {
  for (std::uint32_t i = 0; i < end_; ++i) {
    if (guests_[i].link >= 0) close(driver, guests_[i]);
  }
  end_ = 0;
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
