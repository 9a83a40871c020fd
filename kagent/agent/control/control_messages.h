// Messages of programs on the control socket, read and judged.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_CONTROL_MESSAGES_H
#define VIADUCT_KAGENT_AGENT_CONTROL_CONTROL_MESSAGES_H

#include <cstddef>
#include <exception>
#include <span>

#include "kagent/agent/control/refused.h"
#include "kagent/contract/control.h"

namespace viaduct {

// The functions throw Refused. They look at the bytes of `message` and nothing else.
control::MessageHead judge_head(std::span<const std::byte> message);
control::Hello judge_hello(std::span<const std::byte> message);
control::AskNic judge_ask_nic(std::span<const std::byte> message);
control::Adopt judge_adopt(std::span<const std::byte> message);
control::Attach judge_attach(std::span<const std::byte> message);

// Reasons to refuse.
Refused malformed(const char* how);
Refused no_resources(const std::exception& error);

}  // namespace viaduct

#endif
