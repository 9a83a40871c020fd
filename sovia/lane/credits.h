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
  // The options must be within limits.
  explicit Credits(const LaneOptions& options)
      : options_(options), window_(options.first_window), peer_has_(options.first_window) {}

  // --- for sending
  void open(std::uint32_t peer_window) { peer_window_ = given_ = peer_window; }
  std::uint32_t given() const { return given_; }
  std::uint32_t peer_window() const { return peer_window_; }
  // Packets sent for which no credit has come back.
  std::uint32_t unreturned() const { return peer_window_ - given_; }
  void add(std::uint32_t credits) { given_ += credits; }
  void spend() { --given_; }
  // The peer's window has grown.
  void open_more(std::uint32_t credits) {
    peer_window_ += credits;
    given_ += credits;
  }

  // --- for receiving
  // A packet has been consumed. Its place is posted again a little later, together with others, as most programs first
  // answer the data that they have read. True: the caller has to post the places now, by take_spent().
  bool consumed(std::uint32_t place) {
    spent_[spent_count_++] = place;
    return spent_count_ >= most_spent();
  }
  // The places of consumed packets, for the caller to post again. From now on the peer is owed a credit for each.
  std::span<const std::uint32_t> take_spent() {
    owed_ += spent_count_;
    return {spent_, std::exchange(spent_count_, 0)};
  }
  bool has_spent() const { return spent_count_ != 0; }
  std::uint32_t take_owed() {
    peer_has_ += owed_;
    return std::exchange(owed_, 0);
  }
  bool is_ack_due() const { return owed_ >= threshold(); }
  // The packets that the peer may send to this end without credits coming back.
  std::uint32_t window() const { return window_; }
  // Of these, those that it has not sent as far as is known here.
  std::uint32_t peer_has() const { return peer_has_; }
  // A packet has used one of the credits that this end has given. True: it was the last one, and the window may grow.
  bool used() { return --peer_has_ == 0 && window_ != options_.window; }
  std::uint32_t next_window() const { return std::min(2 * window_, options_.window); }
  void grow() {
    growth_ += next_window() - window_;
    window_ = next_window();
  }
  bool has_grown() const { return growth_ != 0; }
  std::uint32_t take_growth() {
    peer_has_ += growth_;
    return std::exchange(growth_, 0);
  }

 private:
  static constexpr std::uint32_t kMostSpent = 4;

  std::uint32_t threshold() const {
    return window_ == options_.window ? options_.ack_threshold : std::min(options_.ack_threshold, (window_ + 1) / 2);
  }
  // Small enough that the peer still has a credit when all others are owed to it.
  std::uint32_t most_spent() const {
    return options_.strict_window ? 1 : std::min(kMostSpent, window_ - threshold() + 1);
  }

  const LaneOptions& options_;
  std::uint32_t window_;    // of this end
  std::uint32_t peer_has_;  // credits that the peer has, or that are on their way to it
  std::uint32_t growth_ = 0;  // of the window, which the peer does not know yet
  std::uint32_t peer_window_ = 0, given_ = 0;  // given_ <= peer_window_
  std::uint32_t owed_ = 0;
  std::uint32_t spent_count_ = 0;
  std::uint32_t spent_[kMostSpent];
};

}  // namespace viaduct::sovia

#endif
