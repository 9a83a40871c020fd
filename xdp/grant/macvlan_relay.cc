#include "xdp/grant/macvlan_relay.h"

#include <fcntl.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "xdp/port_error.h"
#include "xdp/xsk/chunk.h"

namespace viaduct {
namespace {

constexpr std::uint32_t kRing = 1024;

Grant::Options options_for(GrantFilter& filter, std::uint16_t ether_type, std::uint32_t kept) {
  Grant::Options options{filter};
  options.ether_type = ether_type;
  options.ring = kRing;
  options.agents_own = true;
  const std::size_t chunk = chunk_for(filter.lower().mtu);
  options.umem_bytes = std::bit_ceil((std::size_t{kept} + kRing) * chunk * 4 / 3);
  return options;
}

}  // namespace

MacvlanRelay::MacvlanRelay(GrantFilter& filter, std::uint16_t ether_type, std::uint32_t kept)
    : grant_(options_for(filter, ether_type, kept)) {
  const int socket = fcntl(grant_.socket(), F_DUPFD_CLOEXEC, 0);
  const int umem = fcntl(grant_.umem(), F_DUPFD_CLOEXEC, 0);
  if (const char* const what = port_.open(socket, umem, grant_.layout())) {
    throw PortError(filter.lower().name + ": " + what + ": " + std::strerror(errno));
  }
}

}  // namespace viaduct
