// Notes what happens, for operators' tools. Nothing of it is in the way of data: connections and commands
// are rare, and losses are told of at most every 100 ms.
#ifndef VIADUCT_KAGENT_STACK_HISTORY_H
#define VIADUCT_KAGENT_STACK_HISTORY_H

#include <atomic>
#include <cstdint>

#include "kagent/contract/session_layout.h"
#include "kagent/contract/vip_codes.h"
#include "kagent/stack/tables.h"

namespace viaduct {

class History {
 public:
  static constexpr std::uint64_t kLossesEveryNs = 100'000'000;

  explicit History(const Tables& tables) : now_(tables.now), vis_(tables.vis), history_(*tables.history) {}

  [[gnu::noinline, gnu::cold]] void connection(state::Happened what, ViIndex vi, std::uint32_t code) {
    put(history_.connections, of_vi(what, vi, code));
  }

  // `count`: for kLoss, the frames; for kTimeout, how many timeouts there were in a row.
  [[gnu::noinline, gnu::cold]] void loss(state::Happened what, ViIndex vi, std::uint32_t count) {
    if (now_ < history_.next_loss) {
      if (what == state::Happened::kLoss) history_.losses_held_back += count;
      return;
    }
    history_.next_loss = now_ + kLossesEveryNs;
    state::Event event = of_vi(what, vi, 0);
    event.count = count;
    if (what == state::Happened::kLoss) {
      event.count += history_.losses_held_back;
      history_.losses_held_back = 0;
    }
    put(history_.connections, event);
  }

  [[gnu::noinline]] void command(std::uint32_t session, const state::Pending& command, vip::Return result) {
    state::Event event{};
    event.session = session;
    event.program = command.program;
    event.vi = command.asked_vi;
    event.what = state::Happened::kCommand;
    event.op = static_cast<std::uint16_t>(command.asked);
    event.code = result;
    event.waited = now_ - command.asked_at;
    put(history_.commands, event);
  }

 private:
  state::Event of_vi(state::Happened what, ViIndex i, std::uint32_t code) const {
    const state::Vi& vi = vis_[i];
    state::Event event{};
    event.session = vi.session;
    event.program = vi.program;
    event.vi = i;
    event.what = what;
    event.code = code;
    event.peer = vi.link.peer_address;
    return event;
  }

  // Readers in other processes see an event only when it is whole; and know that the oldest may be
  // being written over.
  void put(state::EventRing& ring, const state::Event& event) const {
    state::Event& place = ring.events[ring.count % state::kEventsKept];
    place = event;
    place.time = now_;
    __atomic_store_n(&ring.count, ring.count + 1, __ATOMIC_RELEASE);
  }

  const std::uint64_t& now_;
  const Pool<state::Vi> vis_;
  state::History& history_;
};

}  // namespace viaduct

#endif
