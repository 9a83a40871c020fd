// Handles sockets when the process forks, runs another program, or ends.
#ifndef VIADUCT_SOVIA_PROGRAM_PROCESS_H
#define VIADUCT_SOVIA_PROGRAM_PROCESS_H

namespace viaduct::sovia::process {

// Watches the process: fork of whatever origin, exit, quick_exit. Once, early; more often does no
// harm.
void watch();

// The process is about to end: sends all data, ends lanes in good order. Sockets used afterwards are the kernel's.
// Only the first call does something.
void finish();

}  // namespace viaduct::sovia::process

#endif
