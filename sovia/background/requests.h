// The requests of sockets (socket/background_requests.h) as the background thread finds them.
#ifndef VIADUCT_SOVIA_BACKGROUND_REQUESTS_H
#define VIADUCT_SOVIA_BACKGROUND_REQUESTS_H

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "sovia/lane/tcp_route.h"
#include "sovia/process/clock.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/peer_history.h"
#include "sovia/socket/socket_ref.h"

namespace viaduct::sovia::background {

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

}  // namespace viaduct::sovia::background

#endif
