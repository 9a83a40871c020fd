// The agent's own macvlan child of an interface, by which it and the granted children reach each other.
#ifndef VIADUCT_XDP_GRANT_MACVLAN_RELAY_H
#define VIADUCT_XDP_GRANT_MACVLAN_RELAY_H

#include <cstdint>
#include <string>

#include "xdp/bulk_path.h"
#include "xdp/grant/grant.h"
#include "xdp/grant/granted_port.h"
#include "xdp/port.h"

namespace viaduct {

class MacvlanRelay final : public Port {
 public:
  // `kept`: how many received frames may be kept. `filter` must outlive the port. Throws PortError.
  MacvlanRelay(GrantFilter& filter, std::uint16_t ether_type, std::uint32_t kept);

  std::size_t receive(std::span<Frame> frames) override { return port_.receive(frames); }
  void release(std::span<const Frame> frames) override { port_.release(frames); }
  std::size_t reserve(std::span<Frame> frames) override { return port_.reserve(frames); }
  void submit(std::span<const Frame> frames) override { port_.submit(frames); }
  void cancel(std::span<const Frame> frames) override { port_.cancel(frames); }
  void flush() override { port_.flush(); }
  std::uint32_t mtu() const override { return port_.mtu(); }
  MacAddress address() const override { return port_.address(); }
  std::uint32_t lendable() const override { return port_.lendable(); }
  std::uint32_t backlog() const override { return port_.backlog(); }
  int descriptor() const override { return port_.descriptor(); }
  std::string mode() const override { return "xdp-generic"; }
  PortCounters counters() override { return port_.counters(); }
  bool alive() const override { return true; }
  bool reaches(const MacAddress&) const override { return true; }
  BulkPath& bulk_path() override { return no_bulk_path_; }

 private:
  Grant grant_;
  GrantedPort port_;
  NoBulkPath no_bulk_path_{*this};
};

}  // namespace viaduct

#endif
