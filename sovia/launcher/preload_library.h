// Where libsovia-preload.so is: as SOVIA_PRELOAD_LIBRARY says, in the build tree that this program
// is in, or where it was installed.
#ifndef VIADUCT_SOVIA_LAUNCHER_PRELOAD_LIBRARY_H
#define VIADUCT_SOVIA_LAUNCHER_PRELOAD_LIBRARY_H

#include <string>

namespace viaduct::sovia::launcher {

// An absolute path; throws std::runtime_error if there is none.
std::string preload_library();

}  // namespace viaduct::sovia::launcher

#endif
