// The work on one AF_XDP socket and its UMEM: which buffer is where, and the data path.
//
//   chunks [0, receive)            lent to the kernel through the fill ring, come back by rx
//   chunks [receive, receive+send) lent to the kernel through the tx ring, come back by completion
//
// A chunk is at every moment with the kernel, with the borrower or in a free list here, and moves
// only from where it is known to be: an entry of a ring that says otherwise is dropped and counted.
// Free lists are stacks, so that the buffers used last, still in the cache, are used again.
//
// With `parts` beyond 1, frames may take several chunks. One to send has that many in a row, so it
// lies in one piece for the borrower; a received one that came in several is put together in a
// buffer of its own, and its chunks go back at once. See xsk_queue_parts.cc. With one part for each
// frame none of that costs anything.
//
// Used by the agent's own port (AfXdpQueue) and by the granted port, which is compiled into
// libvipl: no allocation, no exception, nothing but the C library. The functions mean what they
// mean in Port.
#ifndef VIADUCT_XDP_XSK_XSK_QUEUE_H
#define VIADUCT_XDP_XSK_XSK_QUEUE_H

#include <cstddef>
#include <cstdint>
#include <span>

#include "xdp/port.h"
#include "xdp/xsk/chunk.h"
#include "xdp/xsk/xsk_rings.h"

namespace viaduct {

class XskQueue {
 public:
  struct Shape {
    std::uint32_t chunk_shift;
    std::uint32_t receive;  // chunks to receive into
    std::uint32_t send;     // chunks to send from; 0 for a queue that only receives
    std::uint32_t ring;     // entries of each ring, a power of two
    std::uint32_t filled;   // chunks that the kernel has to receive into, at most `ring`
    std::uint32_t parts = 1;      // chunks that a frame may take; beyond 1 the socket must know it
    std::uint32_t frame = 0;      // parts > 1: bytes of the longest frame
    std::uint32_t assembled = 0;  // parts > 1: buffers for frames that came in several chunks
    std::uint32_t filled_at_most = 0;  // parts = 1: what `filled` grows to when bursts need much of it

    // Makes room for frames of a link with this MTU, which take several chunks: for `kept` frames that the borrower
    // keeps, and for a burst.
    void take_several_chunks(std::uint32_t count, std::uint32_t mtu, std::uint32_t kept) {
      constexpr std::uint32_t kBurst = 64;
      parts = count, frame = mtu + kEthernetAndTag, assembled = kept + kBurst;
    }
  };

  // Bytes of the memory in which the lists are kept.
  static constexpr std::size_t state_bytes(const Shape& shape) {
    return std::size_t{buffers(shape)} * (sizeof(std::uint32_t) + sizeof(Owner)) +
           (shape.parts > 1 ? shape.send : 0);
  }
  // Bytes of the memory for frames that came in several chunks. Parts that are never needed are
  // never touched.
  static constexpr std::size_t assembly_bytes(const Shape& shape) {
    return std::size_t{shape.assembled} * stride(shape);
  }

  XskQueue() = default;
  XskQueue(const XskQueue&) = delete;
  XskQueue& operator=(const XskQueue&) = delete;

  // `area` is the UMEM, `assembly` memory of assembly_bytes() and `state` zeroed memory of
  // state_bytes(), aligned to 4; all must outlive the queue. Until attach() there is no socket.
  void set_up(const Shape& shape, std::byte* area, std::byte* assembly, void* state,
              PortCounters& counters);

  // Takes a new socket (not over: closing it is the caller's). Every chunk that is not with the
  // borrower is free now. Returns nullptr, or what failed; errno says why.
  const char* attach(int socket);
  // Forgets the socket. Frames that it had of ours are lost; lent chunks stay lent.
  void detach();
  int socket() const { return socket_; }  // -1: none

