// One AF_XDP socket: one receive queue of an interface, with a UMEM of its own.
//
//   chunks [0, receive)            lent to the kernel through the fill ring, come back by rx
//   chunks [receive, receive+send) lent to the kernel through the tx ring, come back by completion
//
// A chunk is at every moment with the kernel, with the borrower or in a free list here. The socket
// can be away for a while (rebind); borrowers notice no more than a queue that is full or silent.
#ifndef VIADUCT_XDP_AF_XDP_QUEUE_H
#define VIADUCT_XDP_AF_XDP_QUEUE_H

#include <xdp/xsk.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "xdp/port.h"

namespace viaduct {

class AfXdpQueue {
 public:
  struct Options {
    const char* interface;
    std::uint32_t queue;
    std::uint32_t chunk;    // bytes, 2048 or 4096
    std::uint32_t receive;  // chunks to receive into
    std::uint32_t send;     // chunks to send from; 0 for a queue that only receives
    std::uint32_t ring;     // entries of each ring
    bool copy;              // never zero-copy: the program runs in generic mode
  };

  // Waits up to a second for the kernel to give up an earlier socket. Throws PortError.
  explicit AfXdpQueue(const Options& options, PortCounters& counters);
  ~AfXdpQueue();
  AfXdpQueue(const AfXdpQueue&) = delete;
  AfXdpQueue& operator=(const AfXdpQueue&) = delete;

  int descriptor() const { return fd_; }  // -1 while the socket is away
  bool zero_copy() const;

  std::size_t receive(std::span<Frame> frames);
  void release(std::uint32_t chunk);
  std::size_t reserve(std::span<Frame> frames);
  void submit(std::span<const Frame> frames);
  void cancel(std::uint32_t chunk);
  void flush();

  // The kernel has not been told of all that was submitted, or could not go on.
  bool unsent() const { return unsent_; }
  // Sends even if the kernel has said that it would by itself.
  void kick();

  // Frames with the kernel, and how many have come back in all.
  std::uint32_t sending() const { return sending_; }
  std::uint64_t completed() const { return completed_; }

  // Replaces the socket by a new one. Frames that the old one had are lost; lent ones stay lent.
  // False when the kernel does not give the queue back yet (try again) or refuses it (`error`); the
  // socket is then away.
  bool rebind(std::string& error);

  // Adds the kernel's own counters of this queue's sockets.
  void add_statistics(PortCounters& out) const;

 private:
  enum class Owner : std::uint8_t { kFree, kKernel, kBorrower };

  int open(const char*& what);
  void close();
  void fill();
  void fill_if_worth_it() {
    if (lacking_ >= fill_batch_ && !free_receive_.empty()) fill();
  }
  void reap();
  std::string explain(const char* what, int error) const;
  std::byte* data(std::uint64_t chunk) const { return area_ + chunk * options_.chunk; }

  Options options_;
  PortCounters& counters_;
  std::uint32_t fill_batch_;   // receive chunks given to the kernel at once
  std::uint32_t lacking_ = 0;  // that the kernel could have more, up to a whole ring
  std::byte* area_ = nullptr;
  std::size_t bytes_;
  xsk_umem* umem_ = nullptr;
  xsk_socket* socket_ = nullptr;
  int fd_ = -1;
  xsk_ring_prod fill_ring_{}, tx_{};
  xsk_ring_cons completion_{}, rx_{};
  std::vector<Owner> owner_;
  std::vector<std::uint32_t> free_receive_, free_send_;
  std::uint32_t reserved_ = 0;  // send chunks with the borrower
  std::uint32_t sending_ = 0;
  std::uint64_t completed_ = 0;
  bool unsent_ = false;
  PortCounters before_{};  // kernel's counters of sockets that are gone
};

}  // namespace viaduct

#endif
