#include "vipl/fabric/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace viaduct::fabric {
namespace {

class Interfaces {
 public:
  Interfaces() {
    if (getifaddrs(&first_) != 0) first_ = nullptr;
  }
  ~Interfaces() {
    if (first_ != nullptr) freeifaddrs(first_);
  }
  Interfaces(const Interfaces&) = delete;
  Interfaces& operator=(const Interfaces&) = delete;

  // The first one of IPv4 for which `matches` is true.
  template <class Matches>
  const ifaddrs* find(Matches&& matches) const {
    for (const ifaddrs* at = first_; at != nullptr; at = at->ifa_next) {
      if (at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET && matches(*at)) return at;
    }
    return nullptr;
  }

 private:
  ifaddrs* first_ = nullptr;
};

in_addr ip(const sockaddr* address) {
  sockaddr_in internet;
  std::memcpy(&internet, address, sizeof internet);
  return internet.sin_addr;
}

}  // namespace

bool address_of_interface(const char* interface, in_addr& address, in_addr& mask) {
  const Interfaces all;
  const ifaddrs* found = all.find(
      [interface](const ifaddrs& one) { return std::strcmp(one.ifa_name, interface) == 0; });
  if (found == nullptr) return false;
  address = ip(found->ifa_addr);
  mask = found->ifa_netmask != nullptr ? ip(found->ifa_netmask) : in_addr{0xffffffff};
  return true;
}

bool is_own(in_addr address) {
  const Interfaces all;
  return all.find([address](const ifaddrs& one) {
    return ip(one.ifa_addr).s_addr == address.s_addr;
  }) != nullptr;
}

PortClaim::~PortClaim() {
  if (socket_ >= 0) close(socket_);
}

int PortClaim::take(std::uint16_t port) {
  const int claim = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (claim < 0) return errno;
  const int least = 0;
  setsockopt(claim, SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  socklen_t length = sizeof name;
  if (bind(claim, reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 ||
      getsockname(claim, reinterpret_cast<sockaddr*>(&name), &length) != 0) {
    const int error = errno;
    close(claim);
    return error;
  }
  if (socket_ >= 0) close(socket_);
  socket_ = claim;
  port_ = ntohs(name.sin_port);
  return 0;
}

}  // namespace viaduct::fabric
