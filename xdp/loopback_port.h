// A port that keeps frames to its own address on the host: they come back from receive() without
// having been on the wire. Everything else goes to the port that it wraps.
#ifndef VIADUCT_XDP_LOOPBACK_PORT_H
#define VIADUCT_XDP_LOOPBACK_PORT_H

#include <cstdint>
#include <memory>
#include <vector>

#include "xdp/port.h"

namespace viaduct {

class LoopbackPort final : public Port {
 public:
  explicit LoopbackPort(std::unique_ptr<Port> wire);

  std::size_t receive(std::span<Frame> frames) override;
  void release(std::span<const Frame> frames) override;
  std::size_t reserve(std::span<Frame> frames) override { return wire_->reserve(frames); }
  void submit(std::span<const Frame> frames) override;
  void cancel(std::span<const Frame> frames) override { wire_->cancel(frames); }
  void flush() override { wire_->flush(); }
  std::uint32_t mtu() const override { return wire_->mtu(); }
  MacAddress address() const override { return address_; }
  std::uint32_t lendable() const override { return wire_->lendable(); }
  std::uint32_t backlog() const override { return wire_->backlog(); }
  int descriptor() const override { return wire_->descriptor(); }
  std::string mode() const override { return wire_->mode(); }
  PortCounters counters() override;
  bool alive() const override { return wire_->alive(); }
  bool reaches(const MacAddress& address) const override {
    return address == address_ || wire_->reaches(address);
  }

 private:
  bool is_own(const Frame& frame) const;
  void turn_back(const Frame& frame);

  std::unique_ptr<Port> wire_;
  MacAddress address_;
  std::size_t stride_;
  std::vector<std::byte> memory_;         // made at the first use
  std::vector<std::uint32_t> free_;
  std::vector<Frame> queue_;              // frames [head_, end) wait for receive()
  std::size_t head_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace viaduct

#endif
