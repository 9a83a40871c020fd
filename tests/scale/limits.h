// Running into every limit that a NIC states.
#ifndef VIADUCT_TESTS_SCALE_LIMITS_H
#define VIADUCT_TESTS_SCALE_LIMITS_H

#include "tests/scale/link.h"

namespace scale {

// Each limit is reached exactly, gives the right code one further, and can be reached again after
// all has been given back. Prints a line for each; false if any is otherwise.
bool check_limits(const Nic& nic);

}  // namespace scale

#endif
