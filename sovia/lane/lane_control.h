// The states of a lane's two directions, and the packets without data that change them.
#ifndef VIADUCT_SOVIA_LANE_LANE_CONTROL_H
#define VIADUCT_SOVIA_LANE_LANE_CONTROL_H

#include <cstdint>
#include <optional>

#include "sovia/lane/control_sender.h"
#include "sovia/lane/lane_greeting.h"

namespace viaduct::sovia {

// Changes that a packet or poll() has made, as bits.
struct LaneChange {
  enum Bits : unsigned {
    kReadable = 1,  // there is more to read, or the end of it
    kWritable = 2,  // there is room again
    kState = 4,     // a direction has ended, or the peer leaves, or greeted, or broken
    kSinks = 8,     // of a sink for a message (lane_sinks.h)
    kTurn = 16,     // the peer's direction comes to the lane, or goes to the kernel
  };
};

class LaneControl {
 public:
  // kIdle: the kernel carries the direction, or none does yet. kEnding: FIN is to be sent, or has been. kEnded: it has come.
  enum class State : std::uint8_t { kIdle, kUp, kEnding, kEnded };

  LaneControl(Transport& transport, const LaneOptions& options, LaneSendRing& ring, Credits& credits,
              ControlSender& sender, LaneGreeting& greeting)
      : transport_(transport),
        options_(options),
        ring_(ring),
        credits_(credits),
        sender_(sender),
        greeting_(greeting) {}

  bool broken() const { return sender_.broken(); }
  bool is_cut() const { return sender_.is_cut(); }
  // Posts packets that have waited for a place, FIN if all data before it has been posted, and an ACK if one is due.
  void post_pending();
  // Whether packets still wait: then post_pending() has to be called again even if no packet comes.
  bool has_pending() const {
    if (broken() || !sender_.has_begun()) return false;
    return greeting_.wants_trust() || wants_leave_ || wants_fin_ack_ || (wants_finish_ && !ring_.has_unposted()) ||
           credits_.is_ack_due() || credits_.has_grown();
  }
  // A DATA packet has been consumed: its place may take another.
  void consumed(std::uint32_t place) {
    if (credits_.consumed(place)) give_spent_back();
  }
  void give_spent_back();
  // The peer has used its last credit: it gets a larger window.
  void grow_window();

  // ------------------------------------------------------------------ the direction from here
  State sending() const { return sending_; }
  void set_up(bool up) {
    sending_ = up ? State::kUp : State::kIdle;
    if (up) first_at_ = ring_.filled();
  }
  // The first data packet since set_up(true).
  std::uint64_t first_at() const { return first_at_; }
  // FIN follows when all data has been posted. False: it did not, or has, already.
  bool finish(bool closes);
  // FIN has been sent, and may have reached the peer.
  bool has_finished() const { return fin_at_ != kNotPosted; }
  // FIN has reached the peer, and with it all data: the kernel's stream may end.
  bool has_delivered_end() const { return sending_ == State::kEnded || ring_.has_sent(fin_at_); }
  // After finish(): the peer needs nothing more from this end.
  bool is_finished() const { return sending_ == State::kEnded && (!leaves_ || ring_.has_sent(leave_at_)); }
  // Asks for the peer's FIN. False: it has been asked, or the lane is over. `again_ms`: as the kernel is faster; this
  // end asks for another lane in that time.
  bool leave(std::optional<std::uint32_t> again_ms = {});
  bool leaves() const { return leaves_; }

  // ------------------------------------------------------------------ the direction from the peer
  State receiving() const { return greeting_.trusted() ? receiving_ : State::kIdle; }
  // The peer knows that its FIN has come.
  bool has_delivered_fin_ack() const { return ring_.has_sent(fin_ack_at_); }
  // The program will not read any more.
  void close_reading() { reading_closed_ = true; }
  bool is_reading_closed() const { return reading_closed_; }
  // The peer's program has closed.
  bool peer_closed() const { return peer_closed_ && greeting_.trusted(); }
  // The peer has asked for FIN (LEAVE), which this end is about to send.
  bool peer_leaves() const { return peer_leaves_; }
  // The kernel is faster than the lane, as one of the ends has found: how long no other lane is to be asked for.
  std::optional<std::uint32_t> slower_for_ms() const { return slower_for_ms_; }
  // Something that the peer has sent on the lane is lost.
  void miss() { misses_ = true; }
  bool misses() const { return misses_; }

  // ------------------------------------------------------------------ both
  bool over() const {
    return is_cut() || (sending_ == State::kEnded && receiving_ == State::kEnded);
  }
  // The lane ended before a direction that was on it, so bytes may go on by the kernel, or be missing.
  bool is_lost() const {
    if (!is_cut() || !greeting_.trusted()) return false;
    const bool lands = sending_ == State::kIdle && (ring_.in_flight() || ring_.has_unposted());
    const bool sends = (sending_ == State::kUp || sending_ == State::kEnding) && !has_delivered_end();
    return lands || sends || receiving() == State::kUp || (receiving() == State::kIdle && misses_);
  }

  // ------------------------------------------------------------------ packets that have come
  // Whether a peer that keeps to the protocol may send such a packet now.
  bool acceptable(std::uint32_t bytes, std::uint32_t immediate) const;
  // Takes a packet that only changes states. LaneChange bits.
  unsigned take(PacketType type, std::uint32_t place, std::uint32_t bytes, std::uint32_t flags);
  // A DATA packet says whether the direction is on the lane.
  void take_data_flags(std::uint32_t flags) {
    if (flags != 0) receiving_ = flags == kFlagFirst ? State::kUp : State::kIdle;
  }

 private:
  void take_leave(std::uint32_t place, std::uint32_t bytes);
  bool post_leave();
  bool accepts_data(std::uint32_t bytes, std::uint32_t flags) const;

  static constexpr std::uint64_t kNotPosted = ~std::uint64_t{0};

  Transport& transport_;
  const LaneOptions& options_;
  LaneSendRing& ring_;
  Credits& credits_;
  ControlSender& sender_;
  LaneGreeting& greeting_;
  State sending_ = State::kIdle, receiving_ = State::kIdle;
  bool reading_closed_ = false;
  bool leaves_ = false, peer_leaves_ = false, peer_closed_ = false, misses_ = false;
  std::optional<std::uint32_t> slower_for_ms_;
  std::uint64_t first_at_ = 0;
  std::uint64_t fin_at_ = kNotPosted, fin_ack_at_ = kNotPosted, leave_at_ = kNotPosted;
  bool wants_finish_ = false, finish_closes_ = false, wants_fin_ack_ = false, wants_leave_ = false, leave_closes_ = false;
  bool asks_for_first_ = false;  // FIN waits for the first packet's acknowledgement, which has been asked for
};

}  // namespace viaduct::sovia

#endif
