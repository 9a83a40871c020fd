// A question to the running agent, on a control socket of its own.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_ASK_AGENT_H
#define VIADUCT_KAGENT_AGENT_CONTROL_ASK_AGENT_H

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "xdp/descriptor.h"

namespace viaduct {

// Connects, sends the request, and returns the socket that the answer comes by; it is waited for 5 s at most.
// Throws std::runtime_error: no agent there, one that is neither root's nor the caller's own, or one that does
// not take the request.
Descriptor ask_agent(const std::string& socket_name, const void* request, std::size_t bytes);

// The agent's answer, so far as there is room for it, with its descriptors. Throws also if none comes.
struct AgentAnswer {
  std::size_t bytes;
  std::vector<Descriptor> files;
};
AgentAnswer ask_agent(const std::string& socket_name, const void* request, std::size_t bytes,
                      std::span<std::byte> room);

// The socket of the agent that a program takes if it is told of none (default_agent.h).
std::string default_agent_socket();

// The socket that $VIADUCT_SOCKET names; empty: none.
std::string socket_of_environment();

}  // namespace viaduct

#endif
