// Everything the agent counts and measures, as one text table in Prometheus' text format:
//
//   # HELP viaduct_stack_drop_short received frames dropped: shorter than a header
//   # TYPE viaduct_stack_drop_short counter
//   viaduct_stack_drop_short{nic="via0"} 0
//
// Names begin with viaduct_port_ (the agent's own port), viaduct_train_ (its trains), viaduct_granted_ (ports of programs),
// viaduct_stack_ (the software NIC), viaduct_nic_ (what
// is in use, capacities, and what the NIC is) or viaduct_service_ (the agent itself). Counters of a
// NIC begin anew when its interface has been away.
#ifndef VIADUCT_KAGENT_AGENT_REPORTS_COUNTER_TABLE_H
#define VIADUCT_KAGENT_AGENT_REPORTS_COUNTER_TABLE_H

#include <span>
#include <string>

#include "kagent/agent/control/service_counters.h"
#include "kagent/agent/nic/nic_report.h"

namespace viaduct {

std::string counter_table(std::span<const NicReport> nics, const ServiceCounters& service);

}  // namespace viaduct

#endif
