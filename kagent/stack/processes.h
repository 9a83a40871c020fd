// Processes that attach to a session, what they share and what they leave.
//
//   open_session --> first program ----------------------leave()--> gone --no inheriting process left--> forgotten
//   join() --------> another one: has a copy of what its parent had registered --leave()--^
//
// A VI belongs to one program at a time, and with it its CQs: descriptors posted there, and a peer's
// RDMA, mean that program's memory. take_vi() changes whose it is.
//
// Registered memory belongs to the program that has registered it, and to programs that have a copy of it because
// they were forked later. Each fork of a member raises Header::forks first, so a region is inherited if it bears a
// smaller number than the fork.
#ifndef VIADUCT_KAGENT_STACK_PROCESSES_H
#define VIADUCT_KAGENT_STACK_PROCESSES_H

#include <atomic>
#include <cstdint>
#include <optional>

#include "kagent/stack/budget.h"
#include "kagent/stack/connect_requests.h"
#include "kagent/stack/forwarding.h"
#include "kagent/stack/memory_table.h"
#include "kagent/stack/placer.h"
#include "kagent/stack/receiver.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/vi_table.h"
#include "kagent/stack/wakeups.h"

namespace viaduct {

template <class Platform>
class Processes : private ViTable {
 public:
  Processes(const Tables& tables, typename Platform::Environment& environment, Budget& budget,
            Wakeups<Platform>& wakeups, const MemoryTable<Platform>& memory_table, Placer<Platform>& placer,
            Receiver<Platform>& receiver, ConnectRequests<Platform>& connect_requests,
            Forwarding<Platform>& forwarding)
      : ViTable(tables), sessions_(tables.sessions), programs_(tables.programs),
        members_(tables.members), cqs_(tables.cqs), regions_(tables.regions),
        requests_(tables.requests), environment_(environment), budget_(budget), wakeups_(wakeups),
        memory_table_(memory_table), placer_(placer), receiver_(receiver),
        connect_requests_(connect_requests), forwarding_(forwarding) {}

  void begin_program(std::uint32_t program, std::uint32_t session, std::uint32_t member);
  std::uint32_t program_of(std::uint32_t session, std::uint32_t member) const;
  std::optional<std::uint32_t> join(std::uint32_t session, std::uint32_t parent_id,
                                    std::uint32_t forks);
  vip::Return take_vi(std::uint32_t program, const layout::CommandBody& body);
  void drop_requests(std::uint32_t session, std::uint32_t program);
  void free_locks(std::uint32_t program);
  void forget_program(std::uint32_t program);

 private:
  vip::Return may_take(std::uint32_t program, const layout::CommandBody& body) const;
  // Copies received data, and goes on where an earlier try has stopped.
  struct HandOver {
    const state::Vi& vi;
    const state::Vi& heir;
    std::uint32_t done;    // bytes that earlier tries have copied
    std::uint32_t passed;  // bytes in front of what is looked at
  };
  vip::Return copy_received(HandOver& all, std::uint32_t slot, std::uint32_t length);
  vip::Return copy_all_received(HandOver& all);
  vip::Return hand_over_received(const state::Vi& vi, const state::Vi& heir);
  void free_lock(std::atomic<std::uint32_t>& lock, std::uint32_t member);

  state::Session* sessions_;
  state::Program* programs_;
  Pool<state::Program> members_;
  Pool<state::Cq> cqs_;
  Pool<state::Region> regions_;
  Pool<state::Request> requests_;
  typename Platform::Environment& environment_;
  Budget& budget_;
  Wakeups<Platform>& wakeups_;
  MemoryTable<Platform> memory_table_;
  Placer<Platform>& placer_;
  Receiver<Platform>& receiver_;
  ConnectRequests<Platform>& connect_requests_;
  Forwarding<Platform>& forwarding_;
};

}  // namespace viaduct

#endif
