#include "sovia/lane/lane_send_ring.h"

#include <algorithm>
#include <cstring>

namespace viaduct::sovia {
namespace {

// WAKEUP, TRUST, START, FIN, FINACK, LEAVE, PARK: each at most once.
constexpr std::uint32_t kOnce = 7;

// ACK packets of one end that may be on their way: they come into receives of their own.
constexpr std::uint32_t kMostAcks = 32;

// SINK, PLACED and REVOKED packets of one end that may be on their way: two sinks of which the first is void,
// one that takes the second back, and what answers the peer's.
constexpr std::uint32_t kMostSinks = 8;
constexpr std::uint32_t kWrites = 16;

LaneOptions within_limits(LaneOptions options) {
  options.window = std::clamp(options.window, 1u, kMostWindow);
  const std::uint32_t least = (options.window + kMostAcks - 1) / kMostAcks;
  options.ack_threshold = std::clamp(options.ack_threshold, least, options.window);
  return options;
}

}  // namespace

bool copy_plainly(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  return true;
}

// Data places: sends complete a little later than their credits come back, and a program may go on
// writing while it waits for credits.
LanePlaces places_for(const LaneOptions& asked) {
  const LaneOptions options = within_limits(asked);
  const std::uint32_t sinks = options.messages ? kMostSinks : 0;
  return {options.window + std::max(options.ack_threshold, 8u), kMostAcks + kMostMores + kOnce + sinks,
          options.window + kMostAcks + kMostMores + 1 + kOnce + sinks, options.messages ? kWrites : 0};
}

LaneSendRing::LaneSendRing(Wire& wire, const LaneOptions& options)
    : wire_(wire),
      options_(within_limits(options)),
      places_(places_for(options)),
      chunk_bytes_(places_.data),
      chunk_memory_(places_.data),
      order_(places_.data + places_.control + places_.writes) {}

void LaneSendRing::reap() {
  for (std::uint32_t n = wire_.completed(); n > 0 && !order_.empty(); --n) {
    if (order_.front() == Posted::kData) {
      done_bytes_ += bytes_at(done_++);
    } else if (order_.front() == Posted::kControl) {
      ++control_done_;
    } else {
      ++writes_done_;
    }
    order_.pop_front();
  }
}

std::size_t LaneSendRing::unsent() {
  reap();
  std::size_t bytes = 0;
  for (std::uint64_t p = done_; p != filled_; ++p) bytes += bytes_at(p);
  return bytes;
}

bool LaneSendRing::has_completed(std::uint64_t ticket) {
  if (done_ <= ticket) reap();
  return done_ > ticket;
}

bool LaneSendRing::copy_unsent(std::byte* to) {
  for (std::uint64_t p = done_; p != filled_; ++p) {
    const std::uint32_t bytes = bytes_at(p);
    const std::byte* const memory = chunk_memory_[place(p)];
    if (memory == nullptr) {
      std::memcpy(to, wire_.data_chunk(place(p)), bytes);
    } else if (!options_.copy(to, memory, bytes)) {
      return false;
    }
    to += bytes;
  }
  return true;
}

}  // namespace viaduct::sovia
