// The states of a lane's two directions, and the packets without data that change them.
#ifndef VIADUCT_SOVIA_LANE_LANE_CONTROL_H
#define VIADUCT_SOVIA_LANE_LANE_CONTROL_H

#include <cstdint>

#include "sovia/lane/lane_send_ring.h"
#include "sovia/process/counters.h"

namespace viaduct::sovia {

class LaneControl : public LaneSendRing {
 public:
  enum class State : std::uint8_t { kIdle, kUp, kEnding, kEnded };

  // Change bits.
  enum Change : unsigned {
    kReadable = 1,  // there is more to read, or the end of it
    kWritable = 2,  // there is room again
    kState = 4,     // of a direction, or greeted, or broken
    kSinks = 8,     // of memory for messages (lane_sinks.h)
  };

  using LaneSendRing::LaneSendRing;

  // ------------------------------------------------------------------ greeting
  void greet(const std::uint8_t (&token)[kTokenBytes], const HelloFlow& flow = {});
  // The peer's greeting has come. Until it is trusted nothing else counts: another program on the peer's host may have
  // sent it.
  bool has_hello() const { return greeted_; }
  // Tells the peer, too: only then may it send what must not be lost.
  void trust();
  bool may_start() const { return greeted() && peer_trusts_; }
  // The peer has verified this end.
  bool peer_trusts() const { return peer_trusts_; }
  bool greeted() const { return greeted_ && trusted_; }
  const std::uint8_t* peer_token() const { return peer_token_; }
  const std::uint8_t* own_token() const { return own_token_; }

  // ------------------------------------------------------------------ states
  State sending() const { return sending_; }
  void start(std::uint64_t kernel_bytes);
  bool closes() const { return finish_closes_; }
  // After finish(): the peer needs nothing more from this end.
  bool is_finished() const {
    return sending_ == State::kEnded && (!leaves_ || receiving_ == State::kEnded);
  }
  // FIN is with the peer: all that was sent has come, and the kernel may tell of the end.
  bool has_delivered_end() const {
    return sending_ == State::kEnded || (fin_at_ != kNotPosted && has_sent(fin_at_));
  }
  // The peer has been told, or is about to be, that it may begin.
  bool trusted() const { return trusted_; }
  State receiving() const { return trusted_ ? receiving_ : State::kIdle; }
  // START has come.
  bool started() const { return started_ && trusted_; }
  std::uint64_t peer_kernel_bytes() const { return peer_kernel_bytes_; }
  // The reader goes by START from now on. Before that the peer's FIN gets no answer: the reader could take bytes that
  // the peer then sends through the kernel for bytes before START.
  void settled();
  // The peer's program has closed.
  bool peer_closed() const { return peer_closed_ && trusted_; }
  // The peer asks for the FIN of the sending direction; it is on its way.
  bool peer_leaves() const { return peer_leaves_; }
  // It is known that the peer had more to send than has come.
  bool peer_has_more() const { return peer_has_more_; }
  bool broken() const { return broken_; }
  // ... and no packet can come any more. Until then packets from before a failed send may yet have arrived().
  bool is_cut() const { return cut_; }
  // The peer keeps the VI for another connection.
  bool peer_parked() const { return peer_parked_; }
  bool over() const {
    return cut_ || (sending_ == State::kEnded && receiving_ == State::kEnded);
  }

  struct Stalls {
    std::uint64_t credits = 0;   // times that data had to wait for credits
    std::uint64_t combined = 0;  // sends that were put into a packet with others
    std::uint64_t packets = 0;   // DATA
    std::uint64_t acks = 0;      // ACK packets
  };
  const Stalls& stalls() const { return stalls_; }

 protected:
  ~LaneControl() = default;
  // Nothing comes before WAKEUP, but for the PARK of a VI that no connection wants any more.
  bool post(PacketType type, const void* body, std::uint32_t bytes, std::uint32_t flags = 0);
  void fail();
  void post_pending_control();
  std::uint32_t take_credits(PacketType type) {
    const std::uint32_t credits = owed_;
    if (credits != 0 && type != PacketType::kAck) counters::add(Counter::kAcksPiggybacked);
    owed_ = 0;
    return credits;
  }
  bool may_answer_fin() const { return !started_ || settled_ || deaf_ || !options_.settles; }

  State sending_ = State::kIdle, receiving_ = State::kIdle;
  bool trusted_ = false, peer_trusts_ = false, wants_trust_ = false;
  bool has_greeted_ = false, greeted_ = false, started_ = false, settled_ = false;
  bool broken_ = false, cut_ = false;
  bool parked_ = false, peer_parked_ = false;
  bool peer_carries_messages_ = false;
  bool deaf_ = false;  // the program will not read any more
  bool leaves_ = false, peer_leaves_ = false, peer_closed_ = false, peer_has_more_ = false;
  std::uint8_t peer_token_[kTokenBytes] = {};
  std::uint8_t own_token_[kTokenBytes] = {};
  std::uint64_t peer_kernel_bytes_ = 0;
  static constexpr std::uint64_t kNotPosted = ~std::uint64_t{0};
  std::uint64_t start_at_ = kNotPosted, fin_at_ = kNotPosted, fin_ack_at_ = kNotPosted;
  // control packets that wait for a place, or FIN for the data before it
  bool wants_finish_ = false, finish_closes_ = false, wants_fin_ack_ = false, wants_leave_ = false;
  bool wants_more_ = false;
  std::uint32_t owed_ = 0;  // credits that the peer has not been given back
  Stalls stalls_;
};

}  // namespace viaduct::sovia

#endif
