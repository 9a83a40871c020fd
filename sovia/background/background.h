// The library's one thread: the paper's connection thread and close thread. It opens the NIC and
// lanes, finishes and frees lanes whose sockets are closed, sends small data that has waited long
// enough, and hears the lanes while no thread of the program calls.
//
// The thread is made at the first request (requests.h). All functions may be called by any thread.
#ifndef VIADUCT_SOVIA_BACKGROUND_BACKGROUND_H
#define VIADUCT_SOVIA_BACKGROUND_BACKGROUND_H

namespace viaduct::sovia::background {

// To be called when the library is loaded, before the first request to the thread (requests.h).
void begin();

// Ends the thread and closes the NIC, after all lanes have been left. Returns when that is done, or when it takes too
// long.
void stop();
// After stop(): there may be lanes again.
void resume();

// At the end of the process: waits until data on its way has arrived, as long as some of it moves.
void farewell();
// As farewell(), but only for sockets that are closed already; the others stay as they are.
void await_closed();

void before_fork();
void after_fork_in_parent();
// The child has no lane and no thread.
void after_fork_in_child();

}  // namespace viaduct::sovia::background

#endif
