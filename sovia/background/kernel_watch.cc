#include "sovia/background/kernel_watch.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "sovia/background/background_state.h"
#include "sovia/process/clock.h"
#include "sovia/process/libc.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/table.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::background {
namespace {

constexpr std::uint64_t kLookNs = 1'000 * kMs;     // between two looks at all connections
constexpr std::uint64_t kSilenceNs = 5'000 * kMs;  // between two signs of life
constexpr std::uint64_t kForeignNs = 5'000 * kMs;  // by then a lane that has broken at the peer has broken here
constexpr std::uint64_t kPulseNs = 20 * kMs;       // for the kernel's timer, which counts in ticks of up to 10 ms

constinit std::uint64_t g_look_at = 0;

bool is_watched(const LaneEndpoint& end) {
  if (end.stage != LaneEndpoint::Stage::kOpen || end.closing || end.fd < 0) return false;
  const LockGuard guard(end.lane.lock());
  return !end.lane.control.broken();
}

// Whether the descriptor is still the socket's: the program may have closed it and have another at its number.
bool has_descriptor(const LaneEndpoint& end) { return table::find(end.fd).get() == end.socket.get(); }

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  return libc::getsockopt(fd, level, name, &value, &length) == 0 ? value : -1;
}

void set_option(int fd, int level, int name, int value) { libc::setsockopt(fd, level, name, &value, sizeof value); }

void give_up_lane(LaneEndpoint& end) {
  {
    const LockGuard guard(end.lane.lock());
    end.lane.fail();
  }
  look_at(end);
}

// Has the kernel send a keep-alive probe at once. No other call of an unprivileged program makes it send a packet
// without data. The options are the program's again a moment later, or when the lane is left, as another program may get
// the socket then.
void begin_sign_of_life(LaneEndpoint& end, std::uint64_t now) {
  end.life_at = now + kSilenceNs;
  if (!has_descriptor(end)) return;
  const LockGuard guard(end.lane.lock());
  if (end.lane.control.leaves() || end.lane.control.sending() >= Lane::State::kEnding) return;
  const int on = option(end.fd, SOL_SOCKET, SO_KEEPALIVE);
  const int idle = option(end.fd, IPPROTO_TCP, TCP_KEEPIDLE);
  if (on < 0 || idle < 0) return;
  end.kept_alive = on;
  end.kept_idle = idle;
  end.life_at = now + kPulseNs;
  set_option(end.fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(end.fd, IPPROTO_TCP, TCP_KEEPIDLE, LaneEndpoint::kProbeAtOnce);
}

// Bytes that the peer's program has sent past its library: they would never be read.
void look_for_foreign_bytes(LaneEndpoint& end, std::uint64_t now) {
  Socket& socket = *end.socket;
  {
    const StreamsGuard both(socket);
    if (!has_foreign_bytes(socket, end.fd)) {
      end.foreign_at = 0;
      return;
    }
  }
  if (end.foreign_at == 0) end.foreign_at = now;
  if (now - end.foreign_at < kForeignNs) return;
  reset_for_foreign_bytes(socket, end.fd);
  give_up_lane(end);
  socket.changed();
}

// The kernel tells of an error once, to whoever asks: the program's next call. Poll takes none away.
void look_at_connections(std::uint64_t now) {
  std::vector<pollfd> fds;
  std::vector<LaneEndpoint*> ends;
  for (LaneEndpoint* const end : state().ends) {
    if (!is_watched(*end) || !has_descriptor(*end)) continue;
    fds.push_back({end->fd, POLLIN, 0});
    ends.push_back(end);
  }
  if (fds.empty() || libc::poll(fds.data(), fds.size(), 0) <= 0) return;
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (!has_descriptor(*ends[i])) continue;
    if ((fds[i].revents & POLLERR) != 0) {
      give_up_lane(*ends[i]);
    } else if ((fds[i].revents & POLLIN) != 0) {
      look_for_foreign_bytes(*ends[i], now);
    }
  }
}

}  // namespace

void end_sign_of_life(LaneEndpoint& end) {
  if (end.kept_idle >= 0 && has_descriptor(end)) end.end_sign_of_life(end.fd);
}

void watch_kernel_connections() {
  const std::uint64_t now = now_ns();
  for (LaneEndpoint* const end : state().ends) {
    if (now < end->life_at || !is_watched(*end)) continue;
    if (end->kept_idle >= 0) {
      end_sign_of_life(*end);
      end->life_at = now + kSilenceNs;
    } else if (end->life_at == 0) {
      end->life_at = now + kSilenceNs;
    } else {
      begin_sign_of_life(*end, now);
    }
  }
  if (now < g_look_at) return;
  g_look_at = now + kLookNs;
  look_at_connections(now);
}

std::uint64_t kernel_watch_due() {
  std::uint64_t due = kNever;
  for (const LaneEndpoint* const end : state().ends) {
    if (is_watched(*end)) due = std::min({due, g_look_at, end->life_at});
  }
  return due;
}

}  // namespace viaduct::sovia::background
