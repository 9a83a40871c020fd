// Counts the calls of a connection that have moved data, and knows how many make it worth a lane. Long bursts do not: they
// are the kernel's (burst.h).
//
// A connection that was refused a lane bypasses the library: until it asks for a lane again, after a number of calls
// that move data, calls are the kernel's alone.
#ifndef VIADUCT_SOVIA_SOCKET_LANE_DEMAND_H
#define VIADUCT_SOVIA_SOCKET_LANE_DEMAND_H

#include <atomic>
#include <cstdint>

#include "sovia/socket/peer_history.h"
#include "sovia/socket/stream_locks.h"

namespace viaduct::sovia {

enum class Direction : std::uint8_t { kReceiving, kSending };

class LaneDemand {
 public:
  static constexpr std::uint32_t kCallsOfChild = 128;  // before a connection that was inherited by fork is worth a lane

  // A call has moved `bytes` by the kernel. kLane: the connection is worth a lane now; kBypass: a long burst goes on, which is
  // the kernel's alone (bypass_burst()).
  enum class Verdict : std::uint8_t { kNothing, kLane, kBypass };
  // `long_too`: long bursts are worth a lane as well.
  Verdict count(Direction direction, std::uint64_t bytes, bool long_too = false);
  // A try for a lane has failed, or its lane has ended: the next comes after twice as many calls.
  void put_off();
  // A lane takes `calls` calls from now on; 0: as many as the options say.
  void need(std::uint32_t calls) { calls_needed_.store(calls, std::memory_order_relaxed); }
  void forget_calls() { calls_.store(0); }
  void forget_all();
  // Whether a lane was refused or put off, so that none can be had for some time.
  bool was_refused() const { return calls_needed_.load(std::memory_order_relaxed) != 0; }

  bool bypasses() const {
    const std::uint32_t round = bypass_round_.load(std::memory_order_relaxed);
    return bypass_calls_.load() > 0 && (round == kAnyRound || round == g_round.load(std::memory_order_relaxed));
  }
  bool bypasses_this_round() const {
    return bypass_round_.load(std::memory_order_relaxed) == g_round.load(std::memory_order_relaxed);
  }
  void begin_bypass();
  // The next calls are the kernel's alone: more of them each time.
  void bypass_burst() VIADUCT_REQUIRES(either_stream);
  // No lane is to be asked for before all connections may ask again; then at the first call.
  void bypass_this_round();
  // Connections that stay with the kernel may ask for lanes again.
  static void all_may_ask() { g_round.fetch_add(1); }
  // The bypass is due to other connections with the peer, which were short: it ends when this one lives longer or moves
  // more than they did.
  void limit_bypass();
  void count_bypass(std::uint64_t bytes) {
    bypass_calls_.fetch_sub(1);
    if (bypass_until_.load(std::memory_order_relaxed) != 0) end_bypass_unlike_others(bytes);
  }
  // The background thread ends, which would have ended the bypass in time: it ends after a number of calls.
  void shorten_bypass();
  void stop_bypass() {
    bypass_round_.store(kAnyRound);
    bypass_calls_.store(0);
  }

  // connect() has returned before the connection is there: the first call that moves data calls connection_made().
  void set_connecting() { connecting_.store(true); }
  bool is_connecting() const { return connecting_.load(std::memory_order_relaxed); }
  bool take_connecting() { return connecting_.load(std::memory_order_relaxed) && connecting_.exchange(false); }
  // SOVIA_ROUTE=pure: whether the first bytes are to be held until the lane is there. True once.
  bool take_hold() { return !has_held_.load(std::memory_order_relaxed) && !has_held_.exchange(true); }
  void set_role(Role role) { role_.store(role); }
  Role role() const { return role_.load(); }

 private:
  void end_bypass_unlike_others(std::uint64_t bytes);

  std::atomic<std::uint32_t> calls_{0}, bursts_{0};
  std::atomic<Direction> burst_direction_{Direction::kSending};
  std::atomic<std::uint64_t> bytes_{0}, burst_bytes_{0};
  std::atomic<std::uint32_t> calls_needed_{0};  // 0: as many as the option says
  std::int32_t burst_calls_ VIADUCT_GUARDED_BY(either_stream) = 0;  // of the last bypass_burst()
  std::atomic<std::int32_t> bypass_calls_{0};
  static constexpr std::uint32_t kAnyRound = 0;
  std::atomic<std::uint32_t> bypass_round_{kAnyRound};
  static std::atomic<std::uint32_t> g_round;
  std::atomic<std::uint64_t> bypass_until_{0};  // the time limit of a bypass due to other connections; 0: none
  std::atomic<Role> role_{Role::kNeither};
  std::atomic<bool> connecting_{false}, has_held_{false};
};

}  // namespace viaduct::sovia

#endif
