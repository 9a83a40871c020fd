// Requests of sockets to the background thread, which background/requests.cc queues for it. All functions may be called
// by any thread. The thread is made at the first request.
#ifndef VIADUCT_SOVIA_SOCKET_BACKGROUND_REQUESTS_H
#define VIADUCT_SOVIA_SOCKET_BACKGROUND_REQUESTS_H

#include <atomic>
#include <cstdint>

#include "sovia/process/reason.h"
#include "sovia/socket/peer_history.h"

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

}  // namespace background
}  // namespace viaduct::sovia

#endif
