// Addresses: the host's IPv4 address on the NIC's interface, and a port that is this process's.
#ifndef VIADUCT_VIPL_FABRIC_ADDRESSES_H
#define VIADUCT_VIPL_FABRIC_ADDRESSES_H

#include <netinet/in.h>

#include <cstdint>
#include <utility>

namespace viaduct::fabric {

// The first IPv4 address of an interface. False if it has none.
bool address_of_interface(const char* interface, in_addr& address, in_addr& mask);
// Whether it is an address of this host, on any interface.
bool is_own(in_addr address);

// A port of this host. It is made unique by a socket of the kernel's that is bound to it and used for nothing else,
// and freed when the process ends, however it does. The socket is one of UDP, as programs use the same number for a
// TCP connection of their own.
class PortClaim {
 public:
  PortClaim() = default;
  ~PortClaim();
  PortClaim(const PortClaim&) = delete;
  PortClaim& operator=(const PortClaim&) = delete;

  // Takes a port, or any if it is 0; both in host order. 0, or an error of libfabric's.
  int take(std::uint16_t port);
  // Takes over the port that another claim has.
  void take_from(PortClaim& other) {
    std::swap(socket_, other.socket_);
    std::swap(port_, other.port_);
  }
  bool held() const { return socket_ >= 0; }
  std::uint16_t port() const { return port_; }

 private:
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace viaduct::fabric

#endif
