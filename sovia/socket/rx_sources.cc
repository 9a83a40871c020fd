#include "sovia/socket/rx_sources.h"

#include <sys/ioctl.h>

#include <cstdint>
#include <mutex>

#include "sovia/process/libc.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/socket_pieces.h"

namespace viaduct::sovia {
namespace {

// In the order of their bytes. kKernelBefore: those that come before the lane's (Phase::kDrain).
enum class Source : std::uint8_t { kInherited, kKernelBefore, kLane, kKernel };

Source source_behind_inherited(const Socket& socket) {
  if (socket.link.end == nullptr) return Source::kKernel;
  if (socket.rx.route == Phase::kDrain) return Source::kKernelBefore;
  return socket.rx.route == Phase::kLane ? Source::kLane : Source::kKernel;
}

Source behind(const Socket& socket, Source source) {
  switch (source) {
    case Source::kInherited: return source_behind_inherited(socket);
    case Source::kKernelBefore: return Source::kLane;
    default: return Source::kKernel;
  }
}

// Whether a source has these bytes only, and no more will come from it.
bool ends_with(const Socket& socket, Source source, std::size_t bytes) {
  if (source == Source::kInherited) return bytes == socket.rx.inherited_left();
  if (source == Source::kKernelBefore) return bytes == socket.rx.kernel_left;
  if (source == Source::kKernel) return false;
  Lane& lane = socket.link.end->lane;
  const std::scoped_lock guard(lane.lock());
  return bytes == lane.rx.unread() && lane.control.receiving() == Lane::State::kEnded;
}

int kernel_bytes(int fd) {
  int bytes = 0;
  return libc::ioctl(fd, FIONREAD, &bytes) == 0 ? bytes : 0;
}

std::size_t look_at(Socket& socket, Source source, int fd, const iovec* pieces, std::size_t count, std::size_t skip) {
  if (source == Source::kLane) {
    const std::scoped_lock guard(socket.link.end->lane.lock());
    return socket.link.end->lane.rx.read(pieces, count, skip, true);
  }
  if (record_is_next(socket) || kernel_bytes(fd) == 0 || is_at_mark(fd)) return 0;
  IovecTail rest(pieces, count, skip, source == Source::kKernelBefore ? socket.rx.kernel_left : ~0ull);
  const ssize_t bytes = libc::recvmsg(fd, rest.message(), MSG_PEEK | MSG_DONTWAIT);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace

bool goes_on_behind(Socket& socket, int fd) {
  const int in_kernel = kernel_bytes(fd);
  return !is_at_mark(fd) && socket.unread_locked(in_kernel) > 0;
}

std::size_t look_behind(Socket& socket, int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                        std::size_t bytes) {
  Source source = socket.rx.inherited_left() != 0 ? Source::kInherited : source_behind_inherited(socket);
  const std::size_t room = total(pieces, count) - skip;
  std::size_t seen = bytes;
  for (std::size_t here = bytes; seen < room && ends_with(socket, source, here); seen += here) {
    source = behind(socket, source);
    here = look_at(socket, source, fd, pieces, count, skip + seen);
    if (here == 0 && source == Source::kKernel) break;
  }
  return seen - bytes;
}

bool is_at_mark(int fd) {
  int mark = 0;
  return libc::ioctl(fd, SIOCATMARK, &mark) == 0 && mark != 0;
}

}  // namespace viaduct::sovia
