// The report of a stack for an operator, read from the stack's segment: of the agent's own stacks, and of
// those of granted programs, whose segments may hold nonsense and may change while they are read.
#ifndef VIADUCT_KAGENT_AGENT_REPORTS_VI_REPORT_H
#define VIADUCT_KAGENT_AGENT_REPORTS_VI_REPORT_H

#include <cstdint>
#include <functional>
#include <vector>

#include "kagent/contract/report.h"
#include "kagent/contract/stack_limits.h"

namespace viaduct {

// Where a VI belongs; the numbers are those of the stack that was read.
struct ViOwner {
  std::uint32_t session, program;
};

// Says whether a VI is wanted, and fills in `session` and `process` of `out`.
using Own = std::function<bool(const ViOwner& owner, report::Vi& out)>;

// Looks at kVisLooked VIs from number `from` on and appends those that are in use and wanted. Returns
// the number to go on with; 0: there are no more.
std::uint32_t read_vis(const void* segment, const StackLimits& limits, std::uint32_t from, std::uint64_t now,
                       const Own& own, std::vector<report::Vi>& out);

// The objects of the stack that a session holds: vis, cqs, regions, registered_bytes.
void read_holdings(const void* segment, const StackLimits& limits, std::uint32_t session, report::Session& out);

// The counters of the whole stack.
void read_counters(const void* segment, const StackLimits& limits, report::Session& out);

}  // namespace viaduct

#endif
