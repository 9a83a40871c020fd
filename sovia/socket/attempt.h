// The outcome of a call's attempt to move data.
#ifndef VIADUCT_SOVIA_SOCKET_ATTEMPT_H
#define VIADUCT_SOVIA_SOCKET_ATTEMPT_H

#include <cstdint>

namespace viaduct::sovia {

enum class Attempt : std::uint8_t { kDone, kAgain, kFailed, kPollCompletions, kPipe, kBroken, kKernel };

}  // namespace viaduct::sovia

#endif
