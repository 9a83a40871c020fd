// Requests of sockets to the background thread (background/background.h). All functions may be called by any
// thread. The thread is made at the first request.
#ifndef VIADUCT_SOVIA_SOCKET_BACKGROUND_REQUESTS_H
#define VIADUCT_SOVIA_SOCKET_BACKGROUND_REQUESTS_H

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "sovia/lane/tcp_route.h"
#include "sovia/process/clock.h"
#include "sovia/process/reason.h"
#include "sovia/socket/peer_history.h"
#include "sovia/socket/socket_ref.h"

namespace viaduct::sovia {

class Socket;

// The end of a lane, as the thread and the sockets that ask it know it.
struct BackgroundLane {
  enum class Stage : std::uint8_t { kAsking, kGreeting, kOpen };

  explicit BackgroundLane(Socket& of) : asker(of) {}

  Socket& asker;
  std::atomic<Stage> stage{Stage::kAsking};
  std::atomic<bool> cancelled{false};  // before it was open
  std::atomic<bool> queued{false};     // to be looked at
  BackgroundLane* next_queued = nullptr;
  std::atomic<bool> holding{false};    // small data may have to be sent later
};

namespace background {

// A connection that will have no lane itself, but tells that one may soon be wanted: opens the NIC,
// which takes some time.
void prepare(int fd);

// Opens a lane for the socket if it can, at any time from now on (Socket::lane_opened,
// Socket::lane_refused). Another reason than kNone: there will be none.
Reason ask(Socket& socket, int fd, Role role);
// PeerHistory::calls_before_lane() for the peer of this connection.
std::uint32_t calls_before_lane(int fd, Role role);
// Takes that back. When it returns, no lane will come of it; false: it is there already.
bool cancel(const Socket& socket);

// The lane has changed in a way that may be the thread's business.
void look_at(BackgroundLane& lane);
// The socket's lane has broken, and what is left to be done is the thread's.
// `fd`: a copy of its descriptor that is the library's, or -1.
void watch_fall(Socket& socket, int fd);
// The lane wants a turn after a moment: small data waits on it.
void flush_later(BackgroundLane& lane);
// Data waits for credits in this process: the background thread takes them in soon, unless a call does. Data that has
// not been posted is lost if the process is killed.
void hurry();

// ------------------------------------------------------------------ for the thread
struct Task {
  SocketRef socket;  // that wants a lane; none: the NIC is to be opened, as one may soon be wanted
  const Socket* asker = nullptr;  // the same
  Flow flow;
  int fd = -1;
  bool flow_known;
  Role role = Role::kNeither;
  FlowEnd peer{};  // with the port of the listening side
  std::uint64_t wait_until = 0;  // for the peer to take a VI from the VI cache; 0: it need not be waited for yet
};

// A socket whose lane has broken, as long as its streams are on their way to the kernel.
struct Falling {
  SocketRef socket;
  int fd;  // the library's own copy; -1: none could be had so far
  short wanted = 0;
};

// Never destroyed: the thread runs until the process is gone.
struct Requests {
  std::mutex lock;
  bool (*start)() = nullptr;  // makes the thread if there is none, under the lock
  std::vector<Task> tasks;
  std::vector<Task> awaiting;  // peers who have cached VIs for them
  PeerHistory known;
  std::atomic<bool> knows_any{false};  // ... of a peer
  void learn(const FlowEnd& peer, bool used) {
    known.learn(peer, used, now_ns());
    knows_any.store(true);
  }
  std::atomic<bool> offered{false};  // a cached VI has been taken by the peer, or lost
  const Socket* at_work = nullptr;  // the socket whose task is being done
  bool cancelled = false;           // ... and is not wanted any more
  BackgroundLane* queue = nullptr;  // to be looked at, linked by next_queued
  std::vector<BackgroundLane*> lanes;  // that there are
  std::vector<Falling> fallen;

  std::atomic<int> poke{-1};
  std::atomic<bool> hurries{false};  // data waits for credits
  std::atomic<bool> idle{false};  // the thread sleeps, so it must be poked
  std::atomic<std::uint64_t> flush_at{kNever};
};
Requests& requests();

// Makes the thread if there is none. False: it can't be had.
bool ensure_thread();
void poke();

}  // namespace background
}  // namespace viaduct::sovia

#endif
