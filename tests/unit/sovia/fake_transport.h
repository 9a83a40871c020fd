// Two transports that are connected: a link that delivers in order, when the test says so.
//
// A packet goes through three steps, each of which the test takes: it is delivered into the oldest
// receive that the peer has posted, it is taken in by the peer's lane, and it completes at its sender.
// The link watches what a VI would not forgive: a packet that finds no receive, a place that is used
// while it is on its way, bytes that change before the packet has completed; and it keeps accounts of
// the credits.
#ifndef VIADUCT_TESTS_UNIT_SOVIA_FAKE_TRANSPORT_H
#define VIADUCT_TESTS_UNIT_SOVIA_FAKE_TRANSPORT_H

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "sovia/lane/lane.h"
#include "sovia/lane/lane_vi.h"
#include "sovia/lane/packet.h"

namespace viaduct::sovia {

class FakeTransport final : public Transport, public LaneVi, public RemoteMemory {
 public:
  explicit FakeTransport(const LanePlaces& places)
      : places_(places),
        data_(new std::byte[std::size_t{places.data} * kChunkBytes]),
        control_(new std::byte[std::size_t{places.control} * kControlBytes]),
        receive_(new std::byte[std::size_t{places.receive} * kChunkBytes]),
        data_busy_(places.data),
        control_busy_(places.control),
        write_busy_(places.writes),
        receive_posted_(places.receive) {
    use_receives(places.receive_at_first);
  }
  void connect(FakeTransport& peer) { peer_ = &peer; }

  // ------------------------------------------------------------------ Transport
  std::byte* data_chunk(std::uint32_t place) override {
    EXPECT_LT(place, places_.data);
    return data_.get() + std::size_t{place} * kChunkBytes;
  }
  std::byte* control_bytes(std::uint32_t place) override {
    EXPECT_LT(place, places_.control);
    EXPECT_FALSE(control_busy_[place]);
    return control_.get() + std::size_t{place} * kControlBytes;
  }
  std::byte* received(std::uint32_t place) override {
    EXPECT_FALSE(receive_posted_.at(place)) << "the place has been given back";
    return receive_.get() + std::size_t{place} * kChunkBytes;
  }
  bool post_data(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) override {
    EXPECT_LE(bytes, kChunkBytes);
    return post({true, place, data_chunk(place), bytes, immediate, {}});
  }
  bool post_control(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) override {
    EXPECT_LE(bytes, kControlBytes);
    return post({false, place, control_.get() + std::size_t{place} * kControlBytes, bytes,
                 immediate, {}});
  }
  bool post_memory(std::uint32_t place, const std::byte* data, std::uint32_t bytes, std::uint32_t,
                   std::uint32_t immediate) override {
    return post({true, place, data, bytes, immediate, {}});
  }
  bool post_receive(std::uint32_t place) override {
    if (down_) return false;
    EXPECT_FALSE(receive_posted_.at(place)) << "posted twice";
    receive_posted_[place] = true;
    receives_.push_back(place);
    return true;
  }
  bool use_receives(std::uint32_t count) override {
    EXPECT_LE(count, places_.receive);
    for (; receives_used_ < count; ++receives_used_) {
      if (!post_receive(receives_used_)) return false;
    }
    return true;
  }
  std::uint32_t receives_used() const { return receives_used_; }
  void failed() override {
    ++failures_;
    if (receives.told != nullptr) receives.told->transport_failed();
  }
  std::uint32_t failures() const { return failures_; }
  bool redirect(std::byte* to, std::uint32_t bytes, std::uint32_t) override {
    EXPECT_EQ(redirected_.to, nullptr) << "redirected twice";
    if (down_ || !arrivals_.empty() || receives_.empty()) return false;
    redirected_ = {to, bytes, false, false};
    return true;
  }
  bool unredirect() override {
    EXPECT_NE(redirected_.to, nullptr);
    const bool used = redirected_.used;
    redirected_ = {};
    return used;
  }
  void hold(bool holds) override { holds_ = holds; }
  void set_patient(bool patient) override { patient_ = patient; }
  bool is_patient() const { return patient_; }
  bool post_write(std::uint32_t place, const std::byte* data, std::uint32_t bytes, std::uint32_t,
                  std::uint64_t to, std::uint32_t to_memory) override {
    if (down_) return false;
    EXPECT_FALSE(write_busy_.at(place)) << "a place is used while it is on its way";
    EXPECT_LE(bytes, kChunkBytes);
    write_busy_[place] = true;
    Packet packet{false, place, data, bytes, 0, {data, data + bytes}};
    packet.to = reinterpret_cast<std::byte*>(to);
    packet.to_memory = to_memory;
    on_way_.push_back(std::move(packet));
    return true;
  }
  bool reads() const override { return places_.writes != 0; }
  bool post_read(std::uint32_t place, std::byte* data, std::uint32_t bytes, std::uint32_t, std::uint64_t from,
                 std::uint32_t from_memory) override {
    if (down_) return false;
    EXPECT_FALSE(write_busy_.at(place)) << "a place is used while it is on its way";
    EXPECT_LE(bytes, kChunkBytes);
    write_busy_[place] = true;
    Packet packet{false, place, data, bytes, 0, {}};
    packet.to = reinterpret_cast<std::byte*>(from);
    packet.to_memory = from_memory;
    packet.read_to = data;
    on_way_.push_back(std::move(packet));
    return true;
  }
  std::uint32_t open_memory(std::byte* at, std::size_t bytes, Access access = Access::kWrite) override {
    open_[++last_memory_] = {at, bytes, access};
    return last_memory_;
  }
  void close_memories() override { open_.clear(); }
  void close_memory(std::byte* at, std::uint32_t memory) override {
    EXPECT_EQ(open_.count(memory), 1u) << "closed twice";
    EXPECT_EQ(open_[memory].at, at);
    open_.erase(memory);
  }
  std::size_t open_regions() const { return open_.size(); }
  std::uint32_t completed() override {
    const std::uint32_t count = completed_;
    completed_ = 0;
    return count;
  }

