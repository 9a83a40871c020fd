#include "kagent/stack/history_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kagent/stack/tables.h"

namespace viaduct {
namespace {

using state::kEventsKept;

const state::EventRing& ring_of(const void* segment, const StackLimits& limits, HistoryOf which) {
  const auto* const base = static_cast<const std::byte*>(segment) + Tables::parts(limits).history;
  const auto& history = *reinterpret_cast<const state::History*>(base);
  return which == HistoryOf::kConnections ? history.connections : history.commands;
}

std::uint64_t count_of(const state::EventRing& ring) { return __atomic_load_n(&ring.count, __ATOMIC_ACQUIRE); }

// Copies word by word, as the stack may be writing in another process.
state::Event copy(const state::Event& shared) {
  constexpr std::size_t kWords = sizeof shared / sizeof(std::uint64_t);
  static_assert(kWords * sizeof(std::uint64_t) == sizeof shared);
  std::uint64_t words[kWords];
  const auto* const from = reinterpret_cast<const std::uint64_t*>(&shared);
  for (std::size_t i = 0; i < kWords; ++i) words[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
  state::Event out;
  std::memcpy(&out, words, sizeof out);
  return out;
}

// The number of the oldest event that is not being written over.
std::uint64_t oldest(std::uint64_t count) { return count < kEventsKept ? 0 : count - kEventsKept + 1; }

}  // namespace

std::uint64_t history_count(const void* segment, const StackLimits& limits, HistoryOf which) {
  return count_of(ring_of(segment, limits, which));
}

HistoryPage read_history(const void* segment, const StackLimits& limits, HistoryOf which, std::uint64_t from,
                         std::size_t most, std::uint64_t now) {
  const state::EventRing& ring = ring_of(segment, limits, which);
  const std::uint64_t count = count_of(ring);
  if (from > count) from = 0;
  const std::uint64_t begin = std::max(from, oldest(count));
  HistoryPage out;
  out.next = begin + std::min<std::uint64_t>(count - begin, most);
  for (std::uint64_t number = begin; number != out.next; ++number) {
    out.events.push_back(copy(ring.events[number % kEventsKept]));
    out.events.back().time = std::min(out.events.back().time, now);
  }
  // Drops events that were overwritten meanwhile. A program may forge the count and let it run backwards. Then no
  // event is dropped, and the reader sees only what that program wrote itself.
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  const std::uint64_t lost = std::min(std::max(oldest(count_of(ring)), begin) - begin, out.next - begin);
  out.events.erase(out.events.begin(), out.events.begin() + static_cast<std::ptrdiff_t>(lost));
  out.missed = begin - from + lost;
  return out;
}

}  // namespace viaduct
