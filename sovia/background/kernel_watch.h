// The kernel's connections beside lanes, which carry nothing while the lanes do. Firewalls and address translators forget
// a silent connection, and one that an administrator or a firewall has ended tells only who asks. Bytes that the peer has
// sent past its library lie there unread. The background thread gives each connection a sign of life now and then, and
// looks for errors and such bytes.
#ifndef VIADUCT_SOVIA_BACKGROUND_KERNEL_WATCH_H
#define VIADUCT_SOVIA_BACKGROUND_KERNEL_WATCH_H

#include <cstdint>

#include "sovia/socket/lane_endpoint.h"

namespace viaduct::sovia::background {

// For the background thread alone.
void watch_kernel_connections();
// When watch_kernel_connections() has something to do; kNever: nothing.
std::uint64_t kernel_watch_due();
// The lane ends: the connection's options are the program's again.
void end_sign_of_life(LaneEndpoint& end);

}  // namespace viaduct::sovia::background

#endif
