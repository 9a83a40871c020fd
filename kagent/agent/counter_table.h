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
#ifndef VIADUCT_KAGENT_AGENT_COUNTER_TABLE_H
#define VIADUCT_KAGENT_AGENT_COUNTER_TABLE_H

#include <optional>
#include <span>
#include <string>

#include "kagent/agent/granter.h"
#include "kagent/agent/service_counters.h"
#include "kagent/agent/hosted_stack.h"
#include "xdp/port.h"
#include "xdp/train/train_socket.h"

namespace viaduct {

// One NIC at one moment. `live` has no value while the interface is away.
struct NicReport {
  struct Live {
    std::string mode;
    MacAddress address;
    std::uint32_t mtu;
    PortCounters port;
    StackCounters stack;
    Stack::Usage usage;
    std::uint32_t granted_ports = 0;     // now
    std::uint64_t granted_made = 0;
    GrantedCounters granted;             // of all of them, those that have ended included
    TrainSocket::Counters trains{};      // of the agent's own
  };
  std::string interface;
  StackLimits limits;
  std::optional<Live> live;
};

void add_to(GrantedCounters& sum, const GrantedCounters& more);

std::string counter_table(std::span<const NicReport> nics, const ServiceCounters& service);

}  // namespace viaduct

#endif
