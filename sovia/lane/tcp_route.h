// The route of a TCP connection: the interface, and the peer's MAC address on that link.
#ifndef VIADUCT_SOVIA_LANE_TCP_ROUTE_H
#define VIADUCT_SOVIA_LANE_TCP_ROUTE_H

#include <net/if.h>
#include <sys/socket.h>

#include <cstdint>

#include "sovia/lane/flow.h"
#include "sovia/process/reason.h"

namespace viaduct::sovia {

// The flow of a connected TCP socket. False with errno.
bool flow_of(int fd, Flow& flow);

// Whether both ends are certainly on this host, from the addresses alone.
bool is_loopback(const Flow& flow);

struct Way {
  char interface[IF_NAMESIZE];
  std::uint8_t peer[6];  // its MAC address
  bool local;            // the peer is on this host: no interface, no address
};

// Whether a call for a socket has failed as a sandbox fails it.
bool is_forbidden(int error);

// Asks the kernel's tables. kNone: found; kLocal: the peer is on this host.
Reason find_way(const Flow& flow, Way& way);

// Which end has opened a connection.
enum class Opener : std::uint8_t { kUnknown, kThisEnd, kPeer };

// The bytes written to a TCP socket so far, and how many of them the kernel has not sent yet; the bytes read from the
// socket. False if the kernel doesn't say, or this end's stream has ended.
bool bytes_written(int fd, Opener opener, std::uint64_t& bytes, std::uint64_t& unsent);
bool bytes_read(int fd, std::uint64_t& bytes);

// Whether more of the peer's bytes may come, as its end has not. After shutdown(SHUT_RD) receives tell of an end before.
// False if the kernel doesn't say.
bool may_get_more(int fd);

// Whether shutdown(SHUT_RD) has ended the kernel's receiving direction, and nothing is unread.
bool reads_no_more(int fd);

// Whether the kernel has an error to return to the next receive, and no data before it.
bool has_only_error(int fd);

// Of a connection with an error to return: whether the peer's end came before. `read`: the bytes read from the kernel.
bool has_end_before_error(int fd, std::uint64_t read);

// Makes the kernel send all bytes written to a TCP socket so far, despite TCP_CORK and Nagle. The options stay as they
// are; they must not be changed meanwhile.
void push(int fd);

}  // namespace viaduct::sovia

#endif
