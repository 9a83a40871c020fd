// Protection tags and registered memory, and what may be done to it.
#ifndef VIADUCT_KAGENT_STACK_MEMORY_TABLE_H
#define VIADUCT_KAGENT_STACK_MEMORY_TABLE_H

#include <cstdint>

#include "kagent/stack/tables.h"

// For functions that the data path calls rarely. They save all registers themselves, so that the caller pays nothing
// while it does not call them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define VIADUCT_KEEPS_REGISTERS \
  [[gnu::noinline, gnu::cold, gnu::no_caller_saved_registers, gnu::target("general-regs-only")]]
#else
#define VIADUCT_KEEPS_REGISTERS [[gnu::noinline, gnu::cold]]
#endif

namespace viaduct {

template <class Platform>
class MemoryTable {
 public:
  MemoryTable(const Tables& tables, typename Platform::Environment& environment)
      : limits_(tables.limits), sessions_(tables.sessions), programs_(tables.programs),
        regions_(tables.regions), ptags_(tables.ptags), views_(tables.views),
        environment_(environment) {}

  vip::Return create_ptag(std::uint32_t session, layout::CommandBody& body);
  state::Ptag* find_ptag(std::uint32_t session, std::uint32_t handle) const;
  vip::Return destroy_ptag(std::uint32_t session, const layout::CommandBody& body);
  void hold_ptag(std::uint32_t session, std::uint32_t handle, int change);
  vip::Return register_memory(std::uint32_t program, layout::CommandBody& body);
  void free_region(state::Region& region);
  vip::Return deregister_memory(std::uint32_t program, const layout::CommandBody& body);
  vip::Return query_memory(std::uint32_t program, layout::CommandBody& body) const;
  vip::Return set_memory(std::uint32_t program, const layout::CommandBody& body);
  inline bool span_allowed(const state::Vi& vi, std::uint64_t address, std::uint32_t handle,
                           std::uint64_t length) const;
  bool rdma_allowed(const state::Vi& vi, std::uint64_t address, std::uint32_t handle,
                    std::uint64_t length, bool write) const;

 private:
  bool charge_region(std::uint32_t session, std::uint64_t bytes);
  void discharge_region(std::uint32_t session, std::uint64_t bytes);
  VIADUCT_KEEPS_REGISTERS bool inherits(std::uint32_t program, const state::Region& region) const;
  inline state::Region* find_region(std::uint32_t program, std::uint32_t handle) const;
  state::Region* own_region(std::uint32_t program, const layout::CommandBody& body) const;

  const StackLimits limits_;
  state::Session* sessions_;
  state::Program* programs_;
  Pool<state::Region> regions_;
  Pool<state::Ptag> ptags_;
  layout::View* views_;
  typename Platform::Environment& environment_;
};

}  // namespace viaduct

#endif
