// The lists of C library calls that libsovia-preload.so handles, by name, for `sovia explain`.
#ifndef VIADUCT_SOVIA_LAUNCHER_CALL_KINDS_H
#define VIADUCT_SOVIA_LAUNCHER_CALL_KINDS_H

#include <string>

namespace viaduct::sovia::launcher {

enum class CallKind {
  kData,        // over the lane once there is one
  kReady,       // waits for lanes and the kernel at once
  kStdio,       // streams on sockets read and write through the library
  kConnection,  // the kernel's, followed by the library
  kDescriptor,
  kProcess,
  kLeaving,     // the kernel's alone: a connection leaves its lane
  kKernel,      // the kernel's alone, with nothing to follow
  kRefused,     // fails, and the program does otherwise
  kLookedUp,    // finds functions at run time
  kUnseen,      // may bypass the library
  kNone,        // has nothing to do with descriptors
};

CallKind kind_of(const std::string& symbol);

}  // namespace viaduct::sovia::launcher

#endif
