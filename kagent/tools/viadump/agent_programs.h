// Tells Endpoints which programs of this host have which VIs, as the agent knows it.
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_AGENT_PROGRAMS_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_AGENT_PROGRAMS_H

#include <chrono>
#include <string>

#include "kagent/tools/viadump/endpoints.h"
#include "kagent/tools/viactl/agent_client.h"

namespace viaduct::dump {

class AgentPrograms {
 public:
  explicit AgentPrograms(std::string socket_name) : agent_(std::move(socket_name)) {}

  // Asks the agent, but not more often than every 200 ms. A host without an agent has nothing to tell.
  void refresh(Endpoints& out);
  // How the agent's frames pass the interface: "xdp-native", "pcap" ...; "" if it does not say.
  std::string mode_of(const std::string& interface) const;

 private:
  void ask(Endpoints& out) const;

  tool::AgentClient agent_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace viaduct::dump

#endif