  Transport& transport() override { return *this; }
  RemoteMemory* remote() override { return places_.writes != 0 ? this : nullptr; }
  VIP_RETURN connected() override { return VIP_SUCCESS; }
  void disconnect() override { break_down(); }
  bool take(ProcessNic::Arrival& arrival) override {
    if (arrivals_.empty()) return false;
    const Arrival& first = arrivals_.front();
    arrival = {nullptr, false, false, first.place, first.bytes, first.immediate};
    arrivals_.pop_front();
    return true;
  }
  std::uint32_t take_memory(const void*, std::size_t) override { return 7; }
  void give_back_memory(std::uint32_t memory) override { EXPECT_EQ(memory, 7u); }
  void destroy() override {}

  // ------------------------------------------------------------------ the link's steps
  // The oldest packet on its way reaches the peer's memory.
  bool deliver() {
    if (down_ || on_way_.empty() || (holds_writes_ && on_way_.front().to != nullptr)) return false;
    Packet packet = std::move(on_way_.front());
    on_way_.pop_front();
    peer_->accept(packet);
    uncompleted_.push_back(std::move(packet));
    return true;
  }
  // Nothing that goes to the peer's memory, or comes from there, is delivered, nor what is behind it.
  void hold_writes() { holds_writes_ = true; }
  // The oldest delivered packet completes.
  bool complete() {
    if (down_ || uncompleted_.empty()) return false;
    const Packet& packet = uncompleted_.front();
    check_unchanged(packet);
    (packet.to != nullptr ? write_busy_ : packet.is_data ? data_busy_ : control_busy_)[packet.place] = false;
    uncompleted_.pop_front();
    ++completed_;
    return true;
  }
  // Shows the oldest arrival to the lane.
  bool take_in(Lane& lane, unsigned* changes = nullptr) {
    if (arrivals_.empty()) return false;
    const Arrival arrival = arrivals_.front();
    arrivals_.pop_front();
    const unsigned all = lane.arrived(arrival.place, arrival.bytes, arrival.immediate);
    if (changes != nullptr) *changes |= all;
    return true;
  }
  // ... or to none: it only counts as delivered.
  bool swallow() {
    if (on_way_.empty()) return false;
    uncompleted_.push_back(std::move(on_way_.front()));
    on_way_.pop_front();
    return true;
  }
  // The VI has lost its connection; earlier arrivals stay.
  void break_down() { down_ = true; }
  // A packet that no lane would send comes from the peer. False: it finds no receive.
  bool inject(std::uint32_t immediate, const void* body = nullptr, std::uint32_t bytes = 0) {
    if (receives_.empty()) return false;
    accept({false, 0, static_cast<const std::byte*>(body), bytes, immediate, {}});
    return true;
  }

  bool idle() const { return on_way_.empty() && uncompleted_.empty() && arrivals_.empty(); }
  std::size_t on_way() const { return on_way_.size(); }
  std::size_t free_receives() const { return receives_.size(); }

  // ------------------------------------------------------------------ accounts
  std::uint32_t sent(PacketType type) const { return sent_[static_cast<unsigned>(type)]; }
  std::uint64_t credits_sent() const { return credits_sent_; }
  // Of the stream.
  std::uint64_t data_bytes() const { return data_bytes_; }
  std::uint32_t last_immediate() const { return last_immediate_; }
  bool holds() const { return holds_; }

