// The timers, by number. A base of the parts that wait for something.
#ifndef VIADUCT_KAGENT_STACK_TIMERS_H
#define VIADUCT_KAGENT_STACK_TIMERS_H

#include <cstdint>

#include "kagent/contract/session_layout.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timer_wheel.h"

namespace viaduct {

class Timers {
 public:
  explicit Timers(const Tables& tables)
      : wheel_(tables.wheel), requests_(tables.limits.vis),
        goodbyes_(requests_ + tables.limits.requests),
        peers_(goodbyes_ + tables.limits.goodbyes), commands_(peers_ + tables.limits.peers),
        sessions_(tables.limits.sessions) {}

  std::uint32_t vi_timer(ViIndex vi) const { return vi; }
  std::uint32_t request_timer(std::uint32_t r) const { return requests_ + r; }
  std::uint32_t goodbye_timer(std::uint32_t g) const { return goodbyes_ + g; }
  std::uint32_t peer_timer(std::uint32_t p) const { return peers_ + p; }
  std::uint32_t command_timer(std::uint32_t session, std::uint32_t command) const {
    return commands_ + session * layout::kCommands + command;
  }
  std::uint32_t listener_timer() const { return command_timer(sessions_, 0); }

 protected:
  TimerWheel wheel_;

 private:
  std::uint32_t requests_, goodbyes_, peers_, commands_, sessions_;
};

}  // namespace viaduct

#endif
