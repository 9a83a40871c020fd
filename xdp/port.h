// A port: a source and sink of Ethernet frames with a MAC address and an MTU.
//
//          +-----------+  reserve -> fill in -> submit ... flush   +------+
//          |   stack   | ----------------------------------------> | port | --> network
//          | (driver)  | <---------------------------------------- |      | <-- network
//          +-----------+  receive -> look at -> release            +------+
//
// Every buffer belongs to the port. `receive` lends filled buffers and `reserve` lends empty ones;
// both come back through `release`, `submit` or `cancel`, in any order. A lent buffer may be kept
// (the stack keeps frames that arrived after a gap), but not more than `lendable` of them at once.
//
// One thread at a time uses a port; nothing here takes a lock. Nothing here blocks.
#ifndef VIADUCT_XDP_PORT_H
#define VIADUCT_XDP_PORT_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace viaduct {

using MacAddress = std::array<std::uint8_t, 6>;
inline constexpr MacAddress kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// A buffer lent by a port.
struct Frame {
  std::byte* data;       // first byte of the Ethernet destination address
  std::uint32_t length;  // received: bytes of the frame; reserved: capacity, then bytes to send
  std::uint32_t id;      // the port's name for the buffer; never changed by the borrower
};

// The counters of a port since it was opened. One counter for each cause of a loss.
struct PortCounters {
  std::uint64_t rx_frames = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t tx_frames = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t tx_kicks = 0;            // system calls made to send
  std::uint64_t tx_kick_again = 0;       // kicks that the kernel cut short (EAGAIN)
  std::uint64_t tx_dropped_busy = 0;     // kicks after which driver or queue dropped (EBUSY, ENOBUFS)
  std::uint64_t tx_no_buffer = 0;        // reserve() that gave less than asked for
  std::uint64_t tx_stalls = 0;           // completions that did not come in time
  std::uint64_t rx_dropped_ring_full = 0;   // kernel: receive ring full
  std::uint64_t rx_dropped_no_fill = 0;     // kernel: fill ring empty; or no room for a long frame
  std::uint64_t rx_dropped_invalid = 0;     // kernel: other causes, invalid descriptors; too long
  std::uint64_t tx_dropped_invalid = 0;     // kernel: invalid transmit descriptors
  std::uint64_t rebinds = 0;             // times the socket was set up anew after a stall
};

class BulkPath;

class Port {
 public:
  virtual ~Port() = default;

  // Takes up to frames.size() received frames, oldest first. Returns how many.
  virtual std::size_t receive(std::span<Frame> frames) = 0;

  // Gives received frames back.
  virtual void release(std::span<const Frame> frames) = 0;

  // Takes up to frames.size() empty buffers, each with room for an Ethernet header and mtu() bytes.
  // Returns how many; fewer when the transmit queue is full (the caller tries again later).
  virtual std::size_t reserve(std::span<Frame> frames) = 0;

  // Queues reserved buffers, whose `length` now says how much to send, in this order.
  // Source and destination address and EtherType are the caller's to fill in.
  virtual void submit(std::span<const Frame> frames) = 0;

  // Gives reserved buffers back unsent.
  virtual void cancel(std::span<const Frame> frames) = 0;

  // Sends what was submitted, with one system call where one is needed. Sending is lossy: a frame
  // that the kernel refuses is counted, not reported.
  virtual void flush() = 0;

  // Bytes that fit behind the Ethernet header.
  virtual std::uint32_t mtu() const = 0;

  virtual MacAddress address() const = 0;

  // How many received frames may be kept without starving the receive side.
  virtual std::uint32_t lendable() const = 0;

  // How many frames may arrive between two calls of receive() without the loss of one.
  virtual std::uint32_t backlog() const = 0;

  // Readable (poll, epoll) when receive() would return something; -1 when the port has none.
  virtual int descriptor() const = 0;

  // The mechanism that really carries the frames, for people: "tcx", "xdp-native, copy", "xdp-generic", "pcap", "sim".
  virtual std::string mode() const = 0;

  virtual PortCounters counters() = 0;

  // False once the interface is gone; the port is then silent for good.
  virtual bool alive() const = 0;

  // Whether frames to this address could arrive anywhere at all.
  virtual bool reaches(const MacAddress& to) const = 0;

  // The path of long messages' frames, as long as the port; the same object each time.
  virtual BulkPath& bulk_path() = 0;
};

}  // namespace viaduct

#endif
