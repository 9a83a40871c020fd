// A port that reaches the granted children of its own interface.
//
// A macvlan child never reaches its parent, so the agent has a child of its own, the desk, for what
// hosted and granted programs of one host have to say to each other. Frames to a registered child
// are sent through the desk, with the desk's address as source; what arrives at the desk is shown
// as if it had been sent to the interface. Everything else is the wrapped port's.
//
// Until open_desk() this is the wrapped port and costs nothing. From then on descriptor() may
// return another number than before.
#ifndef VIADUCT_XDP_LOCAL_PORT_H
#define VIADUCT_XDP_LOCAL_PORT_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "xdp/grant/grant.h"
#include "xdp/grant/granted_port.h"
#include "xdp/port.h"

namespace viaduct {

class LocalPort final : public Port {
 public:
  explicit LocalPort(std::unique_ptr<Port> wire);
  ~LocalPort() override;

  // Makes the desk, once; `filter` must outlive the port. Throws PortError, and all is as before.
  void open_desk(GrantFilter& filter, std::uint16_t ether_type);
  bool has_desk() const { return desk_ != nullptr; }
  // How granted programs reach this port; while has_desk().
  MacAddress desk() const { return desk_->grant.address(); }

  // Registers a granted child (an address that a GrantFilter has given out).
  void add(const MacAddress& child);
  void remove(const MacAddress& child);

  std::size_t receive(std::span<Frame> frames) override;
  void release(std::span<const Frame> frames) override;
  std::size_t reserve(std::span<Frame> frames) override { return wire_->reserve(frames); }
  void submit(std::span<const Frame> frames) override;
  void cancel(std::span<const Frame> frames) override { wire_->cancel(frames); }
  void flush() override;
  std::uint32_t mtu() const override { return wire_->mtu(); }
  MacAddress address() const override { return wire_->address(); }
  std::uint32_t lendable() const override { return wire_->lendable(); }
  std::uint32_t backlog() const override {
    const std::uint32_t wire = wire_->backlog();
    return has_desk() ? std::min(wire, desk_->port.backlog()) : wire;
  }
  int descriptor() const override;
  std::string mode() const override { return wire_->mode(); }
  PortCounters counters() override;
  bool alive() const override { return wire_->alive(); }
  bool reaches(const MacAddress& address) const override { return wire_->reaches(address); }

 private:
  struct Desk {
    explicit Desk(const Grant::Options& options) : grant(options) {}
    Grant grant;
    GrantedPort port;
  };

  bool is_child(const std::byte* address) const;
  void send_to_child(const Frame& frame);

  std::unique_ptr<Port> wire_;
  std::unique_ptr<Desk> desk_;
  std::array<std::uint64_t, 1024> children_{};  // by the low bits of the address
  bool desk_first_ = false;                     // whose turn it is in receive()
  int epoll_ = -1;                              // over the wire's descriptor and the desk's
  mutable int entered_ = -1;                    // the wire's in it
};

}  // namespace viaduct

#endif
