// The protocol of a lane: two streams of bytes, one each way, over one VI, as the SOVIA paper
// describes them: credits, delayed acknowledgements, piggybacking, combining of small sends.
//
// A direction's life, at its sender and at its receiver:
//
//     sender                                      receiver
//     kIdle --START--> kUp --finish()--> kEnding       kIdle --START--> kUp --FIN--> kEnded
//        \---------finish()-------------^   |             \---------FIN-------------^
//                                        FINACK
//                                           v
//                                        kEnded
//
// From finish() on nothing more is taken; FIN goes when all that was taken before has gone. An end
// that leaves, or whose peer does, sets aside what comes, so that FIN needs no program that reads.
//
// A peer that does not keep to this, or to its credits, loses the lane.
//
// A lane is over when both are kEnded, or when it is broken: the VI has lost its connection.
//
// One thread at a time: lock() it. Nothing here waits.
#ifndef VIADUCT_SOVIA_LANE_H
#define VIADUCT_SOVIA_LANE_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sovia/aside.h"
#include "sovia/lock.h"
#include "sovia/packet.h"
#include "sovia/ring.h"
#include "sovia/wire.h"

namespace viaduct::sovia {

bool copy_plainly(void* to, const void* from, std::size_t bytes);

struct LaneOptions {
  std::uint32_t window = 32;         // w, of this end
  std::uint32_t ack_threshold = 16;  // t <= w
  bool combine = true;               // small sends
  bool settles = false;              // settled() will be called
  // From and to the program's memory. False: it can't be read or written.
  bool (*copy)(void* to, const void* from, std::size_t bytes) = copy_plainly;
};

// Places that a wire needs.
struct LanePlaces {
  std::uint32_t data, control, receive;
};
LanePlaces places_for(const LaneOptions& options);

class Lane {
 public:
  enum class State : std::uint8_t { kIdle, kUp, kEnding, kEnded };

  // What has changed, as bits.
  enum Change : unsigned {
    kReadable = 1,  // there is more to read, or the end of it
    kWritable = 2,  // there is room again
    kState = 4,     // of a direction, or greeted, or broken
  };

  // The wire has posted all its receives.
  Lane(Wire& wire, const LaneOptions& options);

  Lock& lock() { return lock_; }

  // ------------------------------------------------------------------ greeting
  void greet(const std::uint8_t (&token)[kTokenBytes]);
  // The peer's greeting has come; until it is trusted, nothing else that comes counts: it may be that
  // of somebody else on its host.
  bool has_hello() const { return greeted_; }
  // Tells the peer, too: only then may it send what must not be lost.
  void trust();
  bool may_start() const { return greeted() && peer_trusts_; }
  // The peer has made sure who this end is.
  bool peer_trusts() const { return peer_trusts_; }
  bool greeted() const { return greeted_ && trusted_; }
  const std::uint8_t* peer_token() const { return peer_token_; }

  // ------------------------------------------------------------------ sending
  State sending() const { return sending_; }
  void start(std::uint64_t kernel_bytes);
  // Copies as much as there is room for and sends what may go. `combine`: small data may wait for
  // more, or for what is on its way. Bytes taken.
  std::size_t write(const iovec* pieces, std::size_t count, std::size_t skip, bool combine);
  // Whether the last write() or read() has met memory that isn't there.
  bool has_faulted() const { return faulted_; }
  // Sends a packet from the program's own memory, at most kChunkBytes. False: not now. `ticket`
  // tells when it has completed.
  bool write_direct(const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                    std::uint64_t& ticket);
  bool has_completed(std::uint64_t ticket);
  // Whether write() would take something.
  bool has_room();
  // Whether somebody has found no room since this was asked last.
  bool take_lack() { return std::exchange(lack_, false); }
  // While it is corked, a packet that is not full waits for more, whoever asks, but for push().
  void cork(bool on) { corked_ = on; }
  bool is_corked() const { return corked_; }
  void push();
  // Sends what has waited for more. True if something is left, for which there is no credit.
  bool flush();
  // Whether there is no room only because sends have not completed yet, of which nobody is told.
  bool awaits_completion() const { return is_full() && filled_ == posted_; }
  // Whether data waits for the peer to give credits.
  bool awaits_credits() const { return posted_ != filled_ && credits_ == 0 && !broken_; }
  // Whether small data waits for more.
  bool holds() const { return holds_; }
  // Whether something waits for sends to complete: turn() is to be called again although nothing
  // may come.
  bool wants_turn() const;
  // Bytes written that are not known to have reached the peer.
  std::size_t unsent();
  // FIN after all that was written. Calling it again may only add that the program closes: if FIN has
  // gone, the peer is asked to leave. A peer that still took the lane for open would write Resume to the
  // kernel when it ends, which answers that with a reset: bytes on their way there would be lost.
  void finish(bool closes);
  // After finish(): the peer needs nothing more from this end.
  bool is_finished() const {
    return sending_ == State::kEnded && (!leaves_ || receiving_ == State::kEnded);
  }
  // Even if the peer has sent its FIN: what has no credit reaches a peer that sets it aside.
  void ask_to_leave();

