// One receive queue of an interface: its AF_XDP socket, with a UMEM of its own.
//
// The socket can be away for a while (rebind); borrowers notice no more than a queue that is full
// or silent.
#ifndef VIADUCT_XDP_XSK_AF_XDP_QUEUE_H
#define VIADUCT_XDP_XSK_AF_XDP_QUEUE_H

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "xdp/port_options.h"
#include "xdp/port.h"
#include "xdp/xsk/xsk_queue.h"

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
    std::uint32_t mtu = 0;  // the MTU of frames that take several chunks; 0: all take one
  };

  // How many frames may be kept: the fill ring must have some left to work with.
  static constexpr std::uint32_t lendable(std::uint32_t receive, std::uint32_t ring) {
    return receive > ring ? receive - ring : receive / 2;
  }

  // Waits up to a second for the kernel to give up an earlier socket. Throws PortError, and
  // PartsRefused if it may do without frames of several chunks.
  explicit AfXdpQueue(const Options& options, PortCounters& counters);
  ~AfXdpQueue();
  AfXdpQueue(const AfXdpQueue&) = delete;
  AfXdpQueue& operator=(const AfXdpQueue&) = delete;

  int descriptor() const { return queue_.socket(); }  // -1 while the socket is away
  bool zero_copy() const;

  std::size_t receive(std::span<Frame> frames) { return queue_.receive(frames); }
  void release(std::span<const Frame> frames) { queue_.release(frames); }
  std::size_t reserve(std::span<Frame> frames) { return queue_.reserve(frames); }
  void submit(std::span<const Frame> frames) { queue_.submit(frames); }
  void cancel(std::span<const Frame> frames) { queue_.cancel(frames); }
  void flush() { queue_.flush(); }
  void kick() { queue_.kick(); }
  std::uint32_t backlog() const { return queue_.backlog(); }
  std::uint32_t sending() const { return queue_.sending(); }
  std::uint64_t completed() const { return queue_.completed(); }

  // Replaces the socket by a new one. Frames that the old one had are lost; lent ones stay lent.
  // False when the kernel does not give the queue back yet (try again) or refuses it (`error`); the
  // socket is then away.
  bool rebind(std::string& error);

  // Adds the kernel's own counters of this queue's sockets.
  void add_statistics(PortCounters& out) const { queue_.add_statistics(out); }

 private:
  int open(const char*& what);
  void close();
  std::string explain(const char* what, int error) const;

  Options options_;
  int ifindex_;
  std::byte* area_ = nullptr;
  std::size_t bytes_;
  void unmap();

  std::byte* assembly_ = nullptr;  // see XskQueue::assembly_bytes()
  std::size_t assembly_bytes_ = 0;
  std::vector<std::uint32_t> lists_;  // the queue's, as raw memory
  XskQueue queue_;
};

}  // namespace viaduct

#endif
