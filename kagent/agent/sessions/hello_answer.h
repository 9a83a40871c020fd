// The answer to a program that gets a session.
#ifndef VIADUCT_KAGENT_AGENT_SESSIONS_HELLO_ANSWER_H
#define VIADUCT_KAGENT_AGENT_SESSIONS_HELLO_ANSWER_H

#include "kagent/agent/config/config.h"
#include "kagent/agent/sessions/session.h"
#include "kagent/contract/control.h"

namespace viaduct {

// The answer to the program that gets this session.
control::HelloAnswer describe(const Session& session, const Config& config);

// The limits of a granted stack: those of the NIC's own, for one session.
StackLimits own_limits(const AgentNic& nic);

}  // namespace viaduct

#endif
