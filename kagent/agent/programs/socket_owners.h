// Whose the TCP connections and UDP sockets of this network namespace are, as the kernel says (sock_diag(7)).
#ifndef VIADUCT_KAGENT_AGENT_PROGRAMS_SOCKET_OWNERS_H
#define VIADUCT_KAGENT_AGENT_PROGRAMS_SOCKET_OWNERS_H

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "xdp/descriptor.h"
#include "kagent/contract/flow.h"

namespace viaduct {

class SocketOwners {
 public:
  // The first question of a protocol may make the kernel load a module, so they are asked here.
  SocketOwners();

  struct Answer {
    bool known;                  // false: the kernel could not be asked
    std::optional<uid_t> owner;  // none: no program holds such a socket
  };
  // `interface`: number of the interface that the connection goes over, for sockets that are bound to one; 0: any.
  Answer ask(const Flow& flow, unsigned interface);

 private:
  bool send(const Flow& flow, unsigned interface);

  Descriptor socket_;
  std::uint32_t sequence_ = 0;
};

}  // namespace viaduct

#endif
