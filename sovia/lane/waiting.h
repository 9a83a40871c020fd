// Waiting for lanes and kernel descriptors at once. A thread spins first, as the thread that waits makes the progress
// of lanes, and sleeps later.
#ifndef VIADUCT_SOVIA_LANE_WAITING_H
#define VIADUCT_SOVIA_LANE_WAITING_H

#include <poll.h>
#include <signal.h>

#include <cstdint>

#include "sovia/lane/watchers.h"
#include "sovia/process/clock.h"
#include "sovia/process/lock_order.h"

namespace viaduct::sovia {

// The condition a thread waits for, besides kernel descriptors.
class WaitCondition {
 public:
  // Whether the condition is met, as far as lanes go. Called often, without locks held. Makes no system calls.
  virtual bool ready() SOVIA_UNLOCKED = 0;
  // Whether a change of `source` is worth waking the thread. Called by other threads under a lock; must be quick and
  // take no lock that is held while waiting.
  virtual bool concerns(const Watched& source) const = 0;

 protected:
  ~WaitCondition() = default;
};

enum class Woken {
  kReady,        // ready() is true
  kDescriptors,  // some of fds have revents
  kTimeout,
  kSignal,       // EINTR: a handler has run, or waits for signals::run_held_back()
};

// The effect of signals on a wait.
enum class Signals : std::uint8_t { kInterrupt, kWait };

// Waits for the condition or for `fds`, which may be empty; their revents are valid if the result is kDescriptors.
// `mask` as in ppoll, or nullptr. `spin`: whether to spin first, as something on a lane is awaited. With a deadline in
// the past it looks once. A cancellation point while it sleeps.
Woken wait_for(WaitCondition& condition, pollfd* fds, nfds_t count, std::uint64_t deadline,
               const sigset_t* mask, bool spin, Signals signals = Signals::kInterrupt) SOVIA_UNLOCKED;

// Waits for a moment until the condition is met by the completion of a send, which makes no entry in the completion
// queue: no event ends the sleep early. False: it is not met yet. The program's signal handlers don't run.
bool wait_for_completion(WaitCondition& condition) SOVIA_UNLOCKED;

namespace waiting {

// The source has changed: wakes the threads that wait for it.
void wake(const Watched& source);

// Around fork, with arrivals paused.
void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

}  // namespace waiting
}  // namespace viaduct::sovia

#endif
