// viactl top: the connections that move most, again and again.
#ifndef VIADUCT_KAGENT_TOOLS_VIACTL_TOP_H
#define VIADUCT_KAGENT_TOOLS_VIACTL_TOP_H

#include <cstdint>
#include <string>
#include <vector>

#include "kagent/contract/report.h"
#include "kagent/tools/viactl/agent_client.h"
#include "kagent/tools/viactl/views.h"

namespace viaduct::tool {

struct TopOptions {
  std::string sort = "frames";  // frames, out, in, resent, rtt
  double every = 1;             // seconds
  unsigned times = 0;           // 0: until interrupted
  bool json = false;            // one object a line
};
bool is_top_order(const std::string& order);

// The activity of a connection between two looks.
struct Pace {
  report::Vi vi;
  double out, in, resent;  // frames a second
};
// The connections that are in both, or new since (counted from now on). `ns`: time between the looks.
std::vector<Pace> paces(const Vis& before, const Vis& now, std::uint64_t ns);
void sort_paces(std::vector<Pace>& paces, const std::string& order);

// Throws as AgentClient does.
void run_top(const AgentClient& agent, const TopOptions& options);

}  // namespace viaduct::tool

#endif
