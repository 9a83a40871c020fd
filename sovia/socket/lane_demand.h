// Whether a connection is worth a lane by now: the calls that have moved data, and how many it takes.
//
// A connection that was refused a lane bypasses the library: until it asks again, after so many calls that move data,
// calls are the kernel's alone.
#ifndef VIADUCT_SOVIA_SOCKET_LANE_DEMAND_H
#define VIADUCT_SOVIA_SOCKET_LANE_DEMAND_H

#include <atomic>
#include <cstdint>

#include "sovia/socket/peer_history.h"

namespace viaduct::sovia {

class LaneDemand {
 public:
  // A call has moved so many bytes by the kernel. Whether the connection is worth a lane.
  bool count(std::uint64_t bytes);
  // The next try comes after twice as many calls as the last.
  void put_off();
  // So many calls from now on; 0: as the options say.
  void need(std::uint32_t calls) { calls_needed_ = calls; }
  void forget_calls() { calls_.store(0); }
  void forget_all();
  // Whether no lane is to be had for some time.
  bool was_refused() const { return calls_needed_ != 0; }

  bool bypasses() const { return bypass_calls_.load() > 0; }
  void begin_bypass();
  // It bypasses because of what is known of other connections with the peer: only as long as it is like them.
  void limit_bypass();
  void count_bypass(std::uint64_t bytes) {
    bypass_calls_.fetch_sub(1);
    if (bypass_until_.load(std::memory_order_relaxed) != 0) end_bypass_unlike_others(bytes);
  }
  void stop_bypass() { bypass_calls_.store(0); }

  // connect() goes on by itself: the first call that moves data asks as connection_made() does.
  void set_connecting() { connecting_.store(true); }
  bool take_connecting() { return connecting_.load(std::memory_order_relaxed) && connecting_.exchange(false); }
  void set_role(Role role) { role_.store(role); }
  Role role() const { return role_.load(); }

 private:
  void end_bypass_unlike_others(std::uint64_t bytes);

  std::atomic<std::uint32_t> calls_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::uint32_t calls_needed_ = 0;  // 0: the option's
  std::atomic<std::int32_t> bypass_calls_{0};
  std::atomic<std::uint64_t> bypass_until_{0};  // 0, or for as long as it bypasses because of other connections
  std::atomic<Role> role_{Role::kNeither};
  std::atomic<bool> connecting_{false};
};

}  // namespace viaduct::sovia

#endif
