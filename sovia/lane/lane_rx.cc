#include "sovia/lane/lane_rx.h"

#include <algorithm>
#include <cstring>

#include "sovia/lane/lane_pieces.h"
#include "sovia/process/counters.h"

namespace viaduct::sovia {
namespace {

// Only packets up to this size are joined: a window of larger ones is as much as TCP holds for a program at first.
constexpr std::uint32_t kSmallPacket = 4096;

}  // namespace

std::size_t LaneRx::read(const iovec* pieces, std::size_t count, std::size_t skip, bool peek) {
  faulted_ = false;
  std::size_t spilled = 0;    // bytes taken of spill_
  std::size_t arrival = 0;  // the next one for a peek
  std::uint32_t at = arrivals_.empty() ? 0 : arrivals_.front().at;
  const std::size_t taken = over_pieces(pieces, count, skip, [&](std::byte* to, std::size_t bytes) {
    std::size_t left = bytes;
    if (spilled != spill_.size()) {
      const std::size_t here = std::min(left, spill_.size() - spilled);
      if (!options_.copy(to, spill_.data() + spilled, here)) {
        faulted_ = true;
        return bytes - left;
      }
      to += here;
      left -= here;
      spilled += here;
    }
    while (left != 0 && arrival < arrivals_.size()) {
      const Arrival from = arrivals_[arrival];
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
        arrivals_.pop_front();
        control_.consumed(from.place);
      }
    }
    return bytes - left;
  });
  if (peek) return taken;
  spill_.drop(spilled);
  if (!arrivals_.empty()) arrivals_.front().at = at;
  unread_ -= taken;
  return taken;
}

std::size_t LaneRx::discard(std::size_t bytes) {
  std::size_t dropped = std::min(bytes, spill_.size());
  spill_.drop(dropped);
  while (dropped != bytes && !arrivals_.empty()) {
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
  if (control_.receiving() != State::kUp || control_.leaves() || control_.peer_leaves()) return kNoDirect;
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

void LaneRx::spill_arrivals() {
  while (!arrivals_.empty() && spill_.size() < kMostSpilled) {
    const Arrival from = arrivals_.front();
    if (!spill_.append(transport_.received(from.place) + from.at, from.bytes - from.at)) return;
    arrivals_.pop_front();
    control_.consumed(from.place);
  }
}

void LaneRx::close_reading() {
  control_.close_reading();
  discard(unread_);
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

unsigned LaneRx::take_data(std::uint32_t place, std::uint32_t bytes, bool direct) {
  last_packet_ = bytes;
  received_ += bytes;
  counters::add(Counter::kDataReceived);
  if (control_.is_reading_closed()) {
    control_.consumed(place);
    return 0;
  }
  if (direct) {
    direct_ = Direct::kThere;
    direct_bytes_ = bytes;
    control_.consumed(place);
    return LaneChange::kReadable;
  }
  if (!join_last(place, bytes)) arrivals_.push_back({place, 0, bytes});
  unread_ += bytes;
  if (control_.leaves() || control_.peer_leaves()) spill_arrivals();
  return LaneChange::kReadable;
}

}  // namespace viaduct::sovia
