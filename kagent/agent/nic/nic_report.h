// The state and the counters of a NIC, for the table of counters and for reports.
#ifndef VIADUCT_KAGENT_AGENT_NIC_NIC_REPORT_H
#define VIADUCT_KAGENT_AGENT_NIC_NIC_REPORT_H

#include <cstdint>
#include <optional>
#include <string>

#include "kagent/agent/nic/granter.h"
#include "kagent/stack/hosted_stack.h"
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
    std::size_t granted_ready = 0;       // made ahead, for no program yet
  };
  std::string interface;
  StackLimits limits;
  std::optional<Live> live;
};

}  // namespace viaduct

#endif
