// Disconnects that wait for the peer's answer. The disconnecting VI is free at once; a goodbye record
// repeats its DISCONNECT.
//
//   Disconnect     -> DISCONNECT (repeated) --------->  Error, queues flushed
//                <--- DISCONNECT_ACK
#ifndef VIADUCT_KAGENT_STACK_DISCONNECTS_H
#define VIADUCT_KAGENT_STACK_DISCONNECTS_H

#include <cstdint>

#include "kagent/stack/frames_out.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"

namespace viaduct {

template <class Platform>
class Disconnects : private Timers {
 public:
  Disconnects(const Tables& tables, FramesOut<Platform>& frames_out)
      : Timers(tables), now_(tables.now), root_(tables.root), goodbyes_(tables.goodbyes),
        goodbye_buckets_(tables.goodbye_buckets), frames_out_(frames_out) {}

  void say_goodbye(const state::Vi& vi, std::uint32_t psn, std::uint32_t reason,
                   std::uint32_t index = 0);
  void goodbye_timeout(std::uint32_t goodbye);
  void on_disconnect_ack(const wire::Decoded& frame);
  void send_reset(const wire::Decoded& offending);

 private:
  void send_goodbye(std::uint32_t goodbye);

  const std::uint64_t& now_;
  state::Root* root_;
  Pool<state::Goodbye> goodbyes_;
  std::uint32_t* goodbye_buckets_;
  FramesOut<Platform>& frames_out_;
};

}  // namespace viaduct

#endif
