// The library's variables of the environment: see vipl(7). getenv(3) is of no use to threads
// of the library, nor to calls that are not known to look there: the program may be changing the
// environment. So it is looked at when a NIC is opened, or once for all (VipxKeepEnvironment).
#ifndef VIADUCT_VIPL_PROCESS_ENVIRONMENT_H
#define VIADUCT_VIPL_PROCESS_ENVIRONMENT_H

#include <cstdint>

#include "kagent/contract/control.h"

namespace viaduct::vipl::environment {

struct Seen {
  char socket[256];  // the agent's, cut off if it is longer than any address can be; empty: the default one
  control::Placement placement;
  bool placement_is_nonsense;
};

// The variables as they are now, or as they were kept. explains() and spin_us() go by the last look().
Seen look();

// From here on look() returns what it sees now. Threads must not look at the same time.
void keep();

// VIADUCT_DEBUG is set.
bool explains();

// VIADUCT_SPIN_US in microseconds, else `recommended_us`.
std::uint64_t spin_us(std::uint64_t recommended_us);

}  // namespace viaduct::vipl::environment

#endif
