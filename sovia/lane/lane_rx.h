// The receiving half of a lane: data that has come and is unread, or that goes straight to a reader's memory.
#ifndef VIADUCT_SOVIA_LANE_LANE_RX_H
#define VIADUCT_SOVIA_LANE_LANE_RX_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "sovia/lane/lane_control.h"
#include "sovia/lane/ring.h"
#include "sovia/lane/spill.h"

namespace viaduct::sovia {

class LaneRx {
 public:
  using State = LaneControl::State;
  LaneRx(Transport& transport, const LaneOptions& options, Credits& credits, LaneControl& control)
      : transport_(transport), options_(options), credits_(credits), control_(control), arrivals_(options.window + 1) {}

  std::size_t unread() const { return unread_; }
  // Takes bytes to the pieces, from `skip` bytes into them on. With `peek` the bytes stay.
  std::size_t read(const iovec* pieces, std::size_t count, std::size_t skip, bool peek);
  // Whether the last read() has met memory that isn't there.
  bool has_faulted() const { return faulted_; }
  // Takes bytes and drops them. Returns how many.
  std::size_t discard(std::size_t bytes);
  // Moves unread data to the lane's own memory, so that the peer can go on sending. Data beyond kMostSpilled stays
  // where it is.
  static constexpr std::size_t kMostSpilled = 64 * 1024 * 1024;
  void spill_arrivals();
  // The program will not read any more: the lane drops what is unread, and what comes if it does not refuse that.
  void close_reading();
  // The program has shut both directions down, or closed: data that comes now is answered with a reset, as by TCP.
  void refuse_data() {
    if (refusal_ == Refusal::kNone) refusal_ = Refusal::kOfData;
  }
  // Whether data has come then.
  bool has_refused() const { return refusal_ == Refusal::kDone; }
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
  std::uint64_t bytes_received() const { return received_; }


  // ------------------------------------------------------------------ for the lane
  // A DATA packet has come, to a reader's memory or to its place. Change bits.
  unsigned take_data(std::uint32_t place, std::uint32_t bytes, bool direct);
  // Data has come. True: it is refused.
  bool refuses() {
    if (refusal_ == Refusal::kNone) return false;
    refusal_ = Refusal::kDone;
    return true;
  }
  // No later packet goes to the reader's memory. True: the next packet for arrived() lies there already.
  bool close_direct();
  void forget_direct() { direct_ = Direct::kNone; }
  bool has_direct() const { return direct_ != Direct::kNone; }
  // Whether the peer may send one packet more: it has a credit, or it is the `last` one (kFlagLast).
  bool has_place(bool last) const { return !last_came_ && (last || credits_.peer_has() != 0); }
  void take_no_more() { last_came_ = true; }

 private:
  struct Arrival {
    std::uint32_t place, at, bytes;
  };
  // The state of a reader's memory: kOpen to the next packet; kComing: it has a packet that arrived() has yet to be
  // called for; kThere: it has a packet.
  enum class Direct : std::uint8_t { kNone, kOpen, kComing, kThere };

  enum class Refusal : std::uint8_t { kNone, kOfData, kDone };
  bool join_last(std::uint32_t place, std::uint32_t bytes);

  Transport& transport_;
  const LaneOptions& options_;
  Credits& credits_;
  LaneControl& control_;
  // Spilled data comes first.
  std::uint64_t received_ = 0;
  Spill spill_;
  Ring<Arrival> arrivals_;
  std::size_t unread_ = 0;
  bool faulted_ = false, last_came_ = false;
  Refusal refusal_ = Refusal::kNone;
  Direct direct_ = Direct::kNone;
  DirectNumber direct_number_ = kNoDirect;  // of the reader that began last
  std::uint32_t direct_bytes_ = 0, last_packet_ = 0;
};

}  // namespace viaduct::sovia

#endif
