// A granted port as the simulation has it: see xdp/grant/granted_port.h, whose place this file takes when
// libvipl is compiled for it. The descriptor is that of a port of the simulated network.
#ifndef VIADUCT_TESTS_SIM_SEAM_XDP_GRANT_GRANTED_PORT_H
#define VIADUCT_TESTS_SIM_SEAM_XDP_GRANT_GRANTED_PORT_H

#include <array>
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

using WholeFrame = std::array<std::byte, 60>;

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
  void submit_bulk(std::span<const Frame> frames);
  const char* open_trains(int, int, const int (&)[2], const TrainAddress&, std::uint32_t) { return nullptr; }
  TrainAddress train_address() const;
  bool learn_train(const MacAddress& peer, const TrainAddress& at, unsigned attempt);
  void leave_train(const MacAddress& peer);
  bool came_by_train(const Frame& frame) const;
  void cancel(std::span<const Frame> frames);
  void flush();
  bool has_frames() const;
  void sleeps() {}

  std::uint32_t mtu() const { return layout_.mtu; }
  std::uint32_t payload_limit(const MacAddress& to) const;
  bool reserve_for(const MacAddress&, std::uint32_t, Frame&) { return false; }
  bool prepare_to_sleep() { return true; }
  const char* add_local(const MacAddress&, std::uint64_t, int, unsigned, const WholeFrame&) {
    return "not simulated";
  }
  void end_local(const MacAddress&) {}
  MacAddress address() const { return layout_.address; }
  std::uint16_t ether_type() const { return layout_.ether_type; }
  std::uint32_t lendable() const;
  std::uint32_t backlog() const;
  int descriptor() const { return socket_; }
  int train_descriptor() const { return -1; }
  void trains_came() {}
  static constexpr int kDescriptors = 2;
  void descriptors(int (&out)[kDescriptors]) const { out[0] = socket_, out[1] = -1; }
  PortCounters counters() { return {}; }
  bool reaches(const MacAddress&) const { return true; }
  // The port is its own.
  GrantedPort& bulk_path() { return *this; }

 private:
  GrantedLayout layout_{};
  int socket_ = -1, umem_ = -1;
  std::shared_ptr<sim::PortFile> file_;
};

}  // namespace viaduct

#endif
