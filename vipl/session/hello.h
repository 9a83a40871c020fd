// The agent as a process knows it before it has a session.
#ifndef VIADUCT_VIPL_SESSION_HELLO_H
#define VIADUCT_VIPL_SESSION_HELLO_H

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>

#include "kagent/contract/control.h"

namespace viaduct::vipl {

// An agent's socket.
struct AgentAddress {
  sockaddr_un address;
  socklen_t bytes;
  bool is_roots;  // the agent must be root's
  bool is_forbidden = false;  // a sandbox keeps the program from another address that was tried
};

// The result of connecting to an agent.
struct Hello {
  AgentAddress agent;
  control::HelloAnswer answer;
  int socket;
  int segment;
  int agent_wake;
  int poll_wake;
  int port, umem, granted_segment;  // granted; else -1
  int trains;            // granted with trains; else -1
  int train_guard;       // granted with trains by an agent that gives a guard; else -1
  int link;              // attached to a granted session; else -1

  bool granted() const {
    return answer.placement == static_cast<std::uint32_t>(control::Placement::kGranted);
  }
};

}  // namespace viaduct::vipl

#endif
