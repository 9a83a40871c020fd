// The packets that a lane has posted, or is about to: those with data have a place in a ring of chunks, the
// others in one of control packets.
#ifndef VIADUCT_SOVIA_LANE_LANE_SEND_RING_H
#define VIADUCT_SOVIA_LANE_LANE_SEND_RING_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sovia/lane/packet.h"
#include "sovia/lane/ring.h"
#include "sovia/lane/wire.h"
#include "sovia/process/lock.h"

namespace viaduct::sovia {

// MORE packets of one end that may be on their way.
inline constexpr std::uint32_t kMostMores = 2;

bool copy_plainly(void* to, const void* from, std::size_t bytes);

struct LaneOptions {
  std::uint32_t window = 32;         // w, of this end
  std::uint32_t ack_threshold = 16;  // t <= w
  bool combine = true;               // small sends
  bool settles = false;              // settled() will be called
  // From and to the program's memory. False: it can't be read or written.
  bool (*copy)(void* to, const void* from, std::size_t bytes) = copy_plainly;
  bool messages = false;  // the peer may write to memory (lane_sinks.h)
  bool join = true;       // sends may share a packet that waits for credits
  // Data waits for credits in the program's call, not here, and unread data counts against the window, each packet by
  // itself.
  bool strict_window = false;
  bool timer = false;  // small sends wait until flush(), whatever is on its way
};

// Places that a wire needs.
struct LanePlaces {
  std::uint32_t data, control, receive;
  std::uint32_t writes;  // 0: the lane has none
};
LanePlaces places_for(const LaneOptions& options);

class LaneSendRing {
 public:
  // The wire has posted all its receives.
  LaneSendRing(Wire& wire, const LaneOptions& options);

  Lock& lock() { return lock_; }

  // Whether there is no room only because sends have not completed yet. No event reports their completion.
  bool awaits_completion() const { return is_full() && filled_ == posted_; }
  // Whether the last write() or read() has met memory that isn't there.
  bool has_faulted() const { return faulted_; }
  bool has_completed(std::uint64_t ticket);
  // Bytes written that are not known to have reached the peer.
  std::size_t unsent();
  // Copies what has not completed, unsent() bytes. False: memory of the program's is not there any more.
  bool copy_unsent(std::byte* to);
  // Packets posted that have not completed.
  std::size_t outstanding() const { return order_.size(); }
  std::uint64_t bytes_completed() const { return done_bytes_; }

 protected:
  ~LaneSendRing() = default;
  enum class Posted : std::uint8_t { kData, kControl, kWrite };

  std::uint32_t place(std::uint64_t position) const {
    return static_cast<std::uint32_t>(position % places_.data);
  }
  std::uint32_t& bytes_at(std::uint64_t position) { return chunk_bytes_[place(position)]; }
  // Also bounds the data that waits for credits: a peer that does not read gives none, yet sends complete.
  bool is_full() const {
    return filled_ - done_ == places_.data ||
           filled_ - posted_ == places_.data - options_.window;
  }
  bool has_sent(std::uint64_t control) const { return control_done_ > control; }
  void reap();

  Lock lock_;
  Wire& wire_;
  const LaneOptions options_;
  const LanePlaces places_;
  bool faulted_ = false;

  // Positions of data packets: done_ <= posted_ <= filled_ <= done_ + places_.data.
  std::vector<std::uint32_t> chunk_bytes_;
  std::vector<const std::byte*> chunk_memory_;  // the program's, nullptr: the wire's chunk
  std::uint64_t done_ = 0, posted_ = 0, filled_ = 0, done_bytes_ = 0;
  std::uint64_t control_done_ = 0, control_posted_ = 0;
  std::uint64_t writes_done_ = 0, writes_posted_ = 0;
  Ring<Posted> order_;  // of what is posted and has not completed
};

}  // namespace viaduct::sovia

#endif
