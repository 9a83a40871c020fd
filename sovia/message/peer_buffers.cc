#include "sovia/message/peer_buffers.h"

#include <endian.h>
#include <errno.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "sovia/lane/registrations.h"
#include "sovia/message/lane_condition.h"
#include "sovia/message/tag_frames.h"
#include "sovia/process/counters.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/lane_pin.h"
#include "sovia/socket/redirected_receive.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

std::uint32_t PeerBuffers::usable_lane() {
  std::uint32_t number;
  const LanePin lane = pin_lane(socket_, &number);
  if (!lane) return 0;
  const LockGuard guard(lane->lane.lock());
  return lane->lane.remote.is_open() && lane->lane.control.sending() == Lane::State::kUp ? number : 0;
}

bool PeerBuffers::find(std::uint64_t key, std::uint32_t lane, Place& place) {
  const LockGuard guard(lock_);
  const auto found = places_.find(key);
  if (found == places_.end() || found->second.lane != lane) return false;
  place = found->second;
  return true;
}

void PeerBuffers::forget(std::uint64_t key) {
  const LockGuard guard(lock_);
  places_.erase(key);
}

namespace {

// A put or get by RDMA, between the program's memory and the peer's.
class RemoteMove {
 public:
  RemoteMove(Socket& socket, const PeerBuffers::Place& place, std::uint64_t offset, std::byte* data, bool gets)
      : socket_(socket), place_(place), offset_(offset), data_(data), gets_(gets) {
    std::uint32_t number;
    lane_ = pin_lane(socket, &number);
    if (lane_ && number != place.lane) lane_.reset();
  }

  bool run(std::size_t bytes) {
    // The move goes in parts, as the size of a registration is bounded.
    constexpr std::size_t kAtOnce = 64 * 1024 * 1024;
    for (std::size_t at = 0; at != bytes; at += std::min(kAtOnce, bytes - at)) {
      if (!run_some(at, static_cast<std::uint32_t>(std::min(kAtOnce, bytes - at)))) return false;
    }
    return true;
  }

 private:
  bool run_some(std::size_t from, std::uint32_t bytes) {
    if (!lane_) return false;
    const std::uint32_t memory = lane_->vi.take_memory(data_ + from, bytes);
    if (memory == 0) return false;
    const bool done = complete(from, bytes, memory);
    lane_->vi.give_back_memory(memory);
    return done;
  }

  bool complete(std::size_t from, std::uint32_t bytes, std::uint32_t memory) {
    std::uint32_t begun = 0;
    std::uint64_t last = 0;
    bool done = false;
    await_completion(socket_, [&] {
      Lane& lane = lane_->lane;
      const LockGuard guard(lane.lock());
      if (begun != bytes && !lane.control.broken()) {
        begun += begin(lane, from + begun, bytes - begun, memory);
        last = lane.remote.begun();
      }
      done = begun == bytes && lane.remote.has_completed(last);
      return done || lane.control.broken();
    });
    return done;
  }

  // Begins operations, and returns for how many bytes.
  std::uint32_t begin(Lane& lane, std::size_t at, std::uint32_t bytes, std::uint32_t memory)
      VIADUCT_REQUIRES(lane.lock()) {
    const std::uint64_t there = place_.address + offset_ + at;
    return gets_ ? lane.remote.read(data_ + at, bytes, memory, there, place_.memory)
                 : lane.remote.write(data_ + at, bytes, memory, there, place_.memory);
  }

  Socket& socket_;
  const PeerBuffers::Place& place_;
  const std::uint64_t offset_;
  std::byte* const data_;
  const bool gets_;
  LanePin lane_;
};

}  // namespace

bool PeerBuffers::move(const Place& place, std::uint64_t offset, std::byte* data, std::size_t bytes, bool gets) {
  if (gets ? !writable(data, bytes) : !readable(data, bytes)) return false;
  if (!RemoteMove(socket_, place, offset, data, gets).run(bytes)) return false;
  counters::add(gets ? Counter::kBytesReceivedLane : Counter::kBytesSentLane, bytes);
  counters::add(Counter::kTaggedByRdma);
  return true;
}

// ---------------------------------------------------------------------------- pieces in the stream

std::uint32_t PeerBuffers::begin_piece(const Piece& piece) {
  const LockGuard guard(lock_);
  pieces_[++next_piece_] = piece;
  return next_piece_;
}

void PeerBuffers::drop_piece(std::uint32_t number) {
  const LockGuard guard(lock_);
  pieces_.erase(number);
}

void PeerBuffers::drop_pieces() {
  const LockGuard guard(lock_);
  pieces_.clear();
}

std::size_t PeerBuffers::pieces_under_way() {
  const LockGuard guard(lock_);
  return pieces_.size();
}

bool PeerBuffers::is_under_way(std::uint32_t number) {
  const LockGuard guard(lock_);
  return pieces_.contains(number);
}

int PeerBuffers::take_error() {
  const LockGuard guard(lock_);
  return std::exchange(error_, 0);
}

bool PeerBuffers::take_answer(std::uint32_t number, const std::byte* body, std::size_t bytes) {
  Answer answer;
  if (bytes < sizeof answer) return false;
  std::memcpy(&answer, body, sizeof answer);
  const LockGuard guard(lock_);
  const auto found = pieces_.find(number);
  if (found == pieces_.end()) return false;
  const Piece piece = found->second;
  auto status = static_cast<int>(be32toh(answer.status));
  const std::size_t got = bytes - sizeof answer;
  if (got != (piece.gets && status == 0 ? piece.bytes : 0)) return false;
  pieces_.erase(found);
  if (got != 0 && !copy_guarded(piece.to, body + sizeof answer, got)) status = EFAULT;
  if (status != 0) {
    if (error_ == 0) error_ = status;
    places_.erase(piece.key);
  } else {
    places_[piece.key] = {be32toh(answer.lane), be32toh(answer.memory), be64toh(answer.address),
                          be32toh(answer.access)};
  }
  return true;
}

// There are no other threads.
void PeerBuffers::after_fork_in_child() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  new (&lock_) Lock;
  places_.clear();
  pieces_.clear();
}

}  // namespace viaduct::sovia
