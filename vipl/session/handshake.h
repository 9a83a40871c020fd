// Finding the agent and agreeing with it on a session: see control.h.
#ifndef VIADUCT_VIPL_SESSION_HANDSHAKE_H
#define VIADUCT_VIPL_SESSION_HANDSHAKE_H

#include "vipl/api/api.h"
#include "vipl/session/hello.h"

namespace viaduct::vipl {

struct Session;

// Asks the agent for a session. On success the caller owns the descriptors.
VIP_RETURN say_hello(const char* device, Hello& hello);

// The same for a process that has been forked from one with that session.
VIP_RETURN say_attach(const Session& session, Hello& hello);

// The same for a session whose agent has gone, without waiting: asks the next one on a new
// connection (-1: there is none yet), and looks for its answer there. A hello that was taken has the
// descriptors of a hosted session's.
int ask_for_adoption(const Session& session);
enum class Adoption { kNotYet, kHungUp, kRefused, kTaken };
Adoption hear_of_adoption(int socket, Hello& hello);

// Maps the segment of a hello, if it is what the answer says. nullptr: explained.
void* map_segment(const Hello& hello);

// The same as the session's segment that the agent serves.
bool map_control_session(const Hello& hello, Session& session);

}  // namespace viaduct::vipl

#endif
