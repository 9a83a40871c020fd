// The interface: read() gives the packets that the kernel sends there; it receives those that are written.
#ifndef VIADUCT_VIPL_LANEVI_TUN_H
#define VIADUCT_VIPL_LANEVI_TUN_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "vipl/lanevi/ip_address.h"
#include "vipl/lanevi/options.h"

namespace viaduct::lanevi {

class Tun {
 public:
  // Makes the interface, or takes one that was made for this user (`ip tuntap add mode tun user`),
  // gives it its MTU and addresses and sets it up. Settings that it has already are not set again, so
  // that without the privilege to do so an interface that was prepared serves too. Throws Failure.
  explicit Tun(const Options& options);
  ~Tun();
  Tun(const Tun&) = delete;
  Tun& operator=(const Tun&) = delete;

  int descriptor() const { return descriptor_; }

  // Reads a packet with its header (message.h). 0: there is none.
  std::size_t read(std::uint8_t* to, std::size_t room);
  // Writes a packet. False if the kernel does not take it.
  bool write(const std::uint8_t* from, std::size_t bytes);

  // Whether the kernel knows data of UDP that is not cut to datagrams (Linux 6.2).
  bool takes_uncut_udp() const { return takes_uncut_udp_; }
  // Has the kernel hand out such data, or cut it, from the next packet on. Does nothing without offload.
  void leave_udp_uncut(bool uncut);

  // The addresses that it has now, also those that this object did not set.
  std::vector<IpPrefix> addresses() const;

 private:
  void open();
  bool set_offload(unsigned long flags);
  void configure(const Options& options);

  std::string name_;
  const bool offload_;
  bool takes_uncut_udp_ = false;
  bool udp_uncut_ = false;
  int descriptor_ = -1;
};

}  // namespace viaduct::lanevi

#endif