 private:
  struct Packet {
    bool is_data;
    std::uint32_t place;
    const std::byte* data;
    std::uint32_t bytes, immediate;
    std::vector<std::byte> as_posted;
    std::byte* to = nullptr;  // a write: where to
    std::uint32_t to_memory = 0;
    std::byte* read_to = nullptr;  // it is a read, of what is at `to`
  };
  struct Region {
    std::byte* at;
    std::size_t bytes;
    Access access;
  };
  struct Arrival {
    std::uint32_t place, bytes, immediate;
  };

  bool post(Packet packet) {
    if (down_) return false;
    auto& busy = packet.is_data ? data_busy_ : control_busy_;
    EXPECT_LT(packet.place, busy.size());
    EXPECT_FALSE(busy[packet.place]) << "a place is used while it is on its way";
    busy[packet.place] = true;
    if (packet.bytes != 0) packet.as_posted.assign(packet.data, packet.data + packet.bytes);
    const PacketType type = type_of(packet.immediate);
    EXPECT_EQ(type == PacketType::kData, packet.is_data);
    ++sent_[static_cast<unsigned>(type) & 0xf];
    const bool often = type == PacketType::kAck || type >= PacketType::kSink;
    if (type != PacketType::kData && !often) {
      EXPECT_EQ(sent(type), 1u) << "sent twice: type " << static_cast<unsigned>(type);
    }
    EXPECT_EQ(sent(PacketType::kWakeup), 1u) << "before WAKEUP";
    credits_sent_ += credits_of(packet.immediate);
    const bool is_first = packet.is_data && flags_of(packet.immediate) == kFlagFirst;
    if (packet.is_data) data_bytes_ += packet.bytes - (is_first ? sizeof(First) : 0);
    last_immediate_ = packet.immediate;
    on_way_.push_back(std::move(packet));
    return true;
  }
  // A VI ends the connection when a write meets memory that is not open.
  void accept_write(const Packet& packet) {
    check_unchanged(packet);
    const auto region = open_.find(packet.to_memory);
    const bool allowed = region != open_.end() && packet.to >= region->second.at &&
                         packet.bytes <= region->second.bytes &&
                         packet.to - region->second.at <= static_cast<std::ptrdiff_t>(region->second.bytes - packet.bytes);
    const bool reads = packet.read_to != nullptr;
    const Access needed = reads ? Access::kRead : Access::kWrite;
    if (allowed && (static_cast<unsigned>(region->second.access) & static_cast<unsigned>(needed)) != 0) {
      std::memcpy(reads ? packet.read_to : packet.to, reads ? packet.to : packet.data, packet.bytes);
    } else {
      ADD_FAILURE() << (reads ? "a read of" : "a write to") << " memory that is not open";
    }
  }
  void accept(const Packet& packet) {
    if (packet.to != nullptr) return accept_write(packet);
    if (receives_.empty()) {
      ADD_FAILURE() << "a packet finds no receive";
      return;
    }
    check_unchanged(packet);
    const std::uint32_t place = receives_.front();
    receives_.pop_front();
    receive_posted_[place] = false;
    const bool redirected =
        redirected_.to != nullptr && !redirected_.over && packet.bytes <= redirected_.bytes;
    redirected_.used |= redirected;
    redirected_.over = true;
    if (redirected && packet.bytes != 0) {
      std::memcpy(redirected_.to, packet.data, packet.bytes);
    } else if (packet.bytes != 0) {
      std::memcpy(receive_.get() + std::size_t{place} * kChunkBytes, packet.data, packet.bytes);
    }
    arrivals_.push_back({place, packet.bytes, packet.immediate});
  }
  static void check_unchanged(const Packet& packet) {
    EXPECT_TRUE(packet.as_posted.empty() ||
                std::memcmp(packet.as_posted.data(), packet.data, packet.bytes) == 0)
        << "bytes have changed on their way";
  }

  const LanePlaces places_;
  const std::unique_ptr<std::byte[]> data_, control_, receive_;
  std::vector<bool> data_busy_, control_busy_, write_busy_, receive_posted_;
  std::map<std::uint32_t, Region> open_;
  std::uint32_t last_memory_ = 0;
  std::deque<std::uint32_t> receives_;
  std::deque<Packet> on_way_, uncompleted_;
  std::deque<Arrival> arrivals_;
  std::uint32_t completed_ = 0, failures_ = 0;
  FakeTransport* peer_ = nullptr;
  bool down_ = false, holds_writes_ = false, holds_ = false;
  bool patient_ = false;
  std::uint32_t receives_used_ = 0;
  struct {
    std::byte* to;
    std::uint32_t bytes;
    bool used, over;  // a packet has gone there; one has come
  } redirected_{};

  std::uint32_t sent_[16] = {};
  std::uint64_t credits_sent_ = 0, data_bytes_ = 0;
  std::uint32_t last_immediate_ = 0;
};

}  // namespace viaduct::sovia

#endif
