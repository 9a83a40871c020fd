// A port without a wire: what is sent goes nowhere and nothing ever comes. Behind a LoopbackPort it
// is a NIC on which only programs of this host meet.
#ifndef VIADUCT_XDP_NULL_PORT_H
#define VIADUCT_XDP_NULL_PORT_H

#include <cstdint>
#include <vector>

#include "xdp/port.h"

namespace viaduct {

class NullPort final : public Port {
 public:
  // Throws std::system_error when the system gives no event descriptor.
  NullPort(const MacAddress& address, std::uint32_t mtu);
  ~NullPort() override;
  NullPort(const NullPort&) = delete;
  NullPort& operator=(const NullPort&) = delete;

  std::size_t receive(std::span<Frame>) override { return 0; }
  void release(std::span<const Frame>) override {}
  std::size_t reserve(std::span<Frame> frames) override;
  void submit(std::span<const Frame> frames) override { cancel(frames); }
  void cancel(std::span<const Frame> frames) override;
  void flush() override {}
  std::uint32_t mtu() const override { return mtu_; }
  MacAddress address() const override { return address_; }
  std::uint32_t lendable() const override { return kBuffers; }
  int descriptor() const override { return never_; }
  std::string mode() const override { return "loopback"; }
  PortCounters counters() override { return {}; }
  bool alive() const override { return true; }
  bool reaches(const MacAddress&) const override { return false; }

 private:
  static constexpr std::uint32_t kBuffers = 256;

  MacAddress address_;
  std::uint32_t mtu_;
  std::size_t stride_;
  int never_;  // an event descriptor that is never readable, so that nobody has to poll
  std::vector<std::byte> memory_;
  std::vector<std::uint32_t> free_;
};

}  // namespace viaduct

#endif
