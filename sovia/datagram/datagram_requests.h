// Requests of UDP sockets to the thread that opens and ends lanes (datagram_control.h).
#ifndef VIADUCT_SOVIA_DATAGRAM_DATAGRAM_REQUESTS_H
#define VIADUCT_SOVIA_DATAGRAM_DATAGRAM_REQUESTS_H

#include <netinet/in.h>

namespace viaduct::sovia::datagram {

class DatagramSocket;

// The socket, of this descriptor, wants a lane to this peer. False: there will be none.
bool ask(int fd, const DatagramSocket& socket, const sockaddr_in& peer);
// Something has changed that may be the thread's business.
void look_at_lanes();

}  // namespace viaduct::sovia::datagram

#endif
