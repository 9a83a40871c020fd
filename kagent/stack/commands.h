// Control operations: what programs ask for through command slots.
//
// A command's body is copied out of the shared segment once and only the copy is looked at. A slot
// whose command is still under way is left alone until it has finished.
#ifndef VIADUCT_KAGENT_STACK_COMMANDS_H
#define VIADUCT_KAGENT_STACK_COMMANDS_H

#include <cstdint>

#include "kagent/stack/budget.h"
#include "kagent/stack/claim_table.h"
#include "kagent/stack/command_slots.h"
#include "kagent/stack/completions.h"
#include "kagent/stack/connections.h"
#include "kagent/stack/memory_table.h"
#include "kagent/stack/name_service.h"
#include "kagent/stack/processes.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/vi_table.h"
#include "kagent/stack/virtual_interfaces.h"

namespace viaduct {

template <class Platform>
class Commands : private ViTable {
 public:
  Commands(const Tables& tables, Budget& budget, CommandSlots<Platform>& command_slots,
           const MemoryTable<Platform>& memory_table, Completions<Platform>& completions,
           VirtualInterfaces<Platform>& virtual_interfaces, Connections<Platform>& connections,
           NameService<Platform>& name_service, ClaimTable<Platform>& claim_table,
           Processes<Platform>& processes)
      : ViTable(tables), programs_(tables.programs), budget_(budget), command_slots_(command_slots),
        memory_table_(memory_table), completions_(completions),
        virtual_interfaces_(virtual_interfaces), connections_(connections),
        name_service_(name_service), claim_table_(claim_table), processes_(processes) {}

  void run_command(std::uint32_t session, std::uint32_t command);
  void cancel_command(std::uint32_t session, std::uint32_t command, vip::Return result);
  void command_timeout(std::uint32_t session, std::uint32_t command);
  void drop_commands(std::uint32_t program);

 private:
  bool begin(std::uint32_t session, std::uint32_t command, layout::CommandBody& body);
  vip::Return execute(std::uint32_t session, std::uint32_t program, layout::CommandBody& body);

  state::Program* programs_;
  Budget& budget_;
  CommandSlots<Platform>& command_slots_;
  MemoryTable<Platform> memory_table_;
  Completions<Platform>& completions_;
  VirtualInterfaces<Platform>& virtual_interfaces_;
  Connections<Platform>& connections_;
  NameService<Platform>& name_service_;
  ClaimTable<Platform>& claim_table_;
  Processes<Platform>& processes_;
};

}  // namespace viaduct

#endif
