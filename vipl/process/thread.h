// The library's own threads.
#ifndef VIADUCT_VIPL_PROCESS_THREAD_H
#define VIADUCT_VIPL_PROCESS_THREAD_H

#include <signal.h>

#include <cstddef>

namespace viaduct::vipl {

// All signals but those that a thread brings on itself by a fault: a program may handle the latter, and if they are
// blocked they end it.
sigset_t all_but_faults();

// Starts a detached thread with all_but_faults() blocked. stack_bytes 0: as the system likes it; else that, or more
// if it can't be so little. False if it can't be started.
bool make_thread(void* (*run)(void*), void* argument, std::size_t stack_bytes);

// Waits until the kernel has no thread any more that was made with this argument and is about to end; 0.1 s at most. The
// C library calls madvise() at the end of a thread: a program that unloads what it has put in the place of that
// function must find no such thread. Does not wait for the calling thread.
void await_thread_end(const void* argument);

// Has `call` called with `argument`, which is not NULL, when the calling thread ends. There is one `call` for all
// threads; the first calls of this function must not be at the same time. If the process has no room for it, nothing
// is called.
void at_thread_end(void (*call)(void*), void* argument);

}  // namespace viaduct::vipl

#endif
