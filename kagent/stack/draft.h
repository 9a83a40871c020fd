// The message that a dead program had not posted yet: layout::Draft as the driver finds it.
#ifndef VIADUCT_KAGENT_STACK_DRAFT_H
#define VIADUCT_KAGENT_STACK_DRAFT_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kagent/contract/session_layout.h"

namespace viaduct {

struct Draft {
  std::uint32_t immediate = 0, bytes = 0;  // bytes 0: there is none
  const std::byte* data = nullptr;         // in the segment

  // The draft of a VI all of whose messages before `position` of the send queue were sent. None if more is missing.
  static Draft of(const layout::View& view, std::uint32_t vi, std::uint32_t generation, std::uint32_t position) {
    const std::uint64_t posted =
        view.send_ring(vi)[position % layout::kRingEntries].word.load(std::memory_order_acquire);
    if (layout::ring_word_is(posted, position, generation) ||
        view.vi(vi).send.more.load(std::memory_order_acquire) == generation) {
      return {};
    }
    const layout::Draft& shared = view.draft(vi);
    const std::uint64_t word = shared.word.load(std::memory_order_acquire);
    const auto bytes = static_cast<std::uint32_t>(word);
    if (word >> 32 != generation || bytes > layout::kMaxDraft) return {};
    return {__atomic_load_n(&shared.immediate, __ATOMIC_RELAXED), bytes, shared.data};
  }
};

}  // namespace viaduct

#endif
