// A granted port as the simulation has it: see xdp/grant/granted_port.h, whose place this file takes when
// libvipl is compiled for it. The descriptor is that of a port of the simulated network; rings are real.
#ifndef VIADUCT_TESTS_SIM_SEAM_XDP_GRANT_GRANTED_PORT_H
#define VIADUCT_TESTS_SIM_SEAM_XDP_GRANT_GRANTED_PORT_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "xdp/grant/granted_layout.h"
#include "xdp/grant/granted_paths.h"
#include "xdp/port.h"

namespace viaduct {

namespace sim {

struct PortFile;

// The queue of GrantedPaths. What a dead port sends goes nowhere.
struct FileQueue {
  std::shared_ptr<PortFile> file;
  GrantedLayout layout{};

  bool dead() const;
  std::size_t receive(std::span<Frame> frames);
  void release(std::span<const Frame> frames);
  std::size_t reserve(std::span<Frame> frames);
  void submit(std::span<const Frame> frames);
  void cancel(std::span<const Frame> frames);
  void flush();
  bool has_frames() const;
};

// The trains of GrantedPaths: the network's, which come by the queue.
struct FileTrains {
  std::shared_ptr<PortFile> file;

  bool is_due() const { return false; }
  bool look() const { return false; }
  std::size_t receive(std::span<Frame>) { return 0; }
  bool owns(const Frame&) const { return false; }
  void release(const Frame&) {}
  bool knows_any() const { return false; }
  bool knows(const MacAddress& peer) const;
  std::uint32_t payload_limit() const;
  bool add(const Frame& frame);
  static constexpr std::size_t kMostPieces = 8;
  bool add(std::span<const std::byte> head, std::span<const iovec> pieces);
  bool has_waiting() const { return false; }
  std::span<const Frame> waiting() const { return {}; }
  bool send() { return true; }
};

}  // namespace sim

class GrantedPort : public GrantedPaths<sim::FileQueue, sim::FileTrains> {
 public:
  GrantedPort() = default;
  ~GrantedPort();
  GrantedPort(const GrantedPort&) = delete;
  GrantedPort& operator=(const GrantedPort&) = delete;

  const char* open(int socket, int umem, const GrantedLayout& layout);
  const char* open_trains(int, int, const int (&)[2], const TrainAddress&, std::uint32_t) { return nullptr; }

  // Nothing of a dead program reaches the rings either.
  std::size_t receive(std::span<Frame> frames) { return queue_.dead() ? 0 : GrantedPaths::receive(frames); }
  void submit(std::span<const Frame> frames) {
    if (!queue_.dead()) GrantedPaths::submit(frames);
  }
  void flush() {
    if (!queue_.dead()) GrantedPaths::flush();
  }
  bool has_frames() { return !queue_.dead() && GrantedPaths::has_frames(); }
  bool prepare_to_sleep() { return queue_.dead() || GrantedPaths::prepare_to_sleep(); }
  std::uint32_t payload_limit(const MacAddress& to) const {
    return queue_.dead() ? layout_.mtu : GrantedPaths::payload_limit(to, layout_.mtu);
  }
  bool reserve_for(const MacAddress& to, std::uint32_t bytes, Frame& frame) {
    return !queue_.dead() && GrantedPaths::reserve_for(to, bytes, frame);
  }
  // Takes the descriptor over.
  const char* add_local(const MacAddress& peer, std::uint64_t program, int file, unsigned end, const WholeFrame& wake);

  TrainAddress train_address() const;
  bool learn_train(const MacAddress& peer, const TrainAddress& at, unsigned attempt);
  void leave_train(const MacAddress& peer);
  bool came_by_train(const Frame& frame) const;
  void sleeps() {}
  std::uint32_t mtu() const { return layout_.mtu; }
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
};

}  // namespace viaduct

#endif
