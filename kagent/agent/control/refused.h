// A request that is refused, thrown by what judges or serves it.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_REFUSED_H
#define VIADUCT_KAGENT_AGENT_CONTROL_REFUSED_H

#include <cstdint>
#include <string>

#include "kagent/agent/control/service_counters.h"
#include "kagent/contract/vip_codes.h"

namespace viaduct {

// Why a request is refused: what the program gets, what is counted, and why in words.
struct Refused {
  vip::Return result;
  std::uint64_t ServiceCounters::*cause;
  std::string reason;
};

}  // namespace viaduct

#endif
