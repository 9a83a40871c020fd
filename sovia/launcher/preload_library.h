// The place of libsovia-preload.so: the one in SOVIA_PRELOAD_LIBRARY, the build tree that this program is in, or the
// place of installation.
#ifndef VIADUCT_SOVIA_LAUNCHER_PRELOAD_LIBRARY_H
#define VIADUCT_SOVIA_LAUNCHER_PRELOAD_LIBRARY_H

#include <string>

namespace viaduct::sovia::launcher {

// An absolute path; throws std::runtime_error if there is none.
std::string preload_library();

}  // namespace viaduct::sovia::launcher

#endif
