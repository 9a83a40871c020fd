// The confinement of a process that shares the program's memory but not its later credentials: code that the program, or
// an intruder in it, puts there must gain nothing by running in that process.
#ifndef VIADUCT_VIPL_PROCESS_CONFINEMENT_H
#define VIADUCT_VIPL_PROCESS_CONFINEMENT_H

namespace viaduct::vipl {

// Closes all descriptors of the process but these, which get sorted. False: the kernel can't do it at once.
bool close_all_but(int* fds, int count);

// Forbids the calling thread, for good, all system calls but those that serve descriptors which it has. False: the kernel
// does not allow it.
bool confine();

}  // namespace viaduct::vipl

#endif
