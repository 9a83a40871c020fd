// A granted port as the simulation has it: see xdp/grant/granted_port.h, whose place this file takes when
// libvipl is compiled for it. The descriptor is that of a port of the simulated network.
#ifndef VIADUCT_TESTS_SIM_SEAM_XDP_GRANT_GRANTED_PORT_H
#define VIADUCT_TESTS_SIM_SEAM_XDP_GRANT_GRANTED_PORT_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "xdp/grant/granted_layout.h"
#include "xdp/port.h"

namespace viaduct {

namespace sim {
struct PortFile;
}

class GrantedPort {
 public:
  GrantedPort() = default;
  ~GrantedPort();
  GrantedPort(const GrantedPort&) = delete;
  GrantedPort& operator=(const GrantedPort&) = delete;

  const char* open(int socket, int umem, const GrantedLayout& layout);

  std::size_t receive(std::span<Frame> frames);
  void release(std::span<const Frame> frames);
  std::size_t reserve(std::span<Frame> frames);
  void submit(std::span<const Frame> frames);
  void cancel(std::span<const Frame> frames);
  void flush();
  bool has_frames() const;

  std::uint32_t mtu() const { return layout_.mtu; }
  MacAddress address() const { return layout_.address; }
  std::uint32_t lendable() const;
  std::uint32_t backlog() const;
  int descriptor() const { return socket_; }
  PortCounters counters() { return {}; }
  bool reaches(const MacAddress&) const { return true; }

 private:
  GrantedLayout layout_{};
  int socket_ = -1, umem_ = -1;
  std::shared_ptr<sim::PortFile> file_;
};

}  // namespace viaduct

#endif
