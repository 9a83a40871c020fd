// The agent's side of trains: sockets for itself and for the programs that it grants ports to.
#ifndef VIADUCT_XDP_TRAIN_OPEN_TRAIN_SOCKET_H
#define VIADUCT_XDP_TRAIN_OPEN_TRAIN_SOCKET_H

#include <string>

#include "xdp/descriptor.h"
#include "xdp/train/train_address.h"

namespace viaduct {

struct OpenedTrainSocket {
  Descriptor socket;
  // The guard has the same port on all interfaces, and receives nothing. While it is open no user can bind the port to
  // another interface, which would be no conflict with `socket`, and send from it in this host's name.
  Descriptor guard;
  TrainAddress address;
};

// Opens a UDP socket of this interface alone, with room for what a link brings in a burst. Throws PortError that says
// why there can be none, for example that the interface has no address.
OpenedTrainSocket open_train_socket(const std::string& interface);

}  // namespace viaduct

#endif
