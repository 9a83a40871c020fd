// A question to the running agent, on a control socket of its own.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_ASK_AGENT_H
#define VIADUCT_KAGENT_AGENT_CONTROL_ASK_AGENT_H

#include <cstddef>
#include <string>

#include "xdp/descriptor.h"

namespace viaduct {

// Connects, sends the request, and returns the socket that the answer comes by; it is waited for 5 s at most.
// Throws std::runtime_error: no agent there, one that is neither root's nor the caller's own, or one that does
// not take the request.
Descriptor ask_agent(const std::string& socket_name, const void* request, std::size_t bytes);

// The socket of the agent that a program takes that was told of none (default_agent.h).
std::string default_agent_socket();

// The socket that $VIADUCT_SOCKET names; empty: none.
std::string socket_of_environment();

}  // namespace viaduct

#endif
