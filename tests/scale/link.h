// The VIPL objects of the measuring program: a NIC, and a VI with which one side commands the other.
#ifndef VIADUCT_TESTS_SCALE_LINK_H
#define VIADUCT_TESTS_SCALE_LINK_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "vipl.h"

namespace scale {

// Throws std::runtime_error, which says what failed, unless `code` is VIP_SUCCESS.
void must(VIP_RETURN code, const char* what);

// An address with room for a discriminator of 4 bytes.
struct Address {
  alignas(VIP_NET_ADDRESS) unsigned char bytes[sizeof(VIP_NET_ADDRESS) + 16] = {};

  explicit Address(std::uint32_t discriminator);
  VIP_NET_ADDRESS* get() { return reinterpret_cast<VIP_NET_ADDRESS*>(bytes); }
  unsigned char* host() { return bytes + offsetof(VIP_NET_ADDRESS, HostAddress); }
};

// Where a host is.
struct Host {
  unsigned char address[6];
};

class Nic {
 public:
  explicit Nic(const std::string& device);
  ~Nic() { VipCloseNic(handle_); }
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  VIP_NIC_HANDLE get() const { return handle_; }
  const VIP_NIC_ATTRIBUTES& attributes() const { return attributes_; }
  VIP_VI_HANDLE create_vi(VIP_CQ_HANDLE cq = nullptr) const;

  Host find(const std::string& name) const;
  Host self() const;

  // Connects to, or waits for, the process that uses the discriminator too.
  void connect(VIP_VI_HANDLE vi, const Host& host, std::uint32_t discriminator) const;
  void accept(VIP_VI_HANDLE vi, std::uint32_t discriminator) const;

 private:
  VIP_NIC_HANDLE handle_ = nullptr;
  VIP_NIC_ATTRIBUTES attributes_{};
};

VIP_VI_STATE state_of(VIP_VI_HANDLE vi);

// Disconnects and destroys all of them.
void drop(std::vector<VIP_VI_HANDLE>& vis);

// A connected VI that carries messages of 4 bytes, polling.
class Link {
 public:
  explicit Link(const Nic& nic);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  VIP_VI_HANDLE vi() const { return vi_; }
  void send(std::uint32_t value);
  std::uint32_t receive();

 private:
  static constexpr unsigned kReceives = 8;
  struct alignas(64) Packet {
    VIP_DESCRIPTOR descriptor;
    std::uint32_t value;
  };
  void post_receive(Packet& packet);

  const Nic& nic_;
  VIP_VI_HANDLE vi_;
  VIP_MEM_HANDLE memory_ = 0;
  Packet packets_[kReceives + 1];
};

}  // namespace scale

#endif
