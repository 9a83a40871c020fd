// The credits of a lane, each for one DATA packet: those that the peer has given, and those that it is owed for
// packets that have been consumed here.
#ifndef VIADUCT_SOVIA_LANE_CREDITS_H
#define VIADUCT_SOVIA_LANE_CREDITS_H

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "sovia/lane/lane_options.h"

namespace viaduct::sovia {

class Credits {
 public:
  explicit Credits(const LaneOptions& options)
      : threshold_(options.ack_threshold),
        most_spent_(options.strict_window ? 1
                                          : std::min(kMostSpent, options.window - options.ack_threshold + 1)) {}

  // --- for sending
  void open(std::uint32_t peer_window) { peer_window_ = given_ = peer_window; }
  std::uint32_t given() const { return given_; }
  // Packets sent for which no credit has come back.
  std::uint32_t unreturned() const { return peer_window_ - given_; }
  void add(std::uint32_t credits) { given_ += credits; }
  void spend() { --given_; }

  // --- for receiving
  // A packet has been consumed. Its place is posted again a little later, together with others, as most programs first
  // answer the data that they have read. True: the caller has to post the places now, by take_spent().
  bool consumed(std::uint32_t place) {
    spent_[spent_count_++] = place;
    return spent_count_ == most_spent_;
  }
  // The places of consumed packets, for the caller to post again. From now on the peer is owed a credit for each.
  std::span<const std::uint32_t> take_spent() {
    owed_ += spent_count_;
    return {spent_, std::exchange(spent_count_, 0)};
  }
  bool has_spent() const { return spent_count_ != 0; }
  // Places that the peer has no credit for.
  std::uint32_t kept() const { return spent_count_ + owed_; }
  std::uint32_t take_owed() { return std::exchange(owed_, 0); }
  bool is_ack_due() const { return owed_ >= threshold_; }

 private:
  static constexpr std::uint32_t kMostSpent = 4;

  const std::uint32_t threshold_;
  const std::uint32_t most_spent_;  // small enough that the peer still has a credit when all others are owed to it
  std::uint32_t peer_window_ = 0, given_ = 0;  // given_ <= peer_window_
  std::uint32_t owed_ = 0;
  std::uint32_t spent_count_ = 0;
  std::uint32_t spent_[kMostSpent];
};

}  // namespace viaduct::sovia

#endif
