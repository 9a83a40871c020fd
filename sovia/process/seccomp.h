// Programs that forbid themselves system calls. A lane needs more of them, and threads of the library's, so
// whoever asks for a filter has left its lanes before: from then on each call of a plain program is one
// of the kernel's, the same.
#ifndef VIADUCT_SOVIA_PROCESS_SECCOMP_H
#define VIADUCT_SOVIA_PROCESS_SECCOMP_H

#include <atomic>

namespace viaduct::sovia::seccomp {

extern constinit std::atomic<bool> g_in_force;

// No more lanes, and no system call that the program has not made itself where it can be helped.
inline bool in_force() { return g_in_force.load(std::memory_order_relaxed); }

// A filter is about to be installed: every connection leaves its lane for good, and the library's threads
// end. Keeps errno.
void prepare();

// Whether these arguments of prctl(2), or of seccomp(2), install one. Who asks what there is gives no filter.
bool installs_by_prctl(int option, unsigned long mode, unsigned long filter);
bool installs(unsigned long operation, unsigned long filter);

}  // namespace viaduct::sovia::seccomp

#endif
