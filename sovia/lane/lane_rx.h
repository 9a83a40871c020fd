// The receiving half of a lane: data that has come and is unread, or that goes straight to a reader's memory.
#ifndef VIADUCT_SOVIA_LANE_LANE_RX_H
#define VIADUCT_SOVIA_LANE_LANE_RX_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "sovia/lane/lane_control.h"
#include "sovia/lane/ring.h"

namespace viaduct::sovia {

class LaneRx {
 public:
  using State = LaneControl::State;
  LaneRx(Transport& transport, const LaneOptions& options, Credits& credits, LaneControl& control)
      : transport_(transport), options_(options), credits_(credits), control_(control), arrivals_(options.window + 1) {}

  // All that the lane has brought and nobody has taken.
  std::size_t unread() const { return unread_; }
  // Of this, what comes before the kernel's next bytes; `past_first`: behind the kernel's present ones, if those come first.
  std::size_t unread_here(bool past_first = false);
  // Whether bytes of the kernel's come between those of the lane, or before.
  bool has_turns() const { return turns_ != 0; }
  // The first unread packet says that it comes behind so many bytes of the kernel's; nothing of it can be read before
  // go_up().
  std::optional<std::uint64_t> first();
  void go_up();
  // The lane has said that the kernel goes on, and all before has been read: once for each time, how many bytes the lane
  // has brought since go_up().
  std::optional<std::uint64_t> take_down();
  // Where the kernel goes on: see(first, brought), with take_down()'s answer and, of a direction that comes up before, first()'s.
  template <class See>
  void each_down(See see) {
    std::optional<std::uint64_t> first;
    for (std::size_t i = 0; turns_ != 0 && i < arrivals_.size(); ++i) {
      if (arrivals_[i].turn == Turn::kFirst) first = arrivals_[i].number;
      if (arrivals_[i].turn == Turn::kDown) see(first, arrivals_[i].number);
    }
  }
  // The direction has gone on by the kernel already: what the lane has brought comes there again.
  void drop_all();
  // Takes bytes to the pieces, from `skip` bytes into them on. With `peek` the bytes stay.
  std::size_t read(const iovec* pieces, std::size_t count, std::size_t skip, bool peek, bool past_first = false);
  // Whether the last read() has met memory that isn't there.
  bool has_faulted() const { return faulted_; }
  // Takes bytes and drops them. Returns how many.
  std::size_t discard(std::size_t bytes);
  // The program will not read any more: the lane drops what is unread, and what comes if it does not refuse that.
  void close_reading();
  // The program has shut both directions down, or closed: data that comes now is answered with a reset, as by TCP. The
  // kernel answers so to what the peer sends there.
  void refuse_data() {
    if (refusal_ == Refusal::kNone) refusal_ = Refusal::kOfData;
  }
  // Whether data has come then, and first()'s answer for it.
  bool has_refused() const { return refusal_ == Refusal::kDone; }
  std::optional<std::uint64_t> refused_first() const { return refused_first_; }
  // Has the next packet written to the memory of a reader that waits. Nothing may be unread, and nothing may have been
  // taken off the transport without arrived(). Returns the reader's number, or kNoDirect: the packet comes to a receive
  // as always. end_direct() has to be called until it is true; before that the memory must stay. A packet without data
  // ends the redirection too; then another reader may begin one, under a number of its own.
  using DirectNumber = std::uint32_t;
  static constexpr DirectNumber kNoDirect = 0;
  DirectNumber begin_direct(std::byte* to, std::uint32_t bytes, std::uint32_t memory);
  bool direct_is_there(DirectNumber number) const {
    return direct_ == Direct::kThere && number == direct_number_;
  }
  // `bytes`: how many have come to the reader's memory; 0: none, read() has them all. False: a packet has come there
  // that arrived() has yet to be called for.
  bool end_direct(DirectNumber number, std::uint32_t& bytes);
  // Bytes of the last DATA packet.
  std::uint32_t last_packet() const { return last_packet_; }
  // Bytes that have come, in all, and since the direction came to the lane last.
  std::uint64_t bytes_received() const { return received_; }
  std::uint64_t bytes_here() const { return received_ - received_before_; }

  // ------------------------------------------------------------------ for the lane
  // A DATA packet has come, to a reader's memory or to its place. Change bits.
  unsigned take_data(std::uint32_t place, std::uint32_t bytes, std::uint32_t flags, bool direct);
  // Whether a packet with kFlagFirst has a number that can be.
  bool is_plausible(std::uint32_t place, std::uint32_t bytes) { return number_in(place, bytes) <= kMostKernelBytes; }
  // Data has come. True: it is refused.
  bool refuses(std::uint32_t place, std::uint32_t bytes, std::uint32_t flags);
  // No later packet goes to the reader's memory. True: the next packet for arrived() lies there already.
  bool close_direct();
  void forget_direct() { direct_ = Direct::kNone; }

 private:
  // kFirst: nothing is read before go_up(). kDown: it has no bytes, and nothing behind it is read before take_down().
  enum class Turn : std::uint8_t { kNone, kFirst, kDown };
  struct Arrival {
    std::uint32_t place, at, bytes;
    Turn turn;
    std::uint64_t number;  // kFirst: of the kernel's bytes before; kDown: of the lane's
  };
  // The state of a reader's memory: kOpen to the next packet; kComing: it has a packet that arrived() has yet to be
  // called for; kThere: it has a packet.
  enum class Direct : std::uint8_t { kNone, kOpen, kComing, kThere };

  enum class Refusal : std::uint8_t { kNone, kOfData, kDone };
  // The number behind the data of a packet with kFlagFirst.
  std::uint64_t number_in(std::uint32_t place, std::uint32_t bytes);
  bool join_last(std::uint32_t place, std::uint32_t bytes);
  bool is_here(std::size_t arrival, bool past_first) {
    const Turn turn = arrivals_[arrival].turn;
    return turn == Turn::kNone || (past_first && arrival == 0 && turn == Turn::kFirst);
  }

  Transport& transport_;
  const LaneOptions& options_;
  Credits& credits_;
  LaneControl& control_;
  std::uint64_t received_ = 0, received_before_ = 0;
  Ring<Arrival> arrivals_;
  std::size_t unread_ = 0;
  std::size_t turns_ = 0;  // of the arrivals
  bool faulted_ = false;
  Refusal refusal_ = Refusal::kNone;
  std::optional<std::uint64_t> refused_first_;
  Direct direct_ = Direct::kNone;
  DirectNumber direct_number_ = kNoDirect;  // of the reader that began last
  std::uint32_t direct_bytes_ = 0, last_packet_ = 0;
};

}  // namespace viaduct::sovia

#endif
