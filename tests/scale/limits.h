// Running into every limit that a NIC states.
#ifndef VIADUCT_TESTS_SCALE_LIMITS_H
#define VIADUCT_TESTS_SCALE_LIMITS_H

#include <string>

namespace scale {

// Each limit is reached exactly, gives the right code one further, and can be reached again after
// all has been given back. Prints a line for each; false if any is otherwise.
bool check_limits(const std::string& device);

}  // namespace scale

#endif
