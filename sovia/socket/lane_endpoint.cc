#include "sovia/socket/lane_endpoint.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "sovia/process/libc.h"
#include "sovia/socket/socket.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

void LaneEndpoint::arrived(const ProcessNic::Arrival& arrival) {
  unsigned changes;
  bool news;  // there is room again
  {
    const LockGuard guard(lane.lock());
    if (arrival.lost && arrival.missing) lane.control.miss();
    changes = arrival.lost ? lane.cut()
                           : lane.arrived(arrival.place, arrival.bytes, arrival.immediate);
    if (lane.wants_poll()) background::flush_later(*this);
    asker.rx.lane_unread.store(lane.rx.unread_here(), std::memory_order_relaxed);
    news = (changes & LaneChange::kWritable) != 0 && lane.tx.take_lack();
  }
  // A call may wait for a direction to come down, or for the peer's answer about a sink.
  constexpr unsigned kMoves = LaneChange::kState | LaneChange::kTurn | LaneChange::kSinks;
  if ((changes & kMoves) != 0) asker.routes_changed();
  if ((changes & LaneChange::kState) != 0) background::look_at(*this);
  if (changes == 0) return;
  short what = 0;
  if ((changes & LaneChange::kReadable) != 0) what |= POLLIN;
  if (news) what |= POLLOUT;
  if ((changes & kMoves) != 0) what |= kRouteChange;
  asker.changed(what);
}

void LaneEndpoint::end_sign_of_life(int fd) {
  if (kept_idle.load() < 0) return;
  const int idle = kept_idle.exchange(-1);
  int now = 0;
  socklen_t length = sizeof now;
  // A program that has set the option meanwhile keeps what it has set.
  if (idle < 0 || libc::getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &now, &length) != 0 || now != kProbeAtOnce) return;
  libc::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  libc::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kept_alive, sizeof kept_alive);
}

void LaneEndpoint::give_up() {
  engine::pause();
  vi.disconnect();
  ProcessNic::Arrival arrival;
  while (vi.take(arrival)) arrived(arrival);
  engine::go_on();
  const LockGuard guard(lane.lock());
  lane.cut();
}

}  // namespace viaduct::sovia
