// The work on one AF_XDP socket and its UMEM: which buffer is where, and the data path.
//
//   chunks [0, receive)            lent to the kernel through the fill ring, come back by rx
//   chunks [receive, receive+send) lent to the kernel through the tx ring, come back by completion
//
// A chunk is at every moment with the kernel, with the borrower or in a free list here, and moves
// only from where it is known to be: an entry of a ring that says otherwise is dropped and counted.
// Free lists are stacks, so that the buffers used last, still in the cache, are used again.
//
// Used by the agent's own port (AfXdpQueue) and by the granted port, which is compiled into
// libvipl: no allocation, no exception, nothing but the C library. The functions mean what they
// mean in Port.
#ifndef VIADUCT_XDP_XSK_QUEUE_H
#define VIADUCT_XDP_XSK_QUEUE_H

#include <cstddef>
#include <cstdint>
#include <span>

#include "xdp/port.h"
#include "xdp/xsk_rings.h"

namespace viaduct {

class XskQueue {
 public:
  struct Shape {
    std::uint32_t chunk_shift;
    std::uint32_t receive;  // chunks to receive into
    std::uint32_t send;     // chunks to send from; 0 for a queue that only receives
    std::uint32_t ring;     // entries of each ring, a power of two
    std::uint32_t filled;   // chunks that the kernel has to receive into, at most `ring`
  };

  // Bytes of the memory in which the lists are kept.
  static constexpr std::size_t state_bytes(const Shape& shape) {
    return std::size_t{shape.receive + shape.send} * (sizeof(std::uint32_t) + sizeof(Owner));
  }

  XskQueue() = default;
  XskQueue(const XskQueue&) = delete;
  XskQueue& operator=(const XskQueue&) = delete;

  // `area` is the UMEM, `state` zeroed memory of state_bytes(), aligned to 4; all must outlive the
  // queue. Until attach() there is no socket.
  void set_up(const Shape& shape, std::byte* area, void* state, PortCounters& counters);

  // Takes a new socket (not over: closing it is the caller's). Every chunk that is not with the
  // borrower is free now. Returns nullptr, or what failed; errno says why.
  const char* attach(int socket);
  // Forgets the socket. What it had of ours is lost; lent chunks stay lent.
  void detach();
  int socket() const { return socket_; }  // -1: none

  std::size_t receive(std::span<Frame> frames);
  void release(std::span<const Frame> frames);
  std::size_t reserve(std::span<Frame> frames);
  void submit(std::span<const Frame> frames);
  void cancel(std::span<const Frame> frames);
  void flush() {
    if (unsent_) send();
  }
  // Sends even if the kernel has said that it would by itself.
  void kick();

  // Frames have come, or sent buffers can be taken back.
  bool has_frames() const {
    return socket_ >= 0 &&
           (!rings_.receive.empty() || (sending_ != 0 && !rings_.completion.empty()));
  }

  // Frames with the kernel, and how many have come back in all.
  std::uint32_t sending() const { return sending_; }
  std::uint64_t completed() const { return completed_; }

  // Adds the kernel's own counters of the sockets so far.
  void add_statistics(PortCounters& out) const;

 private:
  enum class Owner : std::uint8_t { kFree, kKernel, kBorrower };

  void fill();
  void reap();
  void send();
  bool take(std::uint64_t chunk, Owner from, Owner to) {
    if (chunk >= shape_.receive + shape_.send || owner_[chunk] != from) [[unlikely]] return false;
    owner_[chunk] = to;
    return true;
  }
  std::byte* data(std::uint32_t chunk) const {
    return area_ + (std::size_t{chunk} << shape_.chunk_shift);
  }

  Shape shape_{};
  int socket_ = -1;
  std::byte* area_ = nullptr;
  PortCounters* counters_ = nullptr;
  Owner* owner_ = nullptr;
  std::uint32_t* free_receive_ = nullptr;  // stacks
  std::uint32_t* free_send_ = nullptr;
  std::uint32_t free_receives_ = 0;
  std::uint32_t free_sends_ = 0;
  std::uint32_t fill_batch_ = 1;  // receive chunks given to the kernel at once
  std::uint32_t lacking_ = 0;     // that the kernel could have more, up to `filled`
  std::uint32_t reserved_ = 0;    // send chunks with the borrower
  std::uint32_t sending_ = 0;
  std::uint64_t completed_ = 0;
  bool unsent_ = false;     // the kernel has not been told of all that was submitted
  bool cut_short_ = false;  // it has been told, and could not go on
  XskRings rings_{};
  PortCounters before_{};  // kernel's counters of sockets that are gone
};

}  // namespace viaduct

#endif
