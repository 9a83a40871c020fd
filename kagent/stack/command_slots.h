// The commands that are under way, and how they finish.
#ifndef VIADUCT_KAGENT_STACK_COMMAND_SLOTS_H
#define VIADUCT_KAGENT_STACK_COMMAND_SLOTS_H

#include <cstdint>

#include "kagent/stack/history.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"
#include "kagent/stack/wakeups.h"

namespace viaduct {

template <class Platform>
class CommandSlots : private Timers {
 public:
  CommandSlots(const Tables& tables, Wakeups<Platform>& wakeups)
      : Timers(tables), views_(tables.views), pendings_(tables.pendings), history_(tables),
        wakeups_(wakeups) {}

  void finish(std::uint32_t session, std::uint32_t command, vip::Return result);
  void finish(std::uint32_t session, std::uint32_t command, vip::Return result,
              const layout::CommandBody& body);
  state::Pending& pending(std::uint32_t session, std::uint32_t command) {
    return pendings_[std::size_t{session} * layout::kCommands + command];
  }

 private:
  layout::View* views_;
  state::Pending* pendings_;
  History history_;
  Wakeups<Platform>& wakeups_;
};

}  // namespace viaduct

#endif
