// The tables of viactl.
#ifndef VIADUCT_KAGENT_TOOLS_VIACTL_VIEWS_H
#define VIADUCT_KAGENT_TOOLS_VIACTL_VIEWS_H

#include <string>
#include <string_view>
#include <vector>

#include "kagent/contract/report.h"
#include "kagent/tools/viactl/table.h"

namespace viaduct::tool {

using Nics = std::vector<report::Nic>;
using Sessions = std::vector<report::Session>;
using Vis = std::vector<report::Vi>;

std::string status_text(const report::Status& status, const std::string& socket, const Nics& nics, std::size_t width);
std::string status_json(const report::Status& status, const std::string& socket, const Nics& nics);

Table sessions_table(const Sessions& sessions, const Nics& nics);
Table vis_table(const Vis& vis, const Sessions& sessions, const Nics& nics);
Table connections_table(const Vis& vis, const Sessions& sessions, const Nics& nics);

// A row of the agent's table of counters.
struct Counter {
  std::string name;    // without "viaduct_"
  std::string labels;  // as they stand there: nic="eth0"
  std::uint64_t value;
};
// The counters whose names contain `pattern`.
std::vector<Counter> parse_counters(std::string_view text, std::string_view pattern);
Table counters_table(const std::vector<Counter>& counters, bool zeros);

// The session that a VI belongs to; nullptr if it is not among them. `sessions` in the order of their ids.
const report::Session* session_of(const report::Vi& vi, const Sessions& sessions);

}  // namespace viaduct::tool

#endif
