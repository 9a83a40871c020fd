// Reads what has happened in a stack (kagent/stack/history_state.h): of the agent's own, or of a granted one,
// which may hold nonsense and may change meanwhile.
#ifndef VIADUCT_KAGENT_STACK_HISTORY_READER_H
#define VIADUCT_KAGENT_STACK_HISTORY_READER_H

#include <cstdint>
#include <vector>

#include "kagent/contract/stack_limits.h"
#include "kagent/stack/history_state.h"

namespace viaduct {

enum class HistoryOf { kConnections, kCommands };

struct HistoryPage {
  std::vector<state::Event> events;  // the oldest first; no time is later than now
  std::uint64_t next = 0;            // where to go on
  std::uint64_t missed = 0;          // events between `from` and the first one that is still kept
};

// How many events there have been: cheap.
std::uint64_t history_count(const void* segment, const StackLimits& limits, HistoryOf which);

// Reads events from number `from` on, at most `most`. A `from` that is yet to come is the number of an earlier stack:
// then all events are read.
HistoryPage read_history(const void* segment, const StackLimits& limits, HistoryOf which, std::uint64_t from,
                         std::size_t most, std::uint64_t now);

}  // namespace viaduct

#endif
