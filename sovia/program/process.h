// What happens to sockets when the process forks, runs another program, or ends.
#ifndef VIADUCT_SOVIA_PROGRAM_PROCESS_H
#define VIADUCT_SOVIA_PROGRAM_PROCESS_H

namespace viaduct::sovia::process {

// Watches the process: fork of whatever origin, exit, quick_exit. Once, early; more often does no
// harm.
void watch();

// The process is about to end: all that was sent goes out, lanes end in good order. What is used
// afterwards is the kernel's. Only the first call does something.
void finish();

}  // namespace viaduct::sovia::process

#endif
