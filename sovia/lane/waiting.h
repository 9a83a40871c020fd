// Waiting for lanes and kernel descriptors at once: spins first, as progress is made by the thread
// that waits, and sleeps later.
#ifndef VIADUCT_SOVIA_LANE_WAITING_H
#define VIADUCT_SOVIA_LANE_WAITING_H

#include <poll.h>
#include <signal.h>

#include <cstdint>

namespace viaduct::sovia {

class Socket;

inline constexpr std::uint64_t kNever = ~0ull;

// CLOCK_MONOTONIC in ns.
std::uint64_t now_ns();
// timeout_ms as poll has it: negative is never.
std::uint64_t deadline_in_ms(long timeout_ms);
std::uint64_t deadline_in(const timespec* timeout);  // nullptr: never

// What a thread waits for, besides kernel descriptors.
class Interest {
 public:
  // Whether it has come, as far as lanes go. Called often, without locks held. No system calls.
  virtual bool ready() = 0;
  // Whether a change of this socket's lane is worth waking the thread. Called by other threads under
  // a lock; must be short and take no lock that is held while waiting.
  virtual bool concerns(const Socket& socket) const = 0;

 protected:
  ~Interest() = default;
};

enum class Woken {
  kReady,        // ready() is true
  kDescriptors,  // some of fds have revents
  kTimeout,
  kSignal,       // EINTR: a handler has run, or waits for signals::run_held_back()
};

// What signals do to a wait.
enum class Signals : std::uint8_t { kInterrupt, kWait };

// Waits for either. fds may be empty; their revents are valid if the result is kDescriptors. `mask`
// as in ppoll, or nullptr. spin: worth spinning first, as something on a lane is awaited.
// With a deadline in the past it looks once. Cancellation point while it sleeps.
Woken wait_for(Interest& interest, pollfd* fds, nfds_t count, std::uint64_t deadline,
               const sigset_t* mask, bool spin, Signals signals = Signals::kInterrupt);

// Gives the lanes a turn: takes in what has come. True if something had. Costs next to nothing when
// there is no lane.
bool progress();

}  // namespace viaduct::sovia

#endif
