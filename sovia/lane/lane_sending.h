// The sending half of a lane: data waits for credits, and small data for more data.
#ifndef VIADUCT_SOVIA_LANE_LANE_SENDING_H
#define VIADUCT_SOVIA_LANE_LANE_SENDING_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "sovia/lane/lane_receiving.h"

namespace viaduct::sovia {

class LaneSending : public LaneReceiving {
 public:
  using LaneReceiving::LaneReceiving;

  // Copies as much as there is room for and sends what may go. `combine`: small data may wait for
  // more, or for what is on its way. Bytes taken.
  std::size_t write(const iovec* pieces, std::size_t count, std::size_t skip, bool combine);
  // Sends a packet from the program's own memory, at most kChunkBytes. False: not now. `ticket`
  // tells when it has completed.
  bool write_direct(const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                    std::uint64_t& ticket);
  // Whether write() would take something.
  bool has_room();
  // Whether a write has found no room since the last call.
  bool take_lack() { return std::exchange(lack_, false); }
  // While corked, a partly filled packet waits for more data; of the senders only push() ignores this.
  void cork(bool on) { corked_ = on; }
  bool is_corked() const { return corked_; }
  void push();
  // Sends data that has waited for more. True if some is left, for which there is no credit.
  bool flush();
  // Whether data waits for the peer to give credits.
  bool awaits_credits() const { return posted_ != filled_ && credits_ == 0 && !broken_; }
  // Whether small data waits for more.
  bool holds() const { return holds_; }
  // ... and goes on waiting, whatever comes, unless flush() is called.
  bool holds_for_timer() const { return holds_ && options_.timer && !corked_; }
  // Whether something waits for sends to complete: turn() is to be called again although nothing
  // may come.
  bool wants_turn() const;
  // FIN after all that was written. Calling it again may only add that the program closes: if FIN has
  // gone, the peer is asked to leave. A peer that still took the lane for open would write Resume to the
  // kernel when it ends, which answers that with a reset: bytes on their way there would be lost.
  void finish(bool closes);
  // Even if the peer has sent its FIN: data without credits reaches a peer that spills it.
  void ask_to_leave();

 protected:
  ~LaneSending() = default;
  void pump(bool push);
  void tell_more();

  std::uint32_t peer_window_ = 0, credits_ = 0;  // credits_ <= peer_window_
  bool holds_ = false, corked_ = false;

 private:
  bool may_begin() const;
  bool may_join(const iovec* pieces, std::size_t count, std::size_t skip, bool combines) const;
  bool begin_packet();
  void count_stall();

  bool lack_ = false;
  bool stalled_ = false;
  bool says_more_ = false;  // as the wire was told
  bool told_more_ = false;  // the last packet says that more follows, or MORE behind it
  std::uint64_t mores_at_[kMostMores] = {};  // posted_ when the last MORE packets went
  std::uint32_t joined_ = 0;  // writes
};

}  // namespace viaduct::sovia

#endif
