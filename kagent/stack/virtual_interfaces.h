// Makes, changes and frees VIs.
#ifndef VIADUCT_KAGENT_STACK_VIRTUAL_INTERFACES_H
#define VIADUCT_KAGENT_STACK_VIRTUAL_INTERFACES_H

#include <cstdint>

#include "kagent/stack/completions.h"
#include "kagent/stack/credit_grants.h"
#include "kagent/stack/memory_table.h"
#include "kagent/stack/receiver.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/vi_table.h"
#include "kagent/stack/wakeups.h"

namespace viaduct {

template <class Platform>
class VirtualInterfaces : private ViTable {
 public:
  VirtualInterfaces(const Tables& tables, typename Platform::Environment& environment,
                    Wakeups<Platform>& wakeups, const MemoryTable<Platform>& memory_table,
                    Completions<Platform>& completions, CreditGrants<Platform>& credit_grants,
                    Receiver<Platform>& receiver)
      : ViTable(tables), sessions_(tables.sessions), programs_(tables.programs), cqs_(tables.cqs),
        environment_(environment), wakeups_(wakeups), memory_table_(memory_table),
        completions_(completions), credit_grants_(credit_grants), receiver_(receiver) {}

  vip::Return create_vi(std::uint32_t program, layout::CommandBody& body);
  vip::Return set_vi(std::uint32_t session, const layout::CommandBody& body);
  vip::Return destroy_vi(std::uint32_t session, const layout::CommandBody& body);
  void free_vi(ViIndex vi);
  void set_state(ViIndex vi, vip::State state);
  void reset_transfer(ViIndex vi);

 private:
  vip::Return check_attributes(std::uint32_t session, const layout::ViAttributes& attributes) const;

  state::Session* sessions_;
  state::Program* programs_;
  Pool<state::Cq> cqs_;
  typename Platform::Environment& environment_;
  Wakeups<Platform>& wakeups_;
  MemoryTable<Platform> memory_table_;
  Completions<Platform>& completions_;
  CreditGrants<Platform>& credit_grants_;
  Receiver<Platform>& receiver_;
};

}  // namespace viaduct

#endif
