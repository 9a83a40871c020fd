#include "sovia/lane/lane_rx.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

#include "sovia/lane/lane_pieces.h"
#include "sovia/process/counters.h"

namespace viaduct::sovia {
namespace {

// Only packets up to this size are joined: a window of larger ones is as much as TCP holds for a program at first.
constexpr std::uint32_t kSmallPacket = 4096;

}  // namespace

std::size_t LaneRx::unread_here(bool past_first) {
  if (turns_ == 0) return unread_;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < arrivals_.size() && is_here(i, past_first); ++i) bytes += arrivals_[i].bytes - arrivals_[i].at;
  return bytes;
}

std::optional<std::uint64_t> LaneRx::first() {
  if (turns_ == 0 || arrivals_.front().turn != Turn::kFirst) return {};
  return arrivals_.front().number;
}

void LaneRx::go_up() {
  arrivals_.front().turn = Turn::kNone;
  --turns_;
}

std::optional<std::uint64_t> LaneRx::take_down() {
  if (turns_ == 0 || arrivals_.front().turn != Turn::kDown) return {};
  --turns_;
  const Arrival down = arrivals_.front();
  arrivals_.pop_front();
  control_.consumed(down.place);
  return down.number;
}

void LaneRx::drop_all() {
  for (; !arrivals_.empty(); arrivals_.pop_front()) control_.consumed(arrivals_.front().place);
  unread_ = turns_ = 0;
}

std::size_t LaneRx::read(const iovec* pieces, std::size_t count, std::size_t skip, bool peek, bool past_first) {
  faulted_ = false;
  std::size_t arrival = 0;  // the next one for a peek
  std::uint32_t at = arrivals_.empty() ? 0 : arrivals_.front().at;
  const std::size_t taken = over_pieces(pieces, count, skip, [&](std::byte* to, std::size_t bytes) {
    std::size_t left = bytes;
    while (left != 0 && arrival < arrivals_.size()) {
      const Arrival& from = arrivals_[arrival];
      if (!is_here(arrival, past_first)) break;
      const std::size_t here = std::min<std::size_t>(left, from.bytes - at);
      if (!options_.copy(to, transport_.received(from.place) + at, here)) {
        faulted_ = true;
        break;
      }
      to += here;
      left -= here;
      at += static_cast<std::uint32_t>(here);
      if (at != from.bytes) break;
      at = 0;
      if (peek) {
        ++arrival;
      } else {
        const std::uint32_t place = from.place;
        arrivals_.pop_front();
        control_.consumed(place);
      }
    }
    return bytes - left;
  });
  if (peek) return taken;
  if (!arrivals_.empty()) arrivals_.front().at = at;
  unread_ -= taken;
  return taken;
}

std::size_t LaneRx::discard(std::size_t bytes) {
  std::size_t dropped = 0;
  while (dropped != bytes && !arrivals_.empty() && arrivals_.front().turn == Turn::kNone) {
    Arrival& from = arrivals_.front();
    const std::size_t here = std::min<std::size_t>(bytes - dropped, from.bytes - from.at);
    from.at += static_cast<std::uint32_t>(here);
    dropped += here;
    if (from.at != from.bytes) break;
    const std::uint32_t place = from.place;
    arrivals_.pop_front();
    control_.consumed(place);
  }
  unread_ -= dropped;
  return dropped;
}

LaneRx::DirectNumber LaneRx::begin_direct(std::byte* to, std::uint32_t bytes, std::uint32_t memory) {
  if (direct_ != Direct::kNone || unread_ != 0 || control_.broken() || control_.is_reading_closed()) return kNoDirect;
  if (control_.receiving() != State::kUp) return kNoDirect;
  if (!transport_.redirect(to, bytes, memory)) return kNoDirect;
  direct_ = Direct::kOpen;
  if (++direct_number_ == kNoDirect) ++direct_number_;
  return direct_number_;
}

bool LaneRx::close_direct() {
  if (direct_ == Direct::kOpen) direct_ = transport_.unredirect() ? Direct::kComing : Direct::kNone;
  return direct_ == Direct::kComing;
}

bool LaneRx::end_direct(DirectNumber number, std::uint32_t& bytes) {
  bytes = 0;
  if (number != direct_number_) return true;
  if (close_direct() && !control_.is_cut()) return false;
  if (direct_ == Direct::kThere) bytes = direct_bytes_;
  direct_ = Direct::kNone;
  return true;
}

void LaneRx::close_reading() {
  control_.close_reading();
  drop_all();
}

// Joins a small packet to the last unread one, which frees its place. A program may wait until more small packets have
// come than the window has places, as TCP's buffer is counted in bytes.
bool LaneRx::join_last(std::uint32_t place, std::uint32_t bytes) {
  if (options_.strict_window) return false;
  // Joining begins when half as many packets are unread as may be without the peer waiting for an ACK.
  const std::uint32_t crowd = (options_.window - options_.ack_threshold) / 2;
  if (bytes > kSmallPacket || arrivals_.empty() || arrivals_.size() < crowd) return false;
  Arrival& last = arrivals_[arrivals_.size() - 1];
  if (last.bytes + bytes > kChunkBytes) return false;
  std::memcpy(transport_.received(last.place) + last.bytes, transport_.received(place), bytes);
  last.bytes += bytes;
  control_.consumed(place);
  return true;
}

std::uint64_t LaneRx::number_in(std::uint32_t place, std::uint32_t bytes) {
  First first;
  std::memcpy(&first, transport_.received(place) + bytes - sizeof first, sizeof first);
  return be64toh(first.kernel_bytes);
}

bool LaneRx::refuses(std::uint32_t place, std::uint32_t bytes, std::uint32_t flags) {
  if (refusal_ == Refusal::kNone || flags == kFlagDown) return false;
  refusal_ = Refusal::kDone;
  if (flags == kFlagFirst) refused_first_ = number_in(place, bytes);
  return true;
}

unsigned LaneRx::take_data(std::uint32_t place, std::uint32_t bytes, std::uint32_t flags, bool direct) {
  Arrival arrival{place, 0, bytes, Turn::kNone, 0};
  if (flags == kFlagDown) {
    arrival.turn = Turn::kDown;
    arrival.number = bytes_here();
  }
  if (flags == kFlagFirst) {
    arrival.turn = Turn::kFirst;
    arrival.number = number_in(place, bytes);
    arrival.bytes -= static_cast<std::uint32_t>(sizeof(First));
    received_before_ = received_;
  }
  received_ += arrival.bytes;
  counters::add(Counter::kDataReceived);
  if (control_.is_reading_closed()) {
    control_.consumed(place);
    return 0;
  }
  if (arrival.turn != Turn::kNone) {
    ++turns_;
    arrivals_.push_back(arrival);
    unread_ += arrival.bytes;
    return LaneChange::kReadable | LaneChange::kTurn;
  }
  last_packet_ = bytes;
  if (direct) {
    direct_ = Direct::kThere;
    direct_bytes_ = bytes;
    control_.consumed(place);
    return LaneChange::kReadable;
  }
  if (!join_last(place, bytes)) arrivals_.push_back(arrival);
  unread_ += bytes;
  return LaneChange::kReadable;
}

}  // namespace viaduct::sovia
