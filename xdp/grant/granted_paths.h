// The paths of a granted port: the kernel's queue, rings to programs of the same host (local/local_peers.h), trains.
//
//   receive()  rings first, then frames of the kernel that were sent after what is in the rings, then trains
//   submit()   the ring or the queue that the frame was reserved from
//
// GrantedPort has an AF_XDP queue and a train socket here; the simulation has paths of its own in their places. A
// Queue has the functions of XskQueue that are called here, Trains those of TrainSocket.
//
// For libvipl too: no allocation, no exception, nothing but the C library.
#ifndef VIADUCT_XDP_GRANT_GRANTED_PATHS_H
#define VIADUCT_XDP_GRANT_GRANTED_PATHS_H

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "xdp/bulk_path.h"
#include "xdp/local/local_peers.h"
#include "xdp/port.h"
#include "xdp/xsk/system_calls.h"

namespace viaduct {

// A frame of the least length that there is.
using WholeFrame = std::array<std::byte, 60>;

template <class Queue, class Trains>
class GrantedPaths {
 public:
  GrantedPaths() = default;
  ~GrantedPaths() { end_locals(); }
  GrantedPaths(const GrantedPaths&) = delete;
  GrantedPaths& operator=(const GrantedPaths&) = delete;

  std::size_t receive(std::span<Frame> frames) {
    const std::size_t n = local_ == nullptr ? queue_.receive(frames) : receive_both(frames);
    return trains_.is_due() && n < frames.size() ? n + receive_trains(frames.subspan(n)) : n;
  }
  void release(std::span<const Frame> frames) {
    if (local_ == nullptr && !trains_.knows_any()) return queue_.release(frames);
    release_each(frames);
  }
  std::size_t reserve(std::span<Frame> frames) { return queue_.reserve(frames); }
  // The frames are all of reserve(), or one of reserve_for().
  void submit(std::span<const Frame> frames) {
    if (is_local(frames)) return local_->submit(frames.front());
    queue_.submit(frames);
  }
  void submit_bulk(std::span<const Frame> frames, BulkPath::Prepare prepare);
  // The first program is the process that the port is in.
  bool takes_pieces_of(std::uint32_t program) const { return program == 0; }
  bool submit_pieces(std::span<const std::byte> head, std::span<const iovec> pieces);
  void cancel(std::span<const Frame> frames) {
    if (!is_local(frames)) queue_.cancel(frames);
  }
  void flush() {
    if (local_ != nullptr) wake_local();
    queue_.flush();
    if (trains_.has_waiting()) [[unlikely]] flush_train();
  }

  // Whether receive() would return something, or sent buffers wait for being taken back: one look
  // at memory; where trains may come a system call now and then.
  bool has_frames() {
    return queue_.has_frames() || held_.count != 0 || (local_ != nullptr && local_->has_frames()) ||
           (trains_.is_due() && trains_.look());
  }

  // To be called before a thread sleeps until the queue has something: from now on all frames but those of trains
  // bring a frame there, until the next receive(). False: something has come.
  bool prepare_to_sleep() {
    return local_ == nullptr || (held_.count == 0 && local_->prepare_to_sleep());
  }

  // As BulkPath's functions. `mtu`: the port's.
  std::uint32_t payload_limit(const MacAddress& to, std::uint32_t mtu) const {
    if (local_ != nullptr && local_->has(to)) return local::LocalPeers::kPayloadLimit;
    return trains_.knows(to) ? trains_.payload_limit() : mtu;
  }
  bool reserve_for(const MacAddress& to, std::uint32_t bytes, Frame& frame) {
    return local_ != nullptr && local_->reserve(to, bytes, frame);
  }

  // A pair of rings, see LocalPeers::make() and add(). `wake` makes its receiver look at its rings; its addresses
  // are filled in here.
  const char* add_local(const MacAddress& own, std::uint32_t kept, const MacAddress& peer, std::uint64_t program,
                        int file, unsigned end, const WholeFrame& wake);
  void end_local(const MacAddress& peer) {
    if (local_ != nullptr) local_->end(peer);
  }
  const local::LocalPeers* local() const { return local_; }

 protected:
  void end_locals() {
    local::LocalPeers::destroy(local_);
    local_ = nullptr;
  }

  Queue queue_;
  Trains trains_;
  BulkPath::Prepare prepare_ = nullptr;  // of the frames of the train that waits

 private:
  // Frames from the kernel that are handed out behind what is in the rings.
  struct Held {
    static constexpr std::uint32_t kMost = 32;
    Frame frames[kMost];
    std::uint32_t count;
    bool for_train;  // frames of the train go behind them
  };

