// Random frames of every type that a stack takes, and frames that it does not take.
#ifndef VIADUCT_TESTS_UNIT_VIADUMP_RANDOM_FRAMES_H
#define VIADUCT_TESTS_UNIT_VIADUMP_RANDOM_FRAMES_H

#include <cstddef>
#include <vector>

#include "kagent/contract/wire.h"
#include "tests/sim/sim_port.h"

namespace viaduct::dump {

// A frame of this type with a body as it should be, and its checksum.
std::vector<std::byte> random_frame(SimRandom& random, wire::Type type);

// One that was valid, changed in one of the ways that a receiver looks for. It may still be valid.
std::vector<std::byte> damaged_frame(SimRandom& random, wire::Type type);

}  // namespace viaduct::dump

#endif
