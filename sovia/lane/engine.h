// What all lanes of the process have in common: the NIC, the threads that sleep, and who may take in
// what comes.
#ifndef VIADUCT_SOVIA_LANE_ENGINE_H
#define VIADUCT_SOVIA_LANE_ENGINE_H

#include <atomic>
#include <cstdint>

#include "sovia/lane/nic.h"
#include "sovia/socket/watchers.h"
#include "sovia/lane/waiting.h"

namespace viaduct::sovia {

class LaneEnd;

// Someone whom a change of a lane may concern: the owner of a wire (ViWire::owner).
class LaneOwner {
 public:
  virtual void arrived(const Nic::Arrival& arrival) = 0;

 protected:
  ~LaneOwner() = default;
};

namespace engine {

// The process's NIC once it is open, or nullptr. Set by the background thread.
Nic* nic();
void set_nic(Nic* nic);

// As progress(), whoever is to take in what comes.
bool turn();

// Something about the socket's lane has changed, `what` as in ready.h: wakes whom it concerns, tells
// epoll sets. No locks that readers of the socket take may be held.
void changed(Socket& socket, short what = kAnyChange);

// Number of times that a thread of the program has made progress; only its change matters.
std::uint32_t turns();

// Whether a thread of the program sleeps as the one that hears the lanes.
bool program_listens();

// For the background thread: hears the lanes in place of the program, until the program wants to do
// it itself, one of `fds` is ready (the first is to be readable to end it) or the time is up. Whether
// threads of the program have come by.
bool listen_in_background(pollfd* fds, nfds_t count, std::uint64_t deadline);

// The NIC's agent has gone: its lanes hear of it, whoever takes in what comes.
void lost(Nic& nic);

// Ends the VI of a lane that the peer does not leave, and takes in all that has come on it.
void give_up(LaneEnd& end);

// Keeps everybody from taking in what comes, while a wire is destroyed.
void pause();
bool try_pause();
void go_on();

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

}  // namespace engine
}  // namespace viaduct::sovia

#endif
