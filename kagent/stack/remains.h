// Connections that the stack of a dead program has left behind.
#ifndef VIADUCT_KAGENT_STACK_REMAINS_H
#define VIADUCT_KAGENT_STACK_REMAINS_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kagent/contract/session_layout.h"
#include "kagent/contract/stack_limits.h"
#include "kagent/contract/wire.h"

namespace viaduct {

struct Remains {
  MacAddress peer;
  std::uint32_t vi;        // the peer's
  std::uint64_t key;       // that frames to it must carry
  std::uint32_t psn, ack;  // as a last DISCONNECT tells them
};

// How many remains() there are at most.
std::size_t most_remains(const void* segment, const StackLimits& limits);

// Connections to which the dead stack has not said goodbye, as many as `out` has room for. `segment` (footprint(limits)
// bytes) may hold nonsense and may change while it is read. `rings`: the program's, if there are any; if something there
// is in no frame, psn is one more. Returns how many.
std::size_t remains(const void* segment, const StackLimits& limits, std::span<Remains> out,
                    const layout::View& rings = {});

// The connection with this VI and key, of a stack that may still be at work.
std::optional<Remains> connection_of(const void* segment, const StackLimits& limits,
                                     std::uint32_t vi, std::uint64_t key);
// A count that grows at least every limits.keepalive_ns while a stack that has a connection is driven.
std::uint64_t beats_of(const void* segment, const StackLimits& limits);

}  // namespace viaduct

#endif
