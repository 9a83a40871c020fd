// The program installs a filter for system calls (process/seccomp.h).
#ifndef VIADUCT_SOVIA_PROGRAM_SECCOMP_FILTER_H
#define VIADUCT_SOVIA_PROGRAM_SECCOMP_FILTER_H

namespace viaduct::sovia::seccomp {

// A filter is about to be installed: every connection leaves its lane for good, and the library's threads
// end. Keeps errno.
void prepare();

// Whether these arguments of prctl(2), or of seccomp(2), install a filter. A query passes none.
bool installs_by_prctl(int option, unsigned long mode, unsigned long filter);
bool installs(unsigned long operation, unsigned long filter);

}  // namespace viaduct::sovia::seccomp

#endif
