// The packets that a lane has posted, or is about to post. There are places for each kind: chunks for data, control
// packets, RDMA writes. The place that became free last is used first, for data: a connection with small messages
// touches few pages.
#ifndef VIADUCT_SOVIA_LANE_LANE_SEND_RING_H
#define VIADUCT_SOVIA_LANE_LANE_SEND_RING_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sovia/lane/lane_options.h"
#include "sovia/lane/packet.h"
#include "sovia/lane/ring.h"
#include "sovia/lane/transport.h"

namespace viaduct::sovia {

class LaneSendRing {
 public:
  // To be made when the transport has posted all its receives.
  LaneSendRing(Transport& transport, const LaneOptions& options);

  // Takes in the completions of packets.
  void reap();
  // Bytes written that are not known to have reached the peer.
  std::size_t unsent();
  // Copies the unsent() bytes of packets that have not completed. False: the program's memory for one is not there any
  // more.
  bool copy_unsent(std::byte* to);
  std::uint64_t bytes_completed() const { return done_bytes_; }

  // ------------------------------------------------------------------ data, in order of position
  // The second limit bounds the data that waits for credits: a peer that does not read gives none, although sends
  // complete.
  bool is_full() const {
    return filled_ - done_ == places_.data ||
           filled_ - posted_ == places_.data - options_.window;
  }
  // Whether there is no room only because sends have not completed yet. No event reports their completion.
  bool awaits_completion() const { return is_full() && filled_ == posted_; }
  bool has_completed(std::uint64_t position);
  std::uint64_t completed() const { return done_; }
  std::uint64_t posted() const { return posted_; }
  std::uint64_t filled() const { return filled_; }
  std::uint64_t unposted() const { return filled_ - posted_; }
  bool has_unposted() const { return filled_ != posted_; }
  bool in_flight() const { return posted_ != done_; }
  // Begins a new packet, behind all others.
  void begin() {
    chunk_memory_[take_place()] = nullptr;
    bytes_at(filled_++) = 0;
  }
  void take_back_last() { free_places_.push_back(place(--filled_)); }
  void hold(bool holds) { transport_.hold(holds); }
  // The last packet, which is not posted: its bytes, and where they are.
  std::uint32_t& last_bytes() { return bytes_at(filled_ - 1); }
  std::byte* last_chunk() { return transport_.data_chunk(place(filled_ - 1)); }
  // The packet to be posted next.
  std::uint32_t next_bytes() { return bytes_at(posted_); }
  bool is_next_last() const { return posted_ + 1 == filled_; }
  // `behind` is sent behind the packet's bytes, whose chunk has room for it; nullptr: nothing is.
  bool post_next(std::uint32_t immediate, const First* behind);
  // Posts a packet from the program's own memory. No packet before it may be unposted. `position`: the packet's, for
  // has_completed().
  bool post_memory(const std::byte* data, std::uint32_t bytes, std::uint32_t memory, std::uint32_t immediate,
                   std::uint64_t& position);

  // ------------------------------------------------------------------ packets without data
  bool has_control_place();
  bool post_control(const void* body, std::uint32_t bytes, std::uint32_t immediate);
  std::uint64_t control_posted() const { return control_posted_; }
  bool has_sent(std::uint64_t control) const { return control_done_ > control; }

  // ------------------------------------------------------------------ RDMA
  bool has_write_place();
  // Calls post(place), which has to post the operation.
  template <class Post>
  bool post_write(Post&& post) {
    set_patient(false);
    if (!post(static_cast<std::uint32_t>(writes_posted_ % places_.writes))) return false;
    ++writes_posted_;
    order_.push_back(Posted::kWrite);
    return true;
  }
  std::uint64_t writes_posted() const { return writes_posted_; }
  // Whether all of the first `posted` have completed.
  bool writes_completed(std::uint64_t posted);

 private:
  enum class Posted : std::uint8_t { kData, kControl, kWrite };

  void set_patient(bool patient);
  std::uint32_t& place_at(std::uint64_t position) { return places_at_[position % places_.data]; }
  std::uint32_t place(std::uint64_t position) const { return places_at_[position % places_.data]; }
  // The place of the packet at filled_.
  std::uint32_t take_place() {
    const std::uint32_t taken = free_places_.back();
    free_places_.pop_back();
    return place_at(filled_) = taken;
  }
  std::uint32_t& bytes_at(std::uint64_t position) { return chunk_bytes_[place(position)]; }

  Transport& transport_;
  const LaneOptions& options_;
  const LanePlaces places_;
  // Positions of data packets: done_ <= posted_ <= filled_ <= done_ + places_.data.
  std::vector<std::uint32_t> places_at_, free_places_;
  std::vector<std::uint32_t> chunk_bytes_;  // by place
  std::vector<const std::byte*> chunk_memory_;  // the program's memory; nullptr: the transport's chunk
  std::uint64_t done_ = 0, posted_ = 0, filled_ = 0, done_bytes_ = 0;
  std::uint64_t control_done_ = 0, control_posted_ = 0;
  std::uint64_t writes_done_ = 0, writes_posted_ = 0;
  bool is_patient_ = false;
  Ring<Posted> order_;  // the kinds of the packets that have not completed
};

}  // namespace viaduct::sovia

#endif
