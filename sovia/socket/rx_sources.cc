#include "sovia/socket/rx_sources.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstdint>

#include "sovia/lane/engine.h"
#include "sovia/process/libc.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/socket_pieces.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

enum class Source : std::uint8_t { kInherited, kLane, kKernel };

Source source_behind_inherited(const Socket& socket) VIADUCT_REQUIRES(socket.rx.lock) {
  return socket.rx.on_lane ? Source::kLane : Source::kKernel;
}

int kernel_bytes(int fd) {
  int bytes = 0;
  return libc::ioctl(fd, FIONREAD, &bytes) == 0 ? bytes : 0;
}

// Whether a source has these bytes only, and no more will come from it.
bool ends_with(const Socket& socket, Source source, std::size_t bytes) SOVIA_RX_LOCKED(socket) {
  if (source == Source::kInherited) return bytes == socket.rx.inherited_left();
  if (socket.link.end == nullptr) return false;
  Lane& lane = socket.link.end->lane;
  const LockGuard guard(lane.lock());
  if (source == Source::kKernel) return !socket.rx.on_lane && lane.rx.first() == socket.rx.kernel_read + bytes;
  const bool is_last = socket.rx.leaves_lane || lane.control.receiving() == Lane::State::kEnded;
  return bytes == lane.rx.unread_here() && is_last;
}

std::size_t look_at(Socket& socket, Source source, int fd, const iovec* pieces, std::size_t count, std::size_t skip)
    SOVIA_RX_LOCKED(socket) {
  if (source == Source::kLane) {
    const LockGuard guard(socket.link.end->lane.lock());
    return socket.link.end->lane.rx.read(pieces, count, skip, true, !socket.rx.on_lane);
  }
  if (socket.rx.on_lane && !socket.rx.leaves_lane) return 0;
  if (socket.rx.record().is_expected() && (!take_record(socket, fd) || socket.reset)) return 0;
  if (kernel_bytes(fd) == 0 || is_at_mark(fd)) return 0;
  const std::uint64_t limit = kernel_limit(socket, fd);
  if (limit == 0) return 0;
  IovecTail rest(pieces, count, skip, limit);
  const ssize_t bytes = libc::recvmsg(fd, rest.message(), MSG_PEEK | MSG_DONTWAIT);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace

bool goes_on_behind(Socket& socket, int fd) { return !is_at_mark(fd) && socket.unread_locked(fd) > 0; }

std::size_t look_behind(Socket& socket, int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                        std::size_t bytes) {
  Source source = socket.rx.inherited_left() != 0 ? Source::kInherited : source_behind_inherited(socket);
  const std::size_t room = total(pieces, count) - skip;
  std::size_t seen = bytes;
  for (std::size_t here = bytes; seen < room && ends_with(socket, source, here); seen += here) {
    switch (source) {
      case Source::kInherited: source = source_behind_inherited(socket); break;
      case Source::kLane: source = Source::kKernel; break;
      case Source::kKernel: source = Source::kLane; break;
    }
    here = look_at(socket, source, fd, pieces, count, skip + seen);
    if (here == 0 && source == Source::kKernel) break;
  }
  return seen - bytes;
}

std::uint64_t kernel_limit(Socket& socket, int fd) {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  if (socket.link.end == nullptr) return kAll;
  Lane& lane = socket.link.end->lane;
  const std::uint64_t read = socket.rx.kernel_read;
  const auto before = [read](std::uint64_t first) { return first - std::min(first, read); };
  {
    const LockGuard guard(lane.lock());
    if (const auto first = lane.rx.first()) return before(*first);
    if (!lane.greeting.trusted() || lane.control.is_cut() || lane.control.receiving() == Lane::State::kEnded) return kAll;
  }
  int unread = 0;
  libc::ioctl(fd, SIOCINQ, &unread);
  engine::take_all_in();
  const LockGuard guard(lane.lock());
  if (const auto first = lane.rx.first()) return before(*first);
  return static_cast<std::uint64_t>(std::max(unread, 0));
}

bool is_at_mark(int fd) {
  int mark = 0;
  return libc::ioctl(fd, SIOCATMARK, &mark) == 0 && mark != 0;
}

}  // namespace viaduct::sovia