  // ------------------------------------------------------------------ receiving
  // The peer has been told, or is about to be, that it may begin.
  bool trusted() const { return trusted_; }
  State receiving() const { return trusted_ ? receiving_ : State::kIdle; }
  // START has come.
  bool started() const { return started_ && trusted_; }
  std::uint64_t peer_kernel_bytes() const { return peer_kernel_bytes_; }
  // The reader goes by START from now on. Before that the peer's FIN is not answered: what the peer then
  // sends through the kernel could be read for what comes before START.
  void settled();
  std::size_t unread() const { return unread_; }
  // Takes bytes to the pieces, beginning `skip` bytes into them. peek: they stay.
  std::size_t read(const iovec* pieces, std::size_t count, std::size_t skip, bool peek);
  // Bytes are taken and dropped.
  std::size_t discard(std::size_t bytes);
  // Moves what is unread to memory of the lane's own, so that the peer can go on sending. What is
  // more than kMostAside stays where it is.
  static constexpr std::size_t kMostAside = 64 * 1024 * 1024;
  void set_aside();
  // The program will not read any more: what comes is dropped.
  void deafen();
  // A reader that waits has the next packet written to its own memory. Nothing may be unread, and
  // nothing taken off the wire that arrived() has not been told of. False: it comes as always. When
  // this was true, end_direct() has to follow, until it is true; before that the memory must stay.
  bool begin_direct(std::byte* to, std::uint32_t bytes, std::uint32_t memory);
  bool direct_is_there() const { return direct_ == Direct::kThere; }
  // `bytes`: so many have come there; 0: none, read() has them all. False: something has that
  // arrived() is yet to be told of.
  bool end_direct(std::uint32_t& bytes);
  // Bytes of the last DATA packet.
  std::uint32_t last_packet() const { return last_packet_; }
  // The peer's program has closed.
  bool peer_closed() const { return peer_closed_ && trusted_; }
  // The peer asks for the FIN of the sending direction; it is on its way.
  bool peer_leaves() const { return peer_leaves_; }

  // ------------------------------------------------------------------ the wire's events
  // A packet has come. Change bits. After cut() nothing counts any more; what came before a send
  // that failed does.
  unsigned arrived(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate);
  // Sends have completed, or credits are wanted: to be called now and then. Change bits.
  unsigned turn();
  unsigned cut();

  bool broken() const { return broken_; }
  // ... and nothing more is to come. Until then it may yet have arrived() what came before a send failed.
  bool is_cut() const { return cut_; }
  // ... and data may be lost with it: that of this end, or the peer's, which sends none before it is
  // trusted.
  bool lost() const {
    return broken_ && may_start() && (sending_ != State::kIdle || !wants_trust_) &&
           receiving_ != State::kEnded && !peer_closed_;
  }
  bool over() const {
    return cut_ || (sending_ == State::kEnded && receiving_ == State::kEnded);
  }

  // ------------------------------------------------------------------ after it has broken
  // The streams go on through the kernel. What has completed has reached the peer's lane, what has not may
  // have. Whether there is anything to be done.
  bool wants_fall_back();
  // ... for which a descriptor is needed: there is something to be sent, or certainly to be taken.
  bool falls_with_data();
  enum class Fall : std::uint8_t {
    kPlain,       // what has not completed, and then what comes next; the peer drops what it has
    kRecord,      // Resume before it
    kImpossible,  // the peer can't know how to go on
  };
  Fall falls();
  std::uint64_t bytes_completed() const { return done_bytes_; }
  // Copies what has not completed, unsent() bytes. False: memory of the program's is not there any more.
  bool copy_unsent(std::byte* to);
  const std::uint8_t* own_token() const { return own_token_; }
  bool closes() const { return finish_closes_; }
  // The peer's stream in the kernel goes on with Resume: certainly, or perhaps.
  bool expects_record() const { return started() && receiving_ != State::kEnded; }
  bool may_get_record() const { return started() && !has_sent(fin_ack_at_); }
  std::uint64_t bytes_received() const { return received_; }

