// Programs that forbid themselves system calls. A lane needs further system calls and threads of the library, so a
// program leaves its lanes before it installs a filter. From then on each of its calls is the kernel's call of that
// name.
#ifndef VIADUCT_SOVIA_PROCESS_SECCOMP_H
#define VIADUCT_SOVIA_PROCESS_SECCOMP_H

#include <atomic>

namespace viaduct::sovia::seccomp {

inline constinit std::atomic<bool> g_in_force{false};

// True: the library opens no more lanes and, as far as possible, makes no system calls that the program has not made
// itself.
inline bool in_force() { return g_in_force.load(std::memory_order_relaxed); }

}  // namespace viaduct::sovia::seccomp

#endif
