// The sending half of a lane: data waits for credits, and small data for more data.
#ifndef VIADUCT_SOVIA_LANE_LANE_TX_H
#define VIADUCT_SOVIA_LANE_LANE_TX_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "sovia/lane/lane_control.h"

namespace viaduct::sovia {

class LaneTx {
 public:
  using State = LaneControl::State;
  LaneTx(const LaneOptions& options, LaneSendRing& ring, Credits& credits, ControlSender& sender, LaneControl& control)
      : options_(options), ring_(ring), credits_(credits), sender_(sender), control_(control) {}

  // Copies as much as there is room for and sends what may go. `combine`: small data may wait for more data, or until
  // packets under way have completed. Returns the bytes taken.
  std::size_t write(const iovec* pieces, std::size_t count, std::size_t skip, bool combine);
  // Sends a packet from the program's own memory, at most kChunkBytes. False: it can't be sent now. `ticket`: for
  // LaneSendRing::has_completed().
  bool write_direct(const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                    std::uint64_t& ticket);
  // Whether write() would take any bytes.
  bool has_room();
  // Whether a write has found no room since the last call.
  bool take_lack() { return std::exchange(lack_, false); }
  // While corked, a partly filled packet waits for more data. Only push() sends it nevertheless.
  void cork(bool on) { corked_ = on; }
  bool is_corked() const { return corked_; }
  void push();
  // Sends data that has waited for more. True if some is left, for which there is no credit.
  bool flush();
  // Whether data waits for the peer to give credits.
  bool awaits_credits() const { return ring_.has_unposted() && credits_.given() == 0 && !sender_.broken(); }
  // Whether small data waits for more.
  bool holds() const { return holds_; }
  // Whether small data waits until flush() is called, whatever packets come.
  bool holds_for_timer() const { return holds_ && options_.timer && !corked_; }
  // Whether the last write() has met memory that isn't there.
  bool has_faulted() const { return faulted_; }

  // ------------------------------------------------------------------ for the lane
  // Posts filled packets, as far as credits go. `push`: the last packet too, even if it is partly filled.
  void pump(bool push);
  // Nothing will be posted any more.
  void stop_holding() { holds_ = false; }

 private:
  void tell_more();
  void keep_unposted();
  void hold_more();
  bool may_begin() const;
  bool may_join(const iovec* pieces, std::size_t count, std::size_t skip, bool combines);
  bool begin_packet();
  void count_stall();

  const LaneOptions& options_;
  LaneSendRing& ring_;
  Credits& credits_;
  ControlSender& sender_;
  LaneControl& control_;
  bool holds_ = false, corked_ = false, faulted_ = false;
  bool lack_ = false;
  bool stalled_ = false;
  bool says_more_ = false;  // the transport holds kMore
  std::uint32_t drafted_ = 0;  // bytes of the last packet in the transport's draft
  bool told_more_ = false;  // the last packet says that more follows, or MORE behind it
  std::uint64_t mores_at_[kMostMores] = {};  // the posted data packets at the last MORE packets
  std::uint32_t joined_ = 0;  // writes that joined a packet
};

}  // namespace viaduct::sovia

#endif
