// Writes captured packets in the format pcapng, which Wireshark reads.
//
//   PcapngWriter writer(file, "viadump");
//   const std::uint32_t number = writer.add_interface({.name = "eth0"});
//   writer.write(packet);
//
// Blocks are in the byte order of this machine, times in nanoseconds. When flush() returns,
// all packets are in the file.
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_PCAPNG_WRITER_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_PCAPNG_WRITER_H

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kagent/tools/viadump/packet.h"

namespace viaduct::dump {

class PcapngWriter {
 public:
  // Writes the section header. The file stays the caller's. All functions throw std::runtime_error
  // when the file can't be written.
  PcapngWriter(std::FILE* file, std::string_view application);

  // Adds an interface and returns its number, for Packet::interface.
  std::uint32_t add_interface(const CapturedInterface& interface);
  // The interface must have been added.
  void write(const PacketView& packet);
  // Writes the counters that the interface had when its capture ended.
  void write_statistics(std::uint32_t interface, std::uint64_t time_ns, std::uint64_t received, std::uint64_t dropped);
  void flush();

 private:
  void begin(std::uint32_t type);
  void put16(std::uint16_t value);
  void put32(std::uint32_t value);
  void put_time(std::uint64_t time_ns);
  void put_padded(const void* data, std::size_t bytes);
  void put_option(std::uint16_t code, const void* data, std::size_t bytes);
  void put_option(std::uint16_t code, std::string_view text);
  void end();
  void end_around(std::size_t at, std::span<const std::byte> data);
  void put(const void* data, std::size_t bytes);

  std::FILE* file_;
  std::uint32_t interfaces_ = 0;
  std::vector<char> block_;
};

}  // namespace viaduct::dump

#endif