  bool is_local(std::span<const Frame> frames) const {
    return local_ != nullptr && !frames.empty() && (frames.front().id & local::LocalPeers::kId) != 0;
  }
  std::size_t receive_both(std::span<Frame> frames);
  void hold();
  void release_each(std::span<const Frame> frames);
  void wake_local();
  std::size_t receive_trains(std::span<Frame> frames);
  void flush_train();

  Held held_{};
  local::LocalPeers* local_ = nullptr;  // none so far
  MacAddress own_{};
  WholeFrame wake_;
};

template <class Queue, class Trains>
const char* GrantedPaths<Queue, Trains>::add_local(const MacAddress& own, std::uint32_t kept, const MacAddress& peer,
                                                   std::uint64_t program, int file, unsigned end,
                                                   const WholeFrame& wake) {
  if (local_ == nullptr) local_ = local::LocalPeers::make(own, kept);
  if (local_ == nullptr) {
    system_calls::close(file);
    return "no memory for local peers";
  }
  own_ = own;
  wake_ = wake;
  return local_->add(peer, program, file, end);
}

// Hands out frames that come by the kernel (such as: a connection, or the peer, has ended) behind all frames that
// were in the rings before them: a ring gives a few frames at a time.
template <class Queue, class Trains>
std::size_t GrantedPaths<Queue, Trains>::receive_both(std::span<Frame> frames) {
  if (held_.count == 0) hold();
  const std::size_t n = local_->receive(frames);
  if (held_.count == 0 || !local_->is_past_mark()) return n;
  const std::size_t now = std::min<std::size_t>(held_.count, frames.size() - n);
  std::copy_n(held_.frames, now, frames.begin() + n);
  std::copy(held_.frames + now, held_.frames + held_.count, held_.frames);
  held_.count -= static_cast<std::uint32_t>(now);
  return n + now;
}

template <class Queue, class Trains>
void GrantedPaths<Queue, Trains>::hold() {
  held_.count = static_cast<std::uint32_t>(queue_.receive(held_.frames));
  if (held_.count != 0) local_->mark();
}

template <class Queue, class Trains>
void GrantedPaths<Queue, Trains>::release_each(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    if (trains_.owns(frame)) {
      trains_.release(frame);
    } else if ((frame.id & local::LocalPeers::kId) != 0) {
      local_->release(frame);
    } else {
      queue_.release({&frame, 1});
    }
  }
}

template <class Queue, class Trains>
void GrantedPaths<Queue, Trains>::wake_local() {
  local_->flush([this](const MacAddress& peer) {
    Frame frame;
    if (queue_.reserve({&frame, 1}) == 0) return;
    std::memcpy(frame.data, wake_.data(), wake_.size());
    std::memcpy(frame.data, peer.data(), peer.size());
    std::memcpy(frame.data + peer.size(), own_.data(), own_.size());
    frame.length = static_cast<std::uint32_t>(wake_.size());
    queue_.submit({&frame, 1});
  });
}

// Frames that have come by the queue by now were sent before the train, so they go first.
template <class Queue, class Trains>
std::size_t GrantedPaths<Queue, Trains>::receive_trains(std::span<Frame> frames) {
  if (!trains_.look()) return 0;
  if (local_ == nullptr) {
    const std::size_t n = queue_.receive(frames);
    return n + trains_.receive(frames.subspan(n));
  }
  if (held_.count != 0) return 0;
  if (!std::exchange(held_.for_train, true)) hold();
  if (held_.count != 0) return 0;
  held_.for_train = false;
  return trains_.receive(frames);
}

template <class Queue, class Trains>
void GrantedPaths<Queue, Trains>::submit_bulk(std::span<const Frame> frames, BulkPath::Prepare prepare) {
  prepare_ = prepare;
  for (const Frame& frame : frames) {
    if (trains_.add(frame)) continue;
    // Frames that were submitted before must arrive before.
    queue_.flush();
    flush_train();
    trains_.add(frame);
  }
}

template <class Queue, class Trains>
bool GrantedPaths<Queue, Trains>::submit_pieces(std::span<const std::byte> head, std::span<const iovec> pieces) {
  if (pieces.size() > Trains::kMostPieces) return false;
  if (trains_.add(head, pieces)) return true;
  queue_.flush();
  flush_train();
  return trains_.add(head, pieces);
}

template <class Queue, class Trains>
void GrantedPaths<Queue, Trains>::flush_train() {
  const std::span<const Frame> frames = trains_.waiting();
  if (trains_.send()) return queue_.cancel(frames);
  for (Frame frame : frames) {
    prepare_(frame);
    queue_.submit({&frame, 1});
  }
  queue_.flush();
}

}  // namespace viaduct

#endif
