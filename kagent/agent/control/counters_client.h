// `viad --counters`: asks the running agent for its counters.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_COUNTERS_CLIENT_H
#define VIADUCT_KAGENT_AGENT_CONTROL_COUNTERS_CLIENT_H

#include <string>

namespace viaduct {

// The text of the agent's table. Throws std::runtime_error: no agent there, or why it refuses.
std::string fetch_counters(const std::string& socket_name);

}  // namespace viaduct

#endif
