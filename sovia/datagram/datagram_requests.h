// Requests of UDP sockets to the thread that opens and ends lanes (datagram_control.h).
#ifndef VIADUCT_SOVIA_DATAGRAM_DATAGRAM_REQUESTS_H
#define VIADUCT_SOVIA_DATAGRAM_DATAGRAM_REQUESTS_H

#include <netinet/in.h>

namespace viaduct::sovia::datagram {

class DatagramSocket;

// Asks for a lane from the socket of `fd` to a peer. False: there will be none.
bool ask(int fd, const DatagramSocket& socket, const sockaddr_in& peer);
// A lane has changed, so the thread has to look at it.
void look_at_lanes();

}  // namespace viaduct::sovia::datagram

#endif
