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

// A lane's end, as far as both the background thread and the sockets that ask for lanes know it.
struct BackgroundLane {
  enum class Stage : std::uint8_t { kAsking, kGreeting, kOpen };

  explicit BackgroundLane(Socket& of) : asker(of) {}

  Socket& asker;
  std::atomic<Stage> stage{Stage::kAsking};
  std::atomic<bool> cancelled{false};  // by the socket, before the lane was open
  std::atomic<bool> queued{false};     // in the queue of lanes that the thread is to look at
  BackgroundLane* next_queued = nullptr;
  std::atomic<bool> holding{false};    // the thread is to flush the lane's small data later
};

namespace background {

// Opens the NIC, which takes some time, for a connection that gets no lane itself but shows that another may soon want
// one.
void prepare(int fd);

// Asks for a lane. The thread calls lane_opened() or lane_refused() (lane_life.h) at any time from now on. A result
// other than kNone is the reason why it does not try.
Reason ask(Socket& socket, int fd, Role role);
// PeerHistory::calls_before_lane() for the peer of this connection.
std::uint32_t calls_before_lane(int fd, Role role);
// Takes an ask() back: no lane comes of it after the return. False: the lane is there already.
bool cancel(const Socket& socket);

// The lane has changed: makes the thread check whether it has something to do.
void look_at(BackgroundLane& lane);
// The socket's lane has broken: the thread does the rest of the fallback. `fd`: the library's copy of the socket's
// descriptor, or -1.
void watch_fall(Socket& socket, int fd);
// The thread polls the lane after a moment: small data may be waiting there, or sends that have yet to complete.
void flush_later(BackgroundLane& lane);
// Data waits for credits in this process: the background thread soon takes in the packets that bring them, unless a
// call does. Data that has not been posted is lost if the process is killed.
void hurry();

// ------------------------------------------------------------------ for the thread
struct Task {
  SocketRef socket;  // wants a lane; empty: the task is to open the NIC (prepare())
  const Socket* asker = nullptr;  // the address of the same socket
  Flow flow;
  int fd = -1;
  bool flow_known;
  Role role = Role::kNeither;
  FlowEnd peer{};  // the key of PeerHistory
  std::uint64_t wait_until = 0;  // how long the peer may take to use a cached VI; 0: no wait yet
};

// A socket whose lane has broken, as long as its streams are on their way to the kernel.
struct Falling {
  SocketRef socket;
  int fd;  // the library's copy of its descriptor; -1: none could be made yet
  short wanted = 0;
};

// Never destroyed: the thread runs until the process is gone.
struct Requests {
  std::mutex lock;
  bool (*start)() = nullptr;  // makes the thread if there is none, under the lock
  std::vector<Task> tasks;
  std::vector<Task> awaiting;  // tasks whose peers may take a cached VI
  PeerHistory known;
  std::atomic<bool> knows_any{false};  // false: `known` is empty
  void learn(const FlowEnd& peer, bool used) {
    known.learn(peer, used, now_ns());
    knows_any.store(true);
  }
  std::atomic<bool> offered{false};  // a cached VI has been taken by the peer, or lost
  const Socket* at_work = nullptr;  // the socket whose task is being done
  bool cancelled = false;           // the task has been cancelled
  BackgroundLane* queue = nullptr;  // ends given to look_at(), linked by next_queued
  std::vector<BackgroundLane*> lanes;  // all lanes that the thread serves
  std::vector<Falling> fallen;

  std::atomic<int> poke{-1};
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
