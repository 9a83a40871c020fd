// Granted sessions whose agent has gone without ending them.
//
//   session --agent's socket ends--> detached --an agent adopts it--> session
//                                      \--it refuses, or none in time--> lost
//
// The stack is the program's own, and so is the port: connections go on. Traffic of the control
// session (commands for the agent; requests, which it sends on) waits. Every 50 ms another
// agent is asked to adopt the session. Its new segment, agent wake, poll wake and socket take the
// place of the old ones, under the same address and the same numbers: threads in the middle of a call
// need not know, but a thread that has asked the old agent for something asks again (command.cc).
//
// All functions are called by the agent monitor.
#ifndef VIADUCT_VIPL_SESSION_REATTACH_H
#define VIADUCT_VIPL_SESSION_REATTACH_H

#include "vipl/session/session.h"

namespace viaduct::vipl::reattach {

inline constexpr int kTryEveryMs = 50;

inline bool is(const Session& session) VIADUCT_REQUIRES(registry::g_lock) { return session.reattach.until != 0; }

// The session's agent has gone. False: there is nothing to wait for.
bool begin(Session& session) VIADUCT_REQUIRES(registry::g_lock);

// Does what is due; to be called every kTryEveryMs. False: the time is over.
bool go_on(Session& session) VIADUCT_REQUIRES(registry::g_lock);

// Something can be read on session.reattach.socket. False: the agent there has refused.
bool hear(Session& session) VIADUCT_REQUIRES(registry::g_lock);

// The session has an agent again, or is given up.
void end(Session& session) VIADUCT_REQUIRES(registry::g_lock);

}  // namespace viaduct::vipl::reattach

#endif
