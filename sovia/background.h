// The library's one thread: the paper's connection thread and close thread. It opens the NIC and
// lanes, finishes and frees lanes whose sockets are closed, sends small data that has waited long
// enough, and hears the lanes while no thread of the program calls.
//
// It is made at the first lane. All functions may be called by any thread.
#ifndef VIADUCT_SOVIA_BACKGROUND_H
#define VIADUCT_SOVIA_BACKGROUND_H

#include "sovia/reason.h"
#include "sovia/socket.h"

namespace viaduct::sovia {

class LaneEnd;

namespace background {

// A connection that will have no lane itself, but tells that one may soon be wanted: opens the NIC,
// which takes some time.
void prepare(int fd);

// Opens a lane for the socket if it can, at any time from now on (Socket::lane_opened,
// Socket::lane_refused).
void ask(SocketRef socket, int fd);
// Takes that back. When it returns, no lane will come of it; false: it is there already.
bool cancel(Socket& socket);

// The lane has changed in a way that may be the thread's business.
void look_at(LaneEnd& end);
// The socket's lane has broken, and what is left to be done is the thread's.
// `fd`: a copy of its descriptor that is the library's, or -1.
void watch_fall(Socket& socket, int fd);
// Data waits for credits in this process: the thread takes them in soon, if nobody else comes by. What has
// not been posted is lost if the process is killed.
void hurry();
// The lane wants a turn after a moment: small data waits on it.
void flush_later(LaneEnd& end);

// No lane any more, all have been left: ends the thread, and closes the NIC. Returns when that is done, or
// when it takes too long.
void stop();

// At the end of the process: lets what is on its way arrive, as long as it moves.
void farewell();
// The same for sockets that are closed already; the others stay as they are.
void await_closed();

void before_fork();
void after_fork_in_parent();
// The child has no lane and no thread.
void after_fork_in_child();

}  // namespace background
}  // namespace viaduct::sovia

#endif
