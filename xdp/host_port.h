// The agent's port: a wire, and what belongs to this host.
//
//   stack -- submit --+--> own address: comes back from receive() without having been on the wire
//                     +--> a granted child of the interface: through the relay
//                     +--> everything else: the wire
//
// A macvlan child never reaches its parent, so the agent has a child of its own, the relay
// (grant/macvlan_relay.h), for what hosted and granted programs of one host have to say to each other.
// Frames to a registered child are sent with the relay's address as source; frames that arrive at the
// relay are shown as if they had been sent to the interface.
//
// From open_relay() and open_trains() on descriptor() may return another number than before.
#ifndef VIADUCT_XDP_HOST_PORT_H
#define VIADUCT_XDP_HOST_PORT_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "xdp/port.h"
#include "xdp/train/open_train_socket.h"
#include "xdp/train/train_socket.h"

namespace viaduct {

class HostPort final : public Port {
 public:
  explicit HostPort(std::unique_ptr<Port> wire);
  ~HostPort() override;

  // A wire that leads nowhere, for a NIC on which only programs of this host meet. Throws
  // std::system_error when the system gives no event descriptor.
  static std::unique_ptr<Port> no_wire(const MacAddress& address, std::uint32_t mtu);

  // Once. Throws PortError, and all is as before.
  void open_relay(std::unique_ptr<Port> relay);
  bool has_relay() const { return relay_ != nullptr; }
  // How granted programs reach this port; while has_relay().
  MacAddress relay() const { return relay_->address(); }

  // With trains of these frame types, on the wire; once. Throws PortError, and all is as before.
  void open_trains(OpenedTrainSocket&& socket, std::uint32_t types);
  // Null: none.
  const TrainSocket* trains() const { return trains_.get(); }

  // Registers a granted child (an address that a GrantFilter has given out).
  void add(const MacAddress& child);
  void remove(const MacAddress& child);

  std::size_t receive(std::span<Frame> frames) override;
  void release(std::span<const Frame> frames) override;
  std::size_t reserve(std::span<Frame> frames) override { return wire_->reserve(frames); }
  void submit(std::span<const Frame> frames) override;
  void submit_bulk(std::span<const Frame> frames) override;
  void cancel(std::span<const Frame> frames) override { wire_->cancel(frames); }
  void flush() override;
  std::uint32_t mtu() const override { return wire_->mtu(); }
  std::uint32_t payload_limit(const MacAddress& to) const override {
    return trains_ != nullptr && trains_->knows(to) ? trains_->payload_limit() : mtu();
  }
  TrainAddress train_address() const override {
    return trains_ != nullptr ? trains_->address() : TrainAddress{};
  }
  bool learn_train(const MacAddress& peer, const TrainAddress& at, unsigned attempt) override {
    return trains_ != nullptr && trains_->learn(peer, at, attempt);
  }
  void leave_train(const MacAddress& peer) override {
    if (trains_ != nullptr) trains_->leave(peer);
  }
  bool came_by_train(const Frame& frame) const override {
    return trains_ != nullptr && trains_->owns(frame);
  }
  MacAddress address() const override { return address_; }
  std::uint32_t lendable() const override { return wire_->lendable(); }
  std::uint32_t backlog() const override {
    const std::uint32_t wire = wire_->backlog();
    return has_relay() ? std::min(wire, relay_->backlog()) : wire;
  }
  int descriptor() const override;
  std::string mode() const override { return wire_->mode(); }
  PortCounters counters() override;
  bool alive() const override { return wire_->alive(); }
  bool reaches(const MacAddress& address) const override {
    return address == address_ || wire_->reaches(address);
  }

 private:
  enum class Way : std::uint8_t { kWire, kSelf, kChild };
  Way way_of(const Frame& frame) const;
  bool is_child(const std::byte* address) const;
  void turn_back(const Frame& frame);
  void watch(int fd);
  void flush_train();
  std::size_t receive_express(std::span<Frame> frames);
  void send_to_child(const Frame& frame);
  std::size_t receive_own(std::span<Frame> frames);
  std::size_t receive_from_relay(std::span<Frame> frames);

  std::unique_ptr<Port> wire_;
  std::unique_ptr<Port> relay_;
  std::unique_ptr<TrainSocket> trains_;
  std::uint32_t rounds_ = 0;                    // without a look at trains
  MacAddress address_;
  std::size_t stride_;
  std::vector<std::byte> memory_;               // of frames to itself; made at the first use
  std::vector<std::uint32_t> free_;             // its buffers
  std::vector<Frame> queue_;                    // frames [head_, end) wait for receive()
  std::size_t head_ = 0;
  std::uint64_t dropped_ = 0;
  std::array<std::uint64_t, 1024> children_{};  // by the low bits of the address
  bool relay_first_ = false;                    // whose turn it is in receive()
  int epoll_ = -1;                              // over the wire's descriptor and the others
  mutable int entered_ = -1;                    // the wire's in it
};

}  // namespace viaduct

#endif
