// The library's one thread: the paper's connection thread and close thread. It opens the NIC and
// lanes, finishes and frees lanes whose sockets are closed, sends small data that has waited long
// enough, and hears the lanes while no thread of the program calls.
//
// It is made at the first request (socket/background_requests.h). All functions may be called by any thread.
#ifndef VIADUCT_SOVIA_BACKGROUND_BACKGROUND_H
#define VIADUCT_SOVIA_BACKGROUND_BACKGROUND_H

namespace viaduct::sovia::background {

// When the library is loaded, before anything is asked of the thread (socket/background_requests.h).
void begin();

// No lane any more, all have been left: ends the thread, and closes the NIC. Returns when that is done, or
// when it takes too long.
void stop();
// After stop(): there may be lanes again.
void resume();

// At the end of the process: lets what is on its way arrive, as long as it moves.
void farewell();
// The same for sockets that are closed already; the others stay as they are.
void await_closed();

void before_fork();
void after_fork_in_parent();
// The child has no lane and no thread.
void after_fork_in_child();

}  // namespace viaduct::sovia::background

#endif
