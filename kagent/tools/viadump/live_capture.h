// Captures VIA frames on an interface through libpcap: Ethernet frames of the EtherType, and trains.
//
// The capture sees what passes the kernel's network stack: frames of programs with ports of their own, trains, and
// all frames of an agent that uses libpcap itself. It does not see frames that an agent exchanges by AF_XDP.
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_LIVE_CAPTURE_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_LIVE_CAPTURE_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kagent/tools/viadump/packet.h"
#include "xdp/port.h"

struct pcap;

namespace viaduct::dump {

struct LiveOptions {
  std::string interface;
  std::uint16_t ether_type = 0x88b5;
  std::uint32_t snap_length = 0;     // 0: whole packets
  std::uint32_t buffer_bytes = 32 << 20;
  bool promiscuous = false;          // frames for other hosts too
  bool cut_data = false;             // the kernel cuts DATA frames behind their headers, and datagrams of trains too
};

class LiveCapture {
 public:
  enum class Got { kPacket, kNothing, kEnd };

  struct Counts {
    std::uint64_t received;
    std::uint64_t dropped;  // the kernel's buffer was full
  };

  // Throws std::runtime_error: no such interface, no right, no libpcap in this build.
  explicit LiveCapture(const LiveOptions& options);
  ~LiveCapture();
  LiveCapture(const LiveCapture&) = delete;
  LiveCapture& operator=(const LiveCapture&) = delete;

  static constexpr int kWaitMs = 100;

  // Waits for so long at most. kEnd: stop() was called, and what had come until then has been
  // handed out. Throws std::runtime_error when the interface goes down or disappears.
  // The packet's bytes are there until the next call.
  Got next(PacketView& packet, int wait_ms = kWaitMs);
  // May be called by a signal handler.
  void stop() { stopped_ = true; }
  Counts counts() const;
  // The capture filter, as the kernel was given it.
  const std::string& filter() const { return filter_; }

 private:
  void set_up(const LiveOptions& options);
  void set_filter(const LiveOptions& options);
  Direction direction_of(std::span<const std::byte> bytes) const;

  pcap* pcap_ = nullptr;
  std::string interface_, filter_;
  MacAddress address_{};
  std::atomic<bool> stopped_ = false;
  std::uint64_t last_ns_ = 0;  // later packets do not belong to the stopped capture any more; 0: not stopped
};

}  // namespace viaduct::dump

#endif
