// The host name service: the own table first, then a query to all hosts on the link.
#ifndef VIADUCT_KAGENT_STACK_NAME_SERVICE_H
#define VIADUCT_KAGENT_STACK_NAME_SERVICE_H

#include <cstdint>

#include "kagent/stack/command_slots.h"
#include "kagent/stack/frames_out.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"

namespace viaduct {

// The last two hosts that answered to one name.
struct NameConflict {
  char name[64] = {};  // NUL-terminated
  MacAddress first{}, second{};
};

template <class Platform>
class NameService : private Timers {
 public:
  NameService(const Tables& tables, typename Platform::Port& port,
              typename Platform::Environment& environment, FramesOut<Platform>& frames_out,
              CommandSlots<Platform>& command_slots)
      : Timers(tables), limits_(tables.limits), now_(tables.now), root_(tables.root),
        sessions_(tables.sessions), address_(tables.address), ether_type_(tables.ether_type),
        port_(port), environment_(environment), frames_out_(frames_out),
        command_slots_(command_slots) {}

  void host_by_name(std::uint32_t session, std::uint32_t command, const layout::CommandBody& body);
  void host_by_address(std::uint32_t session, std::uint32_t command,
                       const layout::CommandBody& body);
  void discover(std::uint32_t session, std::uint32_t command, const layout::CommandBody& body);
  vip::Return discovered(std::uint32_t session, layout::CommandBody& body) const;
  void ask_names(std::uint32_t session, std::uint32_t command);
  void on_name_query(const wire::Decoded& frame);
  void on_name_reply(const wire::Decoded& frame);
  const NameConflict& name_conflict() const { return name_conflict_; }

 private:
  void note_second_answer(const state::Pending& answered, const MacAddress& source);

  const StackLimits limits_;
  const std::uint64_t& now_;
  state::Root* root_;
  state::Session* sessions_;
  MacAddress address_;
  std::uint16_t ether_type_;
  typename Platform::Port& port_;
  typename Platform::Environment& environment_;
  FramesOut<Platform>& frames_out_;
  CommandSlots<Platform>& command_slots_;
  NameConflict name_conflict_;
};

}  // namespace viaduct

#endif
