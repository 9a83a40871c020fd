// The state of a stack, here and in the headers ..._state.h. All of it lies in one segment of fixed
// size, refers to other parts by index, and is written by the driver alone. Nothing of it is ever
// visible to a program.
#ifndef VIADUCT_KAGENT_STACK_STATE_H
#define VIADUCT_KAGENT_STACK_STATE_H

#include <cstdint>

#include "kagent/contract/wire.h"

namespace viaduct::state {

inline constexpr std::uint32_t kNone = 0xffffffff;
inline constexpr std::uint32_t kBuckets = 1024;     // of peers, requests and goodbyes each
inline constexpr std::uint32_t kBucketMask = kBuckets - 1;
// Handles of what may go away: index + 1 in the low bits, so never 0; generation above.
inline constexpr std::uint32_t kHandleBits = 20;
inline constexpr std::uint32_t kWindow = wire::kSackBits;  // frames in flight on a VI at most

// Free list of an array: items given back first, then items never used, so that what is never
// needed is never touched.
struct PoolHead {
  std::uint32_t free;
  std::uint32_t fresh;
  std::uint32_t used;
};

// How frames of a connection get to the peer. kSameHost: by the port, but a local path may come; kLocal: data,
// acknowledgements and the connection's end take the local path; kByKernel: the local path could not be taken.
enum class Path : std::uint8_t { kNetwork, kSameHost, kLocal, kByKernel };

}  // namespace viaduct::state

#endif
