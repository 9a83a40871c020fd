// Room for the lists of hosts that VipQuerySystemManagementInfo hands out.
#ifndef VIADUCT_VIPL_SESSION_DISCOVERY_ANSWERS_H
#define VIADUCT_VIPL_SESSION_DISCOVERY_ANSWERS_H

#include <cstdint>

#include "kagent/contract/session_layout.h"
#include "vipl/api/api.h"

namespace viaduct::vipl {

// The answers to its discoveries that a session keeps; zeroed memory has none. Several answers, so that threads
// that ask at the same time don't overwrite each other's.
struct Discovery {
  static constexpr std::uint32_t kAnswers = 16;
  // A VIP_NET_ADDRESS with room for the host address.
  struct Address {
    alignas(VIP_NET_ADDRESS) unsigned char bytes[16];
  };
  struct Answer {
    VIP_NET_ADDRESS* pointers[layout::kMaxDiscovered];
    Address addresses[layout::kMaxDiscovered];
  };
  std::uint32_t given;  // so far
  Answer answers[kAnswers];
};

}  // namespace viaduct::vipl

#endif
