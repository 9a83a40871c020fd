// The agent's port: an uplink, and what belongs to this host.
//
//   stack -- submit --+--> own address: comes back from receive() without having been on the link
//                     +--> a granted child of the interface: through the relay
//                     +--> everything else: the uplink
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
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "xdp/bulk_path.h"
#include "xdp/grant/child_set.h"
#include "xdp/own_frames.h"
#include "xdp/port.h"
#include "xdp/train/open_train_socket.h"
#include "xdp/train/train_socket.h"

namespace viaduct {

class HostPort final : public Port {
 public:
  explicit HostPort(std::unique_ptr<Port> uplink);
  ~HostPort() override;

  // An uplink that leads nowhere, for a NIC on which only programs of this host meet. Throws
  // std::system_error when the system gives no event descriptor.
  static std::unique_ptr<Port> no_uplink(const MacAddress& address, std::uint32_t mtu);

  // Opens the relay, at most once. Throws PortError, and then all is as before.
  void open_relay(std::unique_ptr<Port> relay);
  bool has_relay() const { return relay_ != nullptr; }
  // How granted programs reach this port; while has_relay().
  MacAddress relay() const { return relay_->address(); }

  // Opens trains of these frame types on the uplink, at most once. Throws PortError, and then all is as before.
  void open_trains(OpenedTrainSocket&& socket, std::uint32_t types);
  // Null: none.
  const TrainSocket* trains() const { return bulk_path_.trains(); }

  // Registers a granted child (an address that a GrantFilter has given out).
  void add(const MacAddress& child) { children_.add(child); }
  void remove(const MacAddress& child) { children_.remove(child); }

  std::size_t receive(std::span<Frame> frames) override;
  void release(std::span<const Frame> frames) override;
  std::size_t reserve(std::span<Frame> frames) override { return uplink_->reserve(frames); }
  void submit(std::span<const Frame> frames) override;
  void cancel(std::span<const Frame> frames) override { uplink_->cancel(frames); }
  void flush() override;
  std::uint32_t mtu() const override { return uplink_->mtu(); }
  MacAddress address() const override { return address_; }
  std::uint32_t lendable() const override { return uplink_->lendable(); }
  std::uint32_t backlog() const override {
    const std::uint32_t uplink = uplink_->backlog();
    return has_relay() ? std::min(uplink, relay_->backlog()) : uplink;
  }
  int descriptor() const override;
  std::string mode() const override { return uplink_->mode(); }
  PortCounters counters() override;
  bool alive() const override { return uplink_->alive(); }
  bool reaches(const MacAddress& address) const override {
    return address == address_ || uplink_->reaches(address);
  }
  BulkPath& bulk_path() override { return bulk_path_; }

 private:
  // Sends frames to the uplink by train, once there are trains.
  class HostBulkPath final : public BulkPath {
   public:
    explicit HostBulkPath(HostPort& port) : port_(port) {}

    void submit_bulk(std::span<const Frame> frames, Prepare prepare) override;
    bool takes_pieces_of(std::uint32_t) const override { return false; }
    bool submit_pieces(std::span<const std::byte>, std::span<const iovec>) override { return false; }
    std::uint32_t payload_limit(const MacAddress& to) const override {
      return trains_ != nullptr && trains_->knows(to) ? trains_->payload_limit() : port_.mtu();
    }
    bool reserve_for(const MacAddress&, std::uint32_t, Frame&) override { return false; }
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
    void trains_came() override {
      if (trains_ != nullptr) trains_->expect();
    }

    const TrainSocket* trains() const { return trains_.get(); }
    void open(std::unique_ptr<TrainSocket> trains) { trains_ = std::move(trains); }
    void flush() {
      if (trains_ != nullptr && trains_->has_waiting()) flush_train();
    }
    // To be called in each round: whether it is time to look for a train.
    bool is_due();
    // To be called then: whether there is a train to receive.
    bool look() { return trains_->look(); }
    std::size_t receive(std::span<Frame> frames) { return trains_->receive(frames); }
    void release(const Frame& frame) { trains_->release(frame); }

   private:
    void flush_train();

    HostPort& port_;
    std::unique_ptr<TrainSocket> trains_;
    Prepare prepare_ = nullptr;  // of the frames of the train that waits
    std::uint32_t rounds_ = 0;   // without a look at trains
  };

  enum class Way : std::uint8_t { kUplink, kSelf, kChild };
  Way way_of(const Frame& frame) const;
  void watch(int fd);
  std::size_t receive_express(std::span<Frame> frames);
  void send_to_child(const Frame& frame);
  std::size_t receive_from_relay(std::span<Frame> frames);

  std::unique_ptr<Port> uplink_;
  std::unique_ptr<Port> relay_;
  HostBulkPath bulk_path_;
  MacAddress address_;
  OwnFrames own_frames_;
  ChildSet children_;
  bool relay_first_ = false;   // whose turn it is in receive()
  int epoll_ = -1;             // over the uplink's descriptor and those of relay and trains
  mutable int entered_ = -1;   // the uplink's descriptor that is in it
};

}  // namespace viaduct

#endif
