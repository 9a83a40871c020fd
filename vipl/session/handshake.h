// Finding the agent and agreeing with it on a session: see control.h.
#ifndef VIADUCT_VIPL_SESSION_HANDSHAKE_H
#define VIADUCT_VIPL_SESSION_HANDSHAKE_H

#include "vipl/api/api.h"
#include "vipl/session/hello.h"

namespace viaduct::vipl {

struct Session;

// Asks the agent for a session. On success the caller owns the descriptors.
VIP_RETURN say_hello(const char* device, Hello& hello);

// Asks the agent for the attributes of a NIC that is not opened. VIP_INVALID_PARAMETER: there is no such NIC.
VIP_RETURN ask_for_nic(const char* device, control::NicAttributes& nic);

// Asks for a part in the session, for a process that has been forked from one that has it.
VIP_RETURN say_attach(const Session& session, Hello& hello);

// Asks the next agent to adopt a session whose agent has gone, without waiting. Returns the new connection; -1: there
// is no agent yet.
int ask_for_adoption(const Session& session);
enum class Adoption { kNotYet, kHungUp, kRefused, kTaken };
// Looks for the answer on that connection. kTaken: `hello` has the descriptors that a hosted session would get.
Adoption hear_of_adoption(int socket, Hello& hello);

// Maps the segment of a hello if it is as the answer says. nullptr: it is not, and the reason has been explained.
void* map_segment(const Hello& hello);

// Maps likewise the segment of the session that a granted program has with the agent's stack.
bool map_control_session(const Hello& hello, Session& session);

}  // namespace viaduct::vipl

#endif
