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
    kState = 4,     // of a direction, or greeted, or broken
    kSinks = 8,     // of a sink for a message (lane_sinks.h)
  };
};

class LaneControl {
 public:
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
    return greeting_.wants_trust() || wants_leave_ || (wants_fin_ack_ && may_answer_fin()) ||
           (wants_finish_ && !ring_.has_unposted()) || credits_.is_ack_due() || credits_.has_grown();
  }
  // Whether a packet other than FIN and ACK waits to be posted.
  bool has_more_to_say() const { return greeting_.wants_trust() || wants_leave_ || wants_fin_ack_ || wants_more_; }
  // A DATA packet has been consumed: its place may take another.
  void consumed(std::uint32_t place) {
    if (credits_.consumed(place)) give_spent_back();
  }
  void give_spent_back();
  // The peer has used its last credit: it gets a larger window.
  void grow_window();

  // ------------------------------------------------------------------ the direction from here
  State sending() const { return sending_; }
  void start(std::uint64_t kernel_bytes);
  bool has_started() const { return start_at_ != kNotPosted; }
  bool has_delivered_start() const { return ring_.has_sent(start_at_); }
  // `kBegun`: FIN follows when all data has been posted. `kTooLate`: the FIN that has gone could not say that the
  // program closes.
  enum class Finish : std::uint8_t { kBegun, kAlready, kTooLate };
  Finish finish(bool closes);
  bool closes() const { return finish_closes_; }
  bool has_finished() const { return fin_at_ != kNotPosted; }
  // FIN has reached the peer, and with it all data: the kernel's stream may end.
  bool has_delivered_end() const {
    return sending_ == State::kEnded || (fin_at_ != kNotPosted && ring_.has_sent(fin_at_));
  }
  // After finish(): the peer needs nothing more from this end.
  bool is_finished() const {
    return sending_ == State::kEnded && (!leaves_ || receiving_ == State::kEnded);
  }
  // Asks for the peer's FIN. False: it has been asked, or the lane is over. `again_ms`: as the kernel is faster; this
  // end asks for another lane in that time.
  bool leave(std::optional<std::uint32_t> again_ms = {});
  bool leaves() const { return leaves_; }
  // `more`: data waits behind the last DATA packet, which does not say so (MORE).
  void want_more(bool more) { wants_more_ = more; }

  // ------------------------------------------------------------------ the direction from the peer
  State receiving() const { return greeting_.trusted() ? receiving_ : State::kIdle; }
  // START has come.
  bool started() const { return started_ && greeting_.trusted(); }
  std::uint64_t peer_kernel_bytes() const { return peer_kernel_bytes_; }
  // The reader knows of START from now on. Before that the peer's FIN gets no answer: the peer would go on through the
  // kernel, and the reader could take those bytes for bytes before START.
  void settled();
  // The program will not read any more.
  void close_reading() { reading_closed_ = true; }
  bool is_reading_closed() const { return reading_closed_; }
  bool has_delivered_fin_ack() const { return ring_.has_sent(fin_ack_at_); }
  // The peer's program has closed.
  bool peer_closed() const { return peer_closed_ && greeting_.trusted(); }
  // The peer has asked for FIN (LEAVE), which this end is about to send.
  bool peer_leaves() const { return peer_leaves_; }
  // The kernel is faster than the lane, as one of the ends has found: how long no other lane is to be asked for.
  std::optional<std::uint32_t> slower_for_ms() const { return slower_for_ms_; }
  // Whether the peer is known to have had more to send than has come.
  bool peer_has_more() const { return peer_has_more_; }
  void set_peer_has_more(bool more) { peer_has_more_ = more; }

  // ------------------------------------------------------------------ both
  bool over() const {
    return is_cut() || (sending_ == State::kEnded && receiving_ == State::kEnded);
  }
  // Both directions have ended in good order.
  bool has_ended() const {
    return greeting_.trusted() && sending_ == State::kEnded && receiving_ == State::kEnded;
  }
  // Neither end has sent anything on the lane.
  bool is_unused() const { return !greeting_.has_hello() && !sender_.has_begun() && !broken(); }
  // Tells the peer that this end keeps the VI for another connection.
  bool park() { return parked_ = sender_.post(PacketType::kPark); }
  bool parked() const { return parked_; }
  // The peer keeps the VI for another connection.
  bool peer_parked() const { return peer_parked_; }

  // ------------------------------------------------------------------ packets that have come
  // Whether a peer that keeps to the protocol may send such a packet now. `has_place`: there is a place for one more
  // packet with data.
  bool acceptable(std::uint32_t bytes, std::uint32_t immediate, bool has_place) const;
  // Takes a packet that only changes states. LaneChange bits.
  unsigned take(PacketType type, std::uint32_t place, std::uint32_t bytes, std::uint32_t flags);

 private:
  bool may_answer_fin() const { return !started_ || settled_ || reading_closed_ || !options_.settles; }
  unsigned take_start(std::uint32_t place);
  void take_leave(std::uint32_t place, std::uint32_t bytes);
  bool post_leave();

  static constexpr std::uint64_t kNotPosted = ~std::uint64_t{0};

  Transport& transport_;
  const LaneOptions& options_;
  LaneSendRing& ring_;
  Credits& credits_;
  ControlSender& sender_;
  LaneGreeting& greeting_;
  State sending_ = State::kIdle, receiving_ = State::kIdle;
  bool started_ = false, settled_ = false, reading_closed_ = false;
  bool parked_ = false, peer_parked_ = false;
  bool leaves_ = false, peer_leaves_ = false, peer_closed_ = false, peer_has_more_ = false;
  std::optional<std::uint32_t> slower_for_ms_;
  std::uint64_t peer_kernel_bytes_ = 0;
  std::uint64_t start_at_ = kNotPosted, fin_at_ = kNotPosted, fin_ack_at_ = kNotPosted;
  bool wants_finish_ = false, finish_closes_ = false, wants_fin_ack_ = false, wants_leave_ = false, wants_more_ = false;
};

}  // namespace viaduct::sovia

#endif
