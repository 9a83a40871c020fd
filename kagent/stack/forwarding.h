// Sends connection requests on to the programs with stacks of their own that have published a
// listener: request_targets.h shows how.
#ifndef VIADUCT_KAGENT_STACK_FORWARDING_H
#define VIADUCT_KAGENT_STACK_FORWARDING_H

#include <cstdint>

#include "kagent/stack/connect_requests.h"
#include "kagent/stack/frames_out.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"

namespace viaduct {

template <class Platform>
class Forwarding : private Timers {
 public:
  Forwarding(const Tables& tables, typename Platform::Environment& environment,
             FramesOut<Platform>& frames_out, ConnectRequests<Platform>& connect_requests)
      : Timers(tables), now_(tables.now), root_(tables.root), sessions_(tables.sessions),
        requests_(tables.requests), views_(tables.views), open_sessions_(tables.open_sessions),
        open_count_(tables.open_count), environment_(environment), frames_out_(frames_out),
        connect_requests_(connect_requests) {}

  void send_request_answer(const state::Request& request, wire::Type type, std::uint32_t detail);
  void delegate(std::uint32_t session, const MacAddress& address);
  bool move_request(const MacAddress& source, const wire::ConnectBody& body);
  void move_held_requests();

 private:
  bool has_listener(std::uint32_t session, const wire::ConnectBody& body);

  const std::uint64_t& now_;
  state::Root* root_;
  state::Session* sessions_;
  Pool<state::Request> requests_;
  layout::View* views_;
  std::uint32_t* open_sessions_;
  const std::uint32_t& open_count_;
  typename Platform::Environment& environment_;
  FramesOut<Platform>& frames_out_;
  ConnectRequests<Platform>& connect_requests_;
};

}  // namespace viaduct

#endif
