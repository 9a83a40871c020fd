// A granted port as the program sees it: an AF_XDP socket that the agent has made, bound and handed
// over. The program needs no capability for anything that is done here.
//
// Not a Port by inheritance: libvipl's stack is compiled for this one kind of port and calls it
// directly. The functions mean what they mean in Port. Nothing here allocates, throws or needs more
// than the C library. All state is in the object, so it may lie in memory that is placed by hand.
#ifndef VIADUCT_XDP_GRANT_GRANTED_PORT_H
#define VIADUCT_XDP_GRANT_GRANTED_PORT_H

#include <cstddef>
#include <cstdint>
#include <span>

#include "xdp/grant/granted_layout.h"
#include "xdp/port.h"
#include "xdp/xsk/xsk_queue.h"

namespace viaduct {

class GrantedPort {
 public:
  GrantedPort() = default;
  ~GrantedPort();
  GrantedPort(const GrantedPort&) = delete;
  GrantedPort& operator=(const GrantedPort&) = delete;

  // Maps rings and UMEM. Takes both descriptors over (also on failure). Returns nullptr, or in a
  // few words what failed; errno then says why.
  const char* open(int socket, int umem, const GrantedLayout& layout);

  std::size_t receive(std::span<Frame> frames) { return queue_.receive(frames); }
  void release(std::span<const Frame> frames) { queue_.release(frames); }
  std::size_t reserve(std::span<Frame> frames) { return queue_.reserve(frames); }
  void submit(std::span<const Frame> frames) { queue_.submit(frames); }
  void cancel(std::span<const Frame> frames) { queue_.cancel(frames); }
  void flush() { queue_.flush(); }

  // Whether receive() would return something, or sent buffers wait for being taken back: one look
  // at memory, no system call.
  bool has_frames() const { return queue_.has_frames(); }

  std::uint32_t mtu() const { return layout_.mtu; }
  MacAddress address() const { return layout_.address; }
  std::uint32_t lendable() const;
  std::uint32_t backlog() const { return queue_.backlog(); }
  // The AF_XDP socket: readable when frames have come. -1: not open.
  int descriptor() const { return socket_; }
  PortCounters counters();
  bool reaches(const MacAddress&) const { return true; }

 private:
  const char* map(int umem);
  void close();

  GrantedLayout layout_{};
  int socket_ = -1;
  void* area_ = nullptr;
  std::size_t area_bytes_ = 0;
  void* assembly_ = nullptr;  // see XskQueue::assembly_bytes()
  std::size_t assembly_bytes_ = 0;
  void* state_ = nullptr;
  std::size_t state_bytes_ = 0;
  PortCounters counters_{};
  XskQueue queue_;
};

}  // namespace viaduct

#endif
