// Messages of programs on the control socket, read and judged, and the answers.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_MESSAGES_H
#define VIADUCT_KAGENT_AGENT_CONTROL_MESSAGES_H

#include <cstddef>
#include <exception>
#include <span>

#include "kagent/agent/config.h"
#include "kagent/contract/control.h"
#include "kagent/agent/session.h"

namespace viaduct {

// These throw Refused. Nothing but the bytes of `message` is looked at.
control::MessageHead judge_head(std::span<const std::byte> message);
control::Hello judge_hello(std::span<const std::byte> message);
control::Adopt judge_adopt(std::span<const std::byte> message);
control::Attach judge_attach(std::span<const std::byte> message);

// Reasons to refuse.
Refused malformed(const char* how);
Refused no_resources(const std::exception& error);

// The answer to the program that gets this session.
control::HelloAnswer describe(const Session& session, const Config& config);

// The limits of a granted stack: those of the NIC's own, for one session.
StackLimits own_limits(const Nic& nic);

}  // namespace viaduct

#endif
