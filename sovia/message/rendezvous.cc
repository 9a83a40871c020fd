#include "sovia/message/rendezvous.h"

#include <poll.h>

#include <algorithm>

#include "sovia/lane/registrations.h"
#include "sovia/message/frame.h"
#include "sovia/message/lane_condition.h"
#include "sovia/process/counters.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/lane_pin.h"
#include "sovia/socket/redirected_receive.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

bool may_open_sink(const Lane& lane) VIADUCT_REQUIRES(lane.lock()) {
  return lane.remote.is_open() && lane.rx.unread() == 0 && lane.control.receiving() == Lane::State::kUp;
}

bool is_lost(const Lane& lane) VIADUCT_REQUIRES(lane.lock()) {
  return lane.control.broken() || lane.control.sending() != Lane::State::kUp;
}

}  // namespace

// ---------------------------------------------------------------------------- receiving

bool OpenSink::open(std::uint32_t number, const iovec& buffer) {
  auto* const at = static_cast<std::byte*>(buffer.iov_base);
  const std::size_t bytes = std::min<std::size_t>(buffer.iov_len, kMostMessage);
  if (bytes == 0) return false;
  LanePin lane = pin_receiving_lane(socket_);
  if (!lane) return false;
  {
    const LockGuard guard(lane->lane.lock());
    if (!may_open_sink(lane->lane)) return false;
  }
  const std::uint32_t memory =
      writable(at, bytes) ? lane->vi.remote()->open_memory(at, bytes, RemoteMemory::Access::kWrite) : 0;
  if (memory == 0) return false;
  bool told = false;
  {
    const LockGuard guard(lane->lane.lock());
    told = lane->lane.sinks.open_sink(number, at, static_cast<std::uint32_t>(bytes), memory);
  }
  if (!told) {
    lane->vi.remote()->close_memory(at, memory);
    return false;
  }
  lane_ = std::move(lane);
  at_ = at;
  memory_ = memory;
  return true;
}

OpenSink::State OpenSink::look(std::uint32_t& length) {
  const Lane& lane = lane_->lane;
  const LockGuard guard(lane.lock());
  if (lane.sinks.sink() == LaneSinks::SinkState::kPlaced) {
    length = lane.sinks.placed_length();
    return State::kPlaced;
  }
  // A failed send alone does not make the sink void: packets that came before it have yet to be taken in.
  const bool lost = lane.control.is_cut() || lane.control.receiving() == Lane::State::kEnded;
  return lost || lane.sinks.sink() == LaneSinks::SinkState::kRevoked ? State::kVoid : State::kWaits;
}

Woken OpenSink::await(std::uint64_t deadline, Signals signals) {
  const std::uint32_t before = socket_.routes();
  LaneCondition condition(socket_, [&] {
    std::uint32_t length;
    if (look(length) != State::kWaits) return true;
    return signals == Signals::kInterrupt && (socket_.routes() != before || socket_.answer(POLLIN, 0) != 0);
  });
  return wait_for(condition, nullptr, 0, deadline, nullptr, true, signals);
}

void OpenSink::revoke() {
  const LockGuard guard(lane_->lane.lock());
  lane_->lane.sinks.revoke_sink();
}

void OpenSink::give_up() { lane_->give_up(); }

void OpenSink::close() {
  if (!is_open()) return;
  // The memory is closed first, so that nothing comes to it when it is the program's again.
  lane_->vi.remote()->close_memory(at_, memory_);
  {
    const LockGuard guard(lane_->lane.lock());
    lane_->lane.sinks.close_sink();
  }
  lane_.reset();
}

void refuse_sink(Socket& socket, std::uint32_t number) {
  const LanePin lane = pin_lane(socket);
  if (!lane) return;
  const LockGuard guard(lane->lane.lock());
  lane->lane.sinks.refuse_sink(number);
}

// ---------------------------------------------------------------------------- sending

bool RendezvousSend::begin(const iovec& message, std::uint32_t number) {
  lane_ = pin_sending_lane(socket_);
  if (!lane_) return false;
  {
    const LockGuard guard(lane_->lane.lock());
    if (!lane_->lane.remote.is_open() || lane_->lane.control.sending() != Lane::State::kUp) return false;
  }
  data_ = static_cast<const std::byte*>(message.iov_base);
  bytes_ = static_cast<std::uint32_t>(message.iov_len);
  number_ = number;
  if (readable(data_, bytes_)) memory_ = lane_->vi.take_memory(data_, bytes_);
  return memory_ != 0;
}

RendezvousSend::~RendezvousSend() {
  if (memory_ != 0) lane_->vi.give_back_memory(memory_);
}

bool RendezvousSend::has_target() const {
  const LockGuard guard(lane_->lane.lock());
  return !is_lost(lane_->lane) && lane_->lane.sinks.target(number_) == LaneSinks::Target::kSink;
}

void RendezvousSend::push_offer() {
  const LockGuard guard(lane_->lane.lock());
  lane_->lane.tx.push();
}

bool RendezvousSend::await_target(std::uint64_t deadline) {
  LaneCondition condition(socket_, [this] {
    const LockGuard guard(lane_->lane.lock());
    return is_lost(lane_->lane) || lane_->lane.sinks.target(number_) != LaneSinks::Target::kNone;
  });
  return wait_for(condition, nullptr, 0, deadline, nullptr, true, Signals::kInterrupt) == Woken::kReady && has_target();
}

bool RendezvousSend::write() {
  std::uint32_t written = 0, all = 0;
  bool told = false, placed = false;
  await_completion(socket_, [&] {
    Lane& lane = lane_->lane;
    const LockGuard guard(lane.lock());
    if (!told) {
      // The receiver took its buffer back before anything was written.
      if (lane.sinks.target(number_) != LaneSinks::Target::kSink) return true;
      all = std::min(bytes_, lane.sinks.target_bytes());
      written += lane.sinks.write_to_sink(data_, written, bytes_, memory_);
      told = written == all && !lane.control.broken() && lane.sinks.tell_placed(bytes_);
    }
    placed = told && lane.sinks.has_placed();
    return placed || lane.control.broken();
  });
  if (!placed) return false;
  counters::add(Counter::kMessagesPlaced);
  counters::add(Counter::kBytesSentLane, all);
  return true;
}

}  // namespace viaduct::sovia
