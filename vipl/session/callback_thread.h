// Handlers of the program: which are called for what, and the thread that calls them.
//
// A session gets such a thread when it first needs one (a VI, an error handler, a notification). The
// thread sleeps until the driver, or the library itself, alerts it (SLEEPING in session_layout.h).
// While it is in a handler it is in no session: handlers may block for ever, close the NIC, or end
// the process.
#ifndef VIADUCT_VIPL_SESSION_CALLBACK_THREAD_H
#define VIADUCT_VIPL_SESSION_CALLBACK_THREAD_H

#include "vipl/session/session.h"

namespace viaduct::vipl::callback_thread {

// All functions are called inside the session (SessionGuard).

// Makes sure that the thread runs. False if it can't be made.
bool start(Session& session) VIADUCT_EXCLUDES(session.notify_lock);

// Sets the handler for asynchronous errors; nullptr: the default one.
void set_error_handler(Session& session, VIP_ERROR_HANDLER handler, void* context)
    VIADUCT_EXCLUDES(session.lock);

// Asks for one call when the queue has completed something more. VIP_SUCCESS or
// VIP_ERROR_RESOURCE.
VIP_RETURN notify(Session& session, const Notification& wanted) VIADUCT_EXCLUDES(session.notify_lock);

// Forgets the calls asked for with this VI or CQ.
void cancel(Session& session, Handle object) VIADUCT_EXCLUDES(session.notify_lock);

// An error that the library itself has found. `op`: as in layout::ErrorEvent.
void raise(Session& session, VIP_VI_HANDLE vi, VIP_RESOURCE_CODE resource, VIP_ERROR_CODE code,
           VIP_ULONG op) VIADUCT_EXCLUDES(session.lock);

}  // namespace viaduct::vipl::callback_thread

#endif
