// The end of the process: programs end without disconnecting and rely on what they have posted
// going out all the same.
#ifndef VIADUCT_VIPL_PROCESS_EXIT_DRAIN_H
#define VIADUCT_VIPL_PROCESS_EXIT_DRAIN_H

namespace viaduct::vipl::exit_drain {

// To be called when a session is opened. At its clean end (exit, return from main) this process then waits, half a
// second at most, until what it has posted on connected VIs has been sent. A child that it forks does not wait, nor
// does a process that is killed or calls _exit.
void prepare();

// Whether the end has come. The program's objects may be gone: no handler is called any more.
bool begun();

}  // namespace viaduct::vipl::exit_drain

#endif
