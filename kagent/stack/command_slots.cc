#include "kagent/stack/command_slots.h"

#include <cstring>

namespace viaduct {

using layout::CommandBody;
using layout::Op;

template <class Platform>
void CommandSlots<Platform>::finish(std::uint32_t session, std::uint32_t command, vip::Return result) {
  CommandBody body{};
  finish(session, command, result, body);
}

template <class Platform>
void CommandSlots<Platform>::finish(std::uint32_t session, std::uint32_t command, vip::Return result,
                                    const CommandBody& body) {
  state::Pending& under_way = pending(session, command);
  // Notes the number of a new VI for the history.
  if (under_way.asked == Op::kCreateVi) under_way.asked_vi = result == vip::kSuccess ? body.vi : state::kNone;
  history_.command(session, under_way, result);
  if (under_way.op != Op::kNone) {
    under_way.op = Op::kNone;
    wheel_.disarm(command_timer(session, command));
  }
  layout::Command& slot = views_[session].command(command);
  std::memcpy(&slot.body, &body, sizeof body);
  slot.body.result = result;
  slot.state.store(layout::kFinished, std::memory_order_release);
  wakeups_.wake_later(session, slot.sleepers);
}

}  // namespace viaduct
