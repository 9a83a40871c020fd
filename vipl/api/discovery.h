// Autodiscovery: which hosts are on the link.
#ifndef VIADUCT_VIPL_API_DISCOVERY_H
#define VIADUCT_VIPL_API_DISCOVERY_H

#include "vipl/session/session.h"

namespace viaduct::vipl {

// What a session keeps of it; zeroed memory is an empty one. Several answers, so that threads that
// ask at the same time don't overwrite each other's.
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

// Asks the link and fills the list in, whose addresses are the session's. Blocks for a moment.
VIP_RETURN discover(Session& session, VIP_AUTODISCOVERY_LIST& list);

}  // namespace viaduct::vipl

#endif
