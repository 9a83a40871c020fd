// Reads captured packets: pcapng, and pcap with times in microseconds or nanoseconds, either in any
// byte order. Files may be hostile: nothing behind a block is looked at.
//
//   CaptureReader reader(file, "name");
//   Packet packet;
//   while (reader.next(packet)) ...
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_CAPTURE_READER_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_CAPTURE_READER_H

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "kagent/tools/viadump/packet.h"

namespace viaduct::dump {

class CaptureReader {
 public:
  // Reads the beginning. The file stays the caller's. Throws std::runtime_error, as next() does: no
  // capture, or one that is damaged.
  CaptureReader(std::FILE* file, std::string name);

  // False at the end. Packets of links other than Ethernet are left out and counted.
  bool next(Packet& packet);

  // The interfaces met so far; Packet::interface is the place in this list.
  const std::vector<CapturedInterface>& interfaces() const { return interfaces_; }
  std::uint64_t left_out() const { return left_out_; }
  // Frames that the capture reports lost while it was made.
  std::uint64_t dropped() const { return dropped_; }

 private:
  // How an interface of the file counts time, and of which link it is.
  struct Units {
    std::uint16_t link;
    std::uint64_t per_second;
    std::uint64_t dropped;
  };

  void begin_pcap(std::uint32_t magic);
  void begin_section();
  bool next_of_pcap(Packet& packet);
  bool next_of_pcapng(Packet& packet);
  void take_interface(std::span<const std::byte> body);
  void take_statistics(std::span<const std::byte> body);
  bool take_enhanced(std::span<const std::byte> body, Packet& packet);
  bool take_simple(std::span<const std::byte> body, Packet& packet);
  bool take_bytes(std::span<const std::byte> body, std::size_t at, std::uint32_t captured, Packet& packet);

  // Reads exactly so many bytes; false at the end of the file, if it is before the first one.
  bool read(void* to, std::size_t bytes);
  std::uint16_t get16(std::span<const std::byte> body, std::size_t at) const;
  std::uint32_t get32(std::span<const std::byte> body, std::size_t at) const;
  std::uint64_t get64(std::span<const std::byte> body, std::size_t at) const;
  template <class Use>
  void each_option(std::span<const std::byte> body, std::size_t at, Use&& use) const;
  [[noreturn]] void fail(const char* what) const;

  std::FILE* file_;
  std::string name_;
  bool is_pcapng_ = false;
  bool swapped_ = false;
  std::size_t first_ = 0;  // place of this section's first interface
  std::vector<CapturedInterface> interfaces_;
  std::vector<Units> units_;
  std::vector<std::byte> block_;
  std::uint64_t left_out_ = 0, dropped_ = 0;
};

}  // namespace viaduct::dump

#endif