  std::size_t receive(std::span<Frame> frames);
  void release(std::span<const Frame> frames);
  std::size_t reserve(std::span<Frame> frames);
  void submit(std::span<const Frame> frames);
  void cancel(std::span<const Frame> frames);
  void flush() {
    if (kick_due_) send();
  }
  // Makes the kernel send, even if it has said that it would by itself.
  void kick();

  // Whether frames have come, or sent buffers can be taken back.
  bool has_frames() const {
    return socket_ >= 0 &&
           (!rings_.receive.empty() || (sending_ != 0 && !rings_.completion.empty()));
  }

  // How many frames the kernel has room for: the chunks released last may not be with it yet.
  std::uint32_t backlog() const { return (shape_.filled + 1 - fill_batch_) / shape_.parts; }

  // Frames with the kernel, and how many have come back in all.
  std::uint32_t sending() const { return sending_; }
  std::uint64_t completed() const { return completed_; }

  // Adds the kernel's own counters of the sockets so far.
  void add_statistics(PortCounters& out) const;

 private:
  enum class Owner : std::uint8_t { kFree, kKernel, kBorrower };
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::uint32_t buffers(const Shape& shape) {
    return shape.receive + shape.send + shape.assembled;
  }
  static constexpr std::size_t stride(const Shape& shape) {
    return (std::size_t{shape.frame} + 63) & ~std::size_t{63};
  }

  // Free chunks; the last one given is the first one taken.
  struct FreeList {
    std::uint32_t* items = nullptr;
    std::uint32_t count = 0;
    void give(std::uint32_t chunk) { items[count++] = chunk; }
    std::uint32_t take() { return items[--count]; }
  };

  void fill();
  void fill_more();
  void reap();
  void send();
  bool take(std::uint64_t chunk, Owner from, Owner to) {
    if (chunk >= buffers_ || owner_[chunk] != from) [[unlikely]] return false;
    owner_[chunk] = to;
    return true;
  }
  std::byte* data(std::uint32_t chunk) const {
    return area_ + (std::size_t{chunk} << shape_.chunk_shift);
  }

  // --- xsk_queue_parts.cc
  std::size_t receive_parts(std::span<Frame> frames);
  void release_assembled(std::uint32_t buffer, Owner from);
  bool add_part(const xdp_desc& part, std::uint32_t chunk);
  void spoil(std::uint64_t& counter);
  void submit_parts(std::span<const Frame> frames);
  void reap_parts(std::uint32_t n);
  void forget_parts();

  Shape shape_{};
  std::uint32_t buffers_ = 0;   // chunks, and assembly buffers numbered behind them
  std::uint32_t capacity_ = 0;  // bytes of a frame to send
  std::uint32_t most_out_ = 0;  // frames that the borrower (to send) and the kernel may have together
  int socket_ = -1;
  std::byte* area_ = nullptr;
  PortCounters* counters_ = nullptr;
  Owner* owner_ = nullptr;
  std::byte* assembly_ = nullptr;
  FreeList free_receive_, free_send_, free_assembled_;
  std::uint8_t* parts_sending_ = nullptr; // by the first chunk of a frame: parts that the kernel has
  std::uint32_t assembling_ = kNone;      // the buffer of the frame whose parts are coming
  std::uint32_t assembled_bytes_ = 0;     // how many of its bytes have come
  bool dropping_frame_ = false;           // its other parts are dropped, too
  std::uint32_t fill_batch_ = 1;  // receive chunks given to the kernel at once
  std::uint32_t filled_ = 0;      // chunks that the kernel should have: `filled`, or more
  std::uint32_t lacking_ = 0;     // chunks that the kernel has less than that
  std::uint32_t reserved_ = 0;    // frames that the borrower has to send
  std::uint32_t sending_ = 0;
  std::uint64_t completed_ = 0;
  bool kick_due_ = false;        // the kernel has not been told of all that was submitted
  bool kick_cut_short_ = false;  // the kernel has been told, and could not go on
  XskRings rings_{};
  PortCounters before_{};  // kernel's counters of sockets that are gone
};

}  // namespace viaduct

#endif