  struct Stalls {
    std::uint64_t credits = 0;   // times that data had to wait for credits
    std::uint64_t combined = 0;  // sends that were put into a packet with others
    std::uint64_t packets = 0;   // DATA
    std::uint64_t acks = 0;      // ACK packets
  };
  const Stalls& stalls() const { return stalls_; }

 private:
  struct Arrival {
    std::uint32_t place, at, bytes;
  };
  enum class Posted : std::uint8_t { kData, kControl };
  // Memory of a reader's: open to the next packet, with one in it that is yet to arrive(), with one
  // in it.
  enum class Direct : std::uint8_t { kNone, kOpen, kComing, kThere };

  std::uint32_t place(std::uint64_t position) const {
    return static_cast<std::uint32_t>(position % places_.data);
  }
  std::uint32_t& bytes_at(std::uint64_t position) { return chunk_bytes_[place(position)]; }
  // What waits for credits is bounded, too: a peer that does not read gives none, and sends complete.
  bool is_full() const {
    return filled_ - done_ == places_.data ||
           filled_ - posted_ == places_.data - options_.window;
  }
  bool has_sent(std::uint64_t control) const { return control_done_ > control; }
  bool may_answer_fin() const { return !started_ || settled_ || deaf_ || !options_.settles; }
  bool acceptable(std::uint32_t bytes, std::uint32_t immediate) const;
  void reap();
  void pump(bool push);
  bool post(PacketType type, const void* body, std::uint32_t bytes, std::uint32_t flags = 0);
  void post_pending_control();
  std::uint32_t take_credits(PacketType type);
  void consumed(std::uint32_t place);
  void give_back(std::uint32_t place);
  void give_spent_back();
  unsigned take_data(std::uint32_t place, std::uint32_t bytes, bool direct);
  bool join_last(std::uint32_t place, std::uint32_t bytes);
  bool close_direct();
  unsigned take_hello(std::uint32_t place);
  unsigned take_start(std::uint32_t place);
  unsigned take_fin(std::uint32_t flags);

  Lock lock_;
  Wire& wire_;
  const LaneOptions options_;
  const LanePlaces places_;
  static constexpr std::uint32_t kMostSpent = 4;
  const std::uint32_t most_spent_;  // so few that the peer has a credit left beside what it is owed

  State sending_ = State::kIdle, receiving_ = State::kIdle;
  bool faulted_ = false, trusted_ = false, peer_trusts_ = false, wants_trust_ = false;
  bool has_greeted_ = false, greeted_ = false, started_ = false, settled_ = false, deaf_ = false;
  bool broken_ = false, cut_ = false;
  bool leaves_ = false, peer_leaves_ = false, peer_closed_ = false;
  std::uint8_t peer_token_[kTokenBytes] = {};
  std::uint64_t peer_kernel_bytes_ = 0;

  // --- sending. Positions of data packets: done_ <= posted_ <= filled_ <= done_ + places_.data.
  std::vector<std::uint32_t> chunk_bytes_;
  std::vector<const std::byte*> chunk_memory_;  // the program's, nullptr: the wire's chunk
  std::uint64_t done_ = 0, posted_ = 0, filled_ = 0, done_bytes_ = 0;
  std::uint64_t control_done_ = 0, control_posted_ = 0;
  static constexpr std::uint64_t kNotPosted = ~std::uint64_t{0};
  std::uint64_t start_at_ = kNotPosted, fin_at_ = kNotPosted, fin_ack_at_ = kNotPosted;
  std::uint8_t own_token_[kTokenBytes] = {};
  Ring<Posted> order_;  // of what is posted and has not completed
  std::uint32_t peer_window_ = 0, credits_ = 0;  // credits_ <= peer_window_
  bool holds_ = false, corked_ = false;
  bool lack_ = false;
  bool stalled_ = false;
  std::uint32_t joined_ = 0;  // writes
  // control packets that wait for a place, or FIN for the data before it
  bool wants_finish_ = false, finish_closes_ = false, wants_fin_ack_ = false, wants_leave_ = false;

  // --- receiving: what was set aside comes first.
  // arrivals_.size() + spent_count_ + owed_ <= options_.window.
  std::uint64_t received_ = 0;
  Aside aside_;
  Ring<Arrival> arrivals_;
  std::size_t unread_ = 0;
  std::uint32_t spent_[kMostSpent];  // places that are yet to be given back
  std::uint32_t spent_count_ = 0;
  std::uint32_t owed_ = 0;  // credits that the peer has not been given back
  Direct direct_ = Direct::kNone;
  std::uint32_t direct_bytes_ = 0, last_packet_ = 0;

  Stalls stalls_;
};

}  // namespace viaduct::sovia

#endif
