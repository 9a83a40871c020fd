// The thread that hears the lanes: it sleeps on the completion queue, and processes what comes. A frame that comes while
// no thread hears lies there until one calls progress(), so one has to hear as long as there are lanes.
//
// The role is nobody's, the background thread's, or that of one thread of the program:
//
//     nobody     -> program     take(): a thread of the program is about to sleep
//     background -> program     the same: the background thread is woken, as it sleeps on the queue too
//     program    -> nobody      leave(): the thread is awake; take(): no lane is left, and the thread sleeps elsewhere
//     nobody     -> background  sleep(): the program has made no progress since the sleep before
//     background -> nobody      the end of that sleep
//
// A thread of the program goes before the background thread, as it waits for the data itself. The program's other threads
// sleep on words and descriptors of their own (waiting.cc), and the thread that processes an arrival wakes those whom it
// concerns.
//
// The role becomes free when a thread of the program leaves it, and then
//  - another that sleeps is woken to take it, as leave() says. No thread is missed: each is in the list of those that sleep
//    before it calls take(), so it either gets the role or is woken by the thread that has it.
//  - nobody takes it if no other sleeps, as the thread most often calls again at once. The background thread is not woken.
//    So it never sleeps longer than a lease without the role: neither while the program has it, nor when a thread of the
//    program takes it at the same moment.
//
// The lease is long while a thread of the program has the role, which it leaves only to do something. It is short while
// none has it: a program that makes no progress for so long is away. It is shorter while data waits for credits.
//
// No thread has the role while there is no lane, or where threads of arrival_threads.h process arrivals.
//
// Verified: tests/models/listeners.pml, each frame is heard in the end.
#ifndef VIADUCT_SOVIA_LANE_LISTENER_H
#define VIADUCT_SOVIA_LANE_LISTENER_H

#include <poll.h>

#include <cstdint>

namespace viaduct::sovia::listener {

enum class Listener : std::uint8_t { kNobody, kBackground, kProgram };

constexpr std::uint64_t kProgramLeaseNs = 100'000'000;
constexpr std::uint64_t kAwayLeaseNs = 4'000'000;
constexpr std::uint64_t kHurryLeaseNs = 1'000'000;

// For a thread of the program that is in the list of those that sleep, each time before it sleeps. `has`: whether it has
// the role. True: it has it now.
bool take(bool has);
// For the same thread when it is awake. True: another that sleeps, if there is one, must be woken to take the role. One
// that was woken for that before may be about to leave as well.
bool leave(bool has);

// For the background thread: sleeps until one of `fds` is ready, of which the first is its wake event, until `due` or the
// end of the lease; or until a thread of the program takes the role that it has. `must_hear`: the program's progress is not
// enough, as it may make no more calls.
void sleep(pollfd* fds, nfds_t count, std::uint64_t due, bool must_hear);
// Makes the lease of the background thread's next sleep shorter. True: it has to be woken for that.
bool hurry();

void after_fork_in_child();

}  // namespace viaduct::sovia::listener

#endif
