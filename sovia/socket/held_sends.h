// Small sends of a program that is about to wait: data that it sends on a lane is held until then, so that a header and
// the body behind it are one packet.
//
// An event loop answers and then waits, a few microseconds later. A thread that has done so many times in a row, with more
// than one send each time, holds its small sends although its sockets have TCP_NODELAY: until it waits, until the oldest
// has been held for kMostNs, or until a packet is full. A thread that does something else than waiting afterwards must
// show again that it waits; the background thread sends its data within a millisecond (flush_later()).
#ifndef VIADUCT_SOVIA_SOCKET_HELD_SENDS_H
#define VIADUCT_SOVIA_SOCKET_HELD_SENDS_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sovia/process/lock_order.h"

namespace viaduct::sovia {

class LaneEndpoint;
class Socket;

namespace held_sends {

constexpr std::size_t kMostBytes = 4096;   // of a send that may be held
constexpr std::uint64_t kMostNs = 25'000;  // for which data is held if the thread goes on sending

// This thread sends a few bytes on a lane, without waiting. True if they may be held.
bool may_hold();
// The lane holds data. It is locked.
void add(LaneEndpoint& end);
// The lane is about to be freed.
void forget(LaneEndpoint& end);

extern std::atomic<std::uint32_t> g_held;  // lanes
// `sender`: is about to send more behind what it holds, at once.
void flush_all(const Socket* sender = nullptr) SOVIA_UNLOCKED;
void waits_after_sends();
// How a thread has gone on after its sends.
struct Habit {
  std::uint64_t sent_at = 0;   // the last send since it last waited; 0: none
  std::uint64_t held_from = 0; // the first of them that was held; 0: none
  std::uint32_t sends = 0;     // since it last waited
  std::uint32_t sure = 0;      // times in a row that it has waited soon after several sends
};
extern constinit thread_local __attribute__((tls_model("initial-exec"))) Habit t_habit;

// This thread is about to wait, or to look for events.
inline void before_wait() {
  if (t_habit.sent_at != 0) waits_after_sends();
  if (g_held.load(std::memory_order_relaxed) != 0) flush_all();
}

// This thread is about to send on another connection in a way that does not wait: what it holds leaves first.
void flush_own(const Socket* sender) SOVIA_UNLOCKED;
inline void before_other_send(const Socket* sender = nullptr) {
  if (g_held.load(std::memory_order_relaxed) != 0) [[unlikely]] flush_own(sender);
}

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

}  // namespace held_sends
}  // namespace viaduct::sovia

#endif
