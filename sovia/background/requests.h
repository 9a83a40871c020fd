// The requests of sockets (socket/background_requests.h) as the background thread finds them.
#ifndef VIADUCT_SOVIA_BACKGROUND_REQUESTS_H
#define VIADUCT_SOVIA_BACKGROUND_REQUESTS_H

#include <atomic>
#include <cstdint>
#include <vector>

#include "sovia/lane/tcp_route.h"
#include "sovia/process/clock.h"
#include "sovia/process/lock_order.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/peer_history.h"
#include "sovia/socket/socket_ref.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::background {

struct Task {
  SocketRef socket;  // wants a lane; empty: the task is to open the NIC (prepare())
  const Socket* asker = nullptr;  // the address of the same socket
  Flow flow;
  int fd = -1;
  bool flow_known;
  Role role = Role::kNeither;
  FlowEnd peer{};  // the key of PeerHistory
};

// A socket whose lane has broken, as long as its streams are on their way to the kernel.
struct Falling {
  SocketRef socket;
  int fd;  // the library's copy of its descriptor; -1: none could be made yet
  short wanted = 0;
};

// Never destroyed: the thread runs until the process is gone.
struct Requests {
  Mutex lock SOVIA_LOCK_ORDER(outer_sets, requests);
  bool (*start)() VIADUCT_GUARDED_BY(lock) = nullptr;  // makes the thread if there is none, under the lock
  std::vector<Task> tasks VIADUCT_GUARDED_BY(lock);
  PeerHistory known VIADUCT_GUARDED_BY(lock);
  std::atomic<bool> knows_any{false};  // false: `known` is empty
  void learn(const FlowEnd& peer, bool used) VIADUCT_REQUIRES(lock) {
    known.learn(peer, used, now_ns());
    knows_any.store(true);
  }
  const Socket* at_work VIADUCT_GUARDED_BY(lock) = nullptr;  // the socket whose task is being done
  bool cancelled VIADUCT_GUARDED_BY(lock) = false;           // the task has been cancelled
  BackgroundLane* queue VIADUCT_GUARDED_BY(lock) = nullptr;  // ends given to look_at(), linked by next_queued
  std::vector<BackgroundLane*> lanes VIADUCT_GUARDED_BY(lock);  // all lanes that the thread serves
  std::vector<Falling> fallen VIADUCT_GUARDED_BY(lock);

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
