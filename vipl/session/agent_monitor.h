// The library's one thread: it watches the sockets of all sessions and tells those whose agent has
// gone. Started by VipOpenNic, with all signals blocked; it ends when the last NIC has been closed, as the kernel makes
// system calls of processes with several threads dearer.
#ifndef VIADUCT_VIPL_SESSION_AGENT_MONITOR_H
#define VIADUCT_VIPL_SESSION_AGENT_MONITOR_H

namespace viaduct::vipl::agent_monitor {

// All functions but await_end() are called under the registry's lock.

// Starts the thread unless it runs, and makes it look at the sessions again. False if it can't be started.
bool start();

// Makes it look at the sessions again.
void look_again();

// The descriptor that look_again() writes to; -1: none.
int agent_wake();

// Waits until the thread has ended, 0.1 s at most. To be called when no session is left.
void await_end();

// To be called in a forked child: the thread is not there.
void forget();

}  // namespace viaduct::vipl::agent_monitor

#endif
