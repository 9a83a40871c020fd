// The library's one thread: it watches the sockets of all sessions and tells those whose agent has
// gone. Started by VipOpenNic, with all signals blocked; it ends when the last NIC has been closed, as the kernel makes
// system calls of processes with several threads dearer.
#ifndef VIADUCT_VIPL_SESSION_AGENT_MONITOR_H
#define VIADUCT_VIPL_SESSION_AGENT_MONITOR_H

#include "vipl/session/registry_lock.h"

namespace viaduct::vipl::agent_monitor {

// Starts the thread unless it runs, and makes it look at the sessions again. False if it can't be started.
bool start() VIADUCT_REQUIRES(registry::g_lock);

// Makes it look at the sessions again.
void look_again() VIADUCT_REQUIRES(registry::g_lock);

// The descriptor that look_again() writes to; -1: none.
int agent_wake() VIADUCT_REQUIRES(registry::g_lock);

// Waits until the thread has ended, 0.1 s at most. To be called when no session is left.
void await_end() VIADUCT_EXCLUDES(registry::g_lock);

// To be called in a forked child: the thread is not there.
void forget() VIADUCT_REQUIRES(registry::g_lock);

}  // namespace viaduct::vipl::agent_monitor

#endif
