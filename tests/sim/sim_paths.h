// The port of a simulated stack with all paths that real ports have: the simulated network for single frames and
// trains, and real rings (xdp/local/local_ring.h) to granted stacks of the same host, joined as a granted port's.
#ifndef VIADUCT_TESTS_SIM_SIM_PATHS_H
#define VIADUCT_TESTS_SIM_SIM_PATHS_H

#include <memory>
#include <string>
#include <utility>

#include "kagent/contract/wire.h"
#include "tests/sim/sim_port.h"
#include "xdp/bulk_path.h"
#include "xdp/grant/granted_paths.h"

namespace viaduct::sim {

// The queue of GrantedPaths: frames pass through `port`, and wait at `nic`.
struct SimQueue {
  std::unique_ptr<Port> port;
  SimPort* nic = nullptr;

  std::size_t receive(std::span<Frame> frames) { return port->receive(frames); }
  void release(std::span<const Frame> frames) { port->release(frames); }
  std::size_t reserve(std::span<Frame> frames) { return port->reserve(frames); }
  void submit(std::span<const Frame> frames) { port->submit(frames); }
  void cancel(std::span<const Frame> frames) { port->cancel(frames); }
  void flush() { port->flush(); }
  bool has_frames() const { return nic->waiting() != 0; }
};

// The trains of GrantedPaths. The simulated network has one queue for frames of both kinds, in the order in which
// they arrive, so none is left to be received here.
struct SimTrains {
  SimPort* nic = nullptr;

  bool is_due() const { return false; }
  bool look() const { return false; }
  std::size_t receive(std::span<Frame>) { return 0; }
  bool owns(const Frame&) const { return false; }
  void release(const Frame&) {}
  bool knows_any() const { return false; }
  bool knows(const MacAddress& peer) const { return nic->has_train(peer); }
  std::uint32_t payload_limit() const { return nic->train_payload_limit(); }
  bool add(const Frame& frame) {
    nic->submit_bulk({&frame, 1}, [](Frame&) {});
    return true;
  }
  static constexpr std::size_t kMostPieces = 8;
  bool add(std::span<const std::byte> head, std::span<const iovec> pieces) { return nic->submit_pieces(head, pieces); }
  bool has_waiting() const { return false; }
  std::span<const Frame> waiting() const { return {}; }
  bool send() { return true; }
};

class SimPaths final : public Port, public BulkPath, public GrantedPaths<SimQueue, SimTrains> {
 public:
  // `relays`: single frames to programs of the same host pass another port than the network's, as an agent's do.
  SimPaths(std::unique_ptr<Port> through, SimPort& nic, bool relays) : relays_(relays) {
    queue_ = {std::move(through), &nic};
    trains_ = {&nic};
  }

  std::size_t receive(std::span<Frame> frames) override { return GrantedPaths::receive(frames); }
  void release(std::span<const Frame> frames) override { GrantedPaths::release(frames); }
  std::size_t reserve(std::span<Frame> frames) override { return GrantedPaths::reserve(frames); }
  void submit(std::span<const Frame> frames) override {
    for (const Frame& frame : frames) GrantedPaths::submit({&frame, 1});
  }
  void submit_bulk(std::span<const Frame> frames, Prepare prepare) override {
    for (Frame frame : frames) {
      MacAddress to;
      std::copy_n(reinterpret_cast<const std::uint8_t*>(frame.data), to.size(), to.begin());
      const bool relayed = relays_ && to.back() == address().back();
      const bool by_train = nic().has_train(to) && !relayed;
      if (by_train) {
        GrantedPaths::submit_bulk({&frame, 1}, prepare);
      } else {
        prepare(frame);
        GrantedPaths::submit({&frame, 1});
      }
    }
  }
  bool takes_pieces_of(std::uint32_t program) const override { return GrantedPaths::takes_pieces_of(program); }
  bool submit_pieces(std::span<const std::byte> head, std::span<const iovec> pieces) override {
    MacAddress to;
    std::copy_n(reinterpret_cast<const std::uint8_t*>(head.data()), to.size(), to.begin());
    const bool relayed = relays_ && to.back() == address().back();
    return nic().has_train(to) && !relayed && GrantedPaths::submit_pieces(head, pieces);
  }
  void cancel(std::span<const Frame> frames) override {
    for (const Frame& frame : frames) GrantedPaths::cancel({&frame, 1});
  }
  void flush() override { GrantedPaths::flush(); }
  std::uint32_t mtu() const override { return nic().mtu(); }
  std::uint32_t payload_limit(const MacAddress& to) const override { return GrantedPaths::payload_limit(to, mtu()); }
  bool reserve_for(const MacAddress& to, std::uint32_t bytes, Frame& frame) override {
    return GrantedPaths::reserve_for(to, bytes, frame);
  }
  TrainAddress train_address() const override { return nic().train_address(); }
  bool learn_train(const MacAddress& peer, const TrainAddress& at, unsigned attempt) override {
    return nic().learn_train(peer, at, attempt);
  }
  void leave_train(const MacAddress& peer) override { nic().leave_train(peer); }
  bool came_by_train(const Frame& frame) const override {
    return (frame.id & local::LocalPeers::kId) == 0 && nic().came_by_train(frame);
  }
  MacAddress address() const override { return nic().address(); }
  std::uint32_t lendable() const override { return nic().lendable(); }
  std::uint32_t backlog() const override { return nic().backlog(); }
  int descriptor() const override { return -1; }
  std::string mode() const override { return "sim"; }
  PortCounters counters() override { return nic().counters(); }
  bool alive() const override { return nic().alive(); }
  bool reaches(const MacAddress& to) const override { return queue_.port->reaches(to); }
  BulkPath& bulk_path() override { return *this; }

  // As GrantedPaths::add_local().
  const char* add_local(const MacAddress& peer, std::uint64_t program, int file, unsigned end) {
    wire::Header header{};
    header.type = wire::Type::kWake;
    WholeFrame wake;
    wire::encode(header, peer, address(), wire::kDefaultEtherType, wake.data());
    return GrantedPaths::add_local(address(), lendable(), peer, program, file, end, wake);
  }

 private:
  SimPort& nic() const { return *queue_.nic; }

  const bool relays_;
};

}  // namespace viaduct::sim

#endif
