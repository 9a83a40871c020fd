// Handles sockets when the process forks, runs another program, or ends.
#ifndef VIADUCT_SOVIA_PROGRAM_PROCESS_H
#define VIADUCT_SOVIA_PROGRAM_PROCESS_H

namespace viaduct::sovia::process {

// Installs handlers for forks of any origin, exit and quick_exit. To be called early; a second call does no harm.
void watch();

// The process is about to end: sends all data, ends lanes in good order. Sockets used afterwards are the kernel's.
// Later calls do nothing.
void finish();

}  // namespace viaduct::sovia::process

#endif
