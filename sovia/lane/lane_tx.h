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

  // The direction comes to the lane, behind so many bytes of the kernel's. False: it can't now.
  bool go_up(std::uint64_t kernel_bytes);
  // The kernel is to go on: the lane says so behind all data. False: there is no room to say it.
  bool go_down();
  // Whether it has, since go_up().
  bool has_gone_down() const { return down_at_ >= control_.first_at() && down_at_ < ring_.filled(); }
  // The packet that says where the direction has come to the lane has reached the peer.
  bool has_delivered_first() const { return has_begun_ && ring_.completed() > control_.first_at(); }
  // Bytes since go_up() that have reached the peer.
  std::uint64_t bytes_delivered() const { return ring_.bytes_completed() - bytes_before_; }
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
  void post_next();
  // The bytes that the last packet may have.
  std::uint32_t most_of_last() const {
    return ring_.filled() == control_.first_at() + 1 ? kChunkBytes - sizeof(First) : kChunkBytes;
  }
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
  bool tells_of_more_ = false;  // the transport knows that data is held back
  bool has_begun_ = false;      // the first packet since go_up() has been posted
  First first_{};
  std::uint64_t down_at_ = ~std::uint64_t{0};  // the packet that says that the kernel goes on
  std::uint64_t bytes_before_ = 0;             // completed before go_up()
  std::uint32_t joined_ = 0;  // writes that joined a packet
};

}  // namespace viaduct::sovia

#endif
