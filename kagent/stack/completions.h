// Completions: writing them into slots, announcing them on completion queues, flushing queues.
#ifndef VIADUCT_KAGENT_STACK_COMPLETIONS_H
#define VIADUCT_KAGENT_STACK_COMPLETIONS_H

#include <cstdint>

#include "kagent/stack/budget.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/vi_table.h"
#include "kagent/stack/wakeups.h"

namespace viaduct {

// The descriptor and the operation of an asynchronous error, besides the VI.
struct Blame {
  std::uint64_t descriptor;  // address in the program, 0: none
  std::uint32_t op;          // layout::SlotOp
  std::uint8_t flags;        // layout::kEvent*
};

template <class Platform>
class Completions : private ViTable {
 public:
  Completions(const Tables& tables, typename Platform::Environment& environment, Budget& budget,
              Wakeups<Platform>& wakeups)
      : ViTable(tables), sessions_(tables.sessions), programs_(tables.programs), cqs_(tables.cqs),
        environment_(environment), budget_(budget), wakeups_(wakeups) {}

  vip::Return create_cq(std::uint32_t program, layout::CommandBody& body);
  vip::Return resize_cq(std::uint32_t session, const layout::CommandBody& body);
  vip::Return destroy_cq(std::uint32_t session, const layout::CommandBody& body);
  void free_cq(std::uint32_t cq);
  state::Cq* find_cq(std::uint32_t session, std::uint32_t cq, std::uint32_t generation) const;
  inline void complete(ViIndex vi, bool receive, std::uint32_t slot, std::uint32_t status,
                       std::uint32_t length, std::uint32_t immediate, std::uint32_t inline_length);
  inline void publish(ViIndex vi, bool receive, std::uint32_t slot, std::uint32_t status,
                      std::uint32_t length, std::uint32_t immediate, std::uint32_t inline_length);
  void drain_backlog(std::uint32_t cq);
  void leave_backlog(ViIndex vi, bool receive);
  // Queues an asynchronous error for the VI's program.
  void report(ViIndex vi, std::uint32_t error, const Blame& blame = Blame());
  void flush_queues(ViIndex vi, std::uint32_t most = layout::kRingEntries);
  void flush_sends(ViIndex vi, std::uint32_t most = layout::kRingEntries);
  void flush_receives(ViIndex vi, std::uint32_t most = layout::kRingEntries);

 private:
  [[gnu::noinline, gnu::cold]] void complete_late(ViIndex vi, std::uint32_t slot, std::uint32_t status,
                                                  std::uint32_t length, std::uint32_t immediate,
                                                  std::uint32_t inline_length);
  inline bool show(ViIndex vi, bool receive);
  void announce(ViIndex vi, bool receive);
  void await_room(std::uint32_t cq);
  void charge_flushed(ViIndex vi, std::uint32_t flushed, std::uint32_t most);
  state::WorkQueue& listed_queue(std::uint32_t listed) {
    return listed % 2 != 0 ? vis_[listed / 2].rx.receive : vis_[listed / 2].tx.send;
  }

  state::Session* sessions_;
  state::Program* programs_;
  Pool<state::Cq> cqs_;
  typename Platform::Environment& environment_;
  Budget& budget_;
  Wakeups<Platform>& wakeups_;
};

}  // namespace viaduct

#endif
