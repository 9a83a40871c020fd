#include "sovia/socket/socket_rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "sovia/lane/registrations.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/redirected_receive.h"

namespace viaduct::sovia {
namespace {

// Something of a lane that a call waits for at its socket.
template <class Ready>
class LaneInterest final : public Interest {
 public:
  LaneInterest(const Watched& socket, Ready ready) : socket_(socket), ready_(ready) {}
  bool ready() override { return ready_(); }
  bool concerns(const Watched& source) const override { return &source == &socket_; }

 private:
  const Watched& socket_;
  Ready ready_;
};

}  // namespace

// ---------------------------------------------------------------------------- receiving

bool SocketRendezvous::OpenSink::open(SocketRendezvous& socket, std::uint32_t number, const iovec& buffer) {
  auto* const at = static_cast<std::byte*>(buffer.iov_base);
  const std::size_t bytes = std::min<std::size_t>(buffer.iov_len, kMostMessage);
  if (bytes == 0) return false;
  LaneEndpoint* end;
  {
    const std::scoped_lock guard(socket.in_);
    end = socket.lane_;
    if (end == nullptr || socket.receiving_ != Phase::kLane || socket.inherited_bytes_ != nullptr ||
        socket.read_shut_) {
      return false;
    }
    const std::scoped_lock lane_guard(end->lane.lock());
    if (!end->lane.has_sinks() || end->lane.unread() != 0 || end->lane.receiving() != Lane::State::kUp) return false;
    ++end->pins;
  }
  const std::uint32_t memory = writable(at, bytes) ? end->wire.open_memory(at, bytes, Wire::Access::kWrite) : 0;
  bool told = false;
  if (memory != 0) {
    const std::scoped_lock lane_guard(end->lane.lock());
    told = end->lane.open_sink(number, at, static_cast<std::uint32_t>(bytes), memory);
  }
  if (!told) {
    if (memory != 0) end->wire.close_memory(at, memory);
    socket.let_go(*end);
    return false;
  }
  socket_ = &socket;
  end_ = end;
  at_ = at;
  memory_ = memory;
  return true;
}

SocketRendezvous::OpenSink::State SocketRendezvous::OpenSink::look(std::uint32_t& length) {
  const std::scoped_lock guard(end_->lane.lock());
  const Lane& lane = end_->lane;
  if (lane.sink() == Lane::SinkState::kPlaced) {
    length = lane.placed_length();
    return State::kPlaced;
  }
  // What has come before a send failed is yet to be taken in.
  const bool lost = lane.is_cut() || lane.receiving() == Lane::State::kEnded;
  return lost || lane.sink() == Lane::SinkState::kRevoked ? State::kVoid : State::kWaits;
}

void SocketRendezvous::OpenSink::revoke() {
  const std::scoped_lock guard(end_->lane.lock());
  end_->lane.revoke_sink();
}

void SocketRendezvous::OpenSink::give_up() { end_->give_up(); }

void SocketRendezvous::OpenSink::close() {
  if (end_ == nullptr) return;
  LaneEndpoint& end = *std::exchange(end_, nullptr);
  // First, so that nothing comes to what is the program's again.
  end.wire.close_memory(at_, memory_);
  {
    const std::scoped_lock guard(end.lane.lock());
    end.lane.close_sink();
  }
  socket_->let_go(end);
}

Woken SocketRendezvous::await_sink(OpenSink& sink, std::uint64_t deadline, Signals signals) {
  const std::uint32_t before = routes();
  LaneInterest interest(*this, [&] {
    std::uint32_t length;
    if (sink.look(length) != OpenSink::State::kWaits) return true;
    return signals == Signals::kInterrupt && (routes() != before || answer(POLLIN, 0) != 0);
  });
  return wait_for(interest, nullptr, 0, deadline, nullptr, true, signals);
}

void SocketRendezvous::refuse_sink(std::uint32_t number) {
  const std::scoped_lock guard(in_);
  if (lane_ == nullptr) return;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  lane_->lane.refuse_sink(number);
}

// ---------------------------------------------------------------------------- sending

bool SocketRendezvous::Placing::begin(const iovec& message, std::uint32_t number) {
  {
    const std::scoped_lock guard(socket_.out_);
    LaneEndpoint* const end = socket_.lane_;
    if (end == nullptr || socket_.sending_ != Phase::kLane) return false;
    const std::scoped_lock lane_guard(end->lane.lock());
    if (!end->lane.has_sinks() || end->lane.sending() != Lane::State::kUp) return false;
    ++end->pins;
    end_ = end;
  }
  data_ = static_cast<const std::byte*>(message.iov_base);
  bytes_ = static_cast<std::uint32_t>(message.iov_len);
  number_ = number;
  if (readable(data_, bytes_)) memory_ = end_->wire.take_memory(data_, bytes_);
  return memory_ != 0;
}

SocketRendezvous::Placing::~Placing() {
  if (end_ == nullptr) return;
  if (memory_ != 0) end_->wire.give_back_memory(memory_);
  socket_.let_go(*end_);
}

// With the lane locked.
bool SocketRendezvous::Placing::is_lost() const {
  return end_->lane.broken() || end_->lane.sending() != Lane::State::kUp;
}

bool SocketRendezvous::Placing::has_target() const {
  const std::scoped_lock guard(end_->lane.lock());
  return !is_lost() && end_->lane.target(number_) == Lane::Target::kSink;
}

bool SocketRendezvous::Placing::await_target(std::uint64_t deadline) {
  LaneInterest interest(socket_, [this] {
    const std::scoped_lock guard(end_->lane.lock());
    return is_lost() || end_->lane.target(number_) != Lane::Target::kNone;
  });
  return wait_for(interest, nullptr, 0, deadline, nullptr, true, Signals::kInterrupt) == Woken::kReady && has_target();
}

bool SocketRendezvous::Placing::write() {
  std::uint32_t written = 0, all = 0;
  bool told = false, placed = false;
  const auto go_on = [&] {
    const std::scoped_lock guard(end_->lane.lock());
    Lane& lane = end_->lane;
    if (!told) {
      // The receiver took its buffer back before anything was written.
      if (lane.target(number_) != Lane::Target::kSink) return true;
      all = std::min(bytes_, lane.target_bytes());
      written += lane.write_to_sink(data_, written, bytes_, memory_);
      told = written == all && !lane.broken() && lane.tell_placed(bytes_);
    }
    placed = told && lane.has_placed();
    return placed || lane.broken();
  };
  LaneInterest interest(socket_, go_on);
  // Completions make no entries in the completion queue: look often.
  constexpr std::uint64_t kLookNs = 200'000;
  while (wait_for(interest, nullptr, 0, now_ns() + kLookNs, nullptr, true, Signals::kWait) != Woken::kReady) continue;
  if (!placed) return false;
  counters::add(Counter::kMessagesPlaced);
  counters::add(Counter::kBytesSentLane, all);
  return true;
}

}  // namespace viaduct::sovia
