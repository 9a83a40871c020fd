// The VIs, and what their programs have posted. A base of the parts that work on VIs.
#ifndef VIADUCT_KAGENT_STACK_VI_TABLE_H
#define VIADUCT_KAGENT_STACK_VI_TABLE_H

#include <cstddef>
#include <cstdint>

#include "kagent/contract/session_layout.h"
#include "kagent/stack/tables.h"

namespace viaduct {

class ViTable {
 protected:
  explicit ViTable(const Tables& tables)
      : limits_(tables.limits), now_(tables.now), root_(tables.root), vis_(tables.vis),
        views_(tables.views), in_flight_(tables.in_flight), responses_(tables.responses),
        resent_marks_(tables.resent_marks), delays_(tables.delays) {}

  const layout::View& view(const state::Vi& vi) const { return views_[vi.program]; }
  layout::Capacity capacity() const { return {limits_.vis, limits_.cqs, limits_.slots, 0}; }
  state::InFlight& in_flight(ViIndex vi, std::uint32_t position) const {
    return in_flight_[std::size_t{vi} * state::kWindow + position % state::kWindow];
  }
  state::Delay& delay(ViIndex vi) const { return delays_[vi]; }
  state::Response& response(ViIndex vi, std::uint32_t number) const {
    return responses_[std::size_t{vi} * state::kMaxReads + number % state::kMaxReads];
  }
  std::uint32_t& resent_mark(ViIndex vi, std::uint32_t psn) const {
    return resent_marks_[std::size_t{vi} * state::kWindow + psn % state::kWindow];
  }

  // A generation of 0 means whichever.
  state::Vi* find_vi(std::uint32_t session, std::uint32_t i, std::uint32_t generation) const {
    if (i >= vis_.fresh()) return nullptr;
    auto& vi = const_cast<state::Vi&>(vis_[i]);
    const bool right = generation == 0 || vi.generation == generation;
    return vi.session == session && right ? &vi : nullptr;
  }

  // The slot at a position of a work queue's ring, if one is posted there.
  bool next_posted(const state::Vi& vi, const layout::RingEntry* ring, std::uint32_t position,
                   std::uint32_t& slot) const {
    const std::uint64_t word =
        ring[position % layout::kRingEntries].word.load(std::memory_order_acquire);
    if (!layout::ring_word_is(word, position, vi.generation)) return false;
    slot = layout::ring_word_slot(word);
    return slot < limits_.slots;
  }

  const StackLimits limits_;
  const std::uint64_t& now_;
  state::Root* root_;
  Pool<state::Vi> vis_;
  layout::View* views_;
  state::InFlight* in_flight_;
  state::Response* responses_;
  std::uint32_t* resent_marks_;
  state::Delay* delays_;
};

}  // namespace viaduct

#endif
