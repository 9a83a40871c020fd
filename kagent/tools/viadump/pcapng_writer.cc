#include "kagent/tools/viadump/pcapng_writer.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "kagent/tools/viadump/pcapng_format.h"

namespace viaduct::dump {
namespace {

constexpr std::uint8_t kNanoseconds = 9;

[[noreturn]] void fail() {
  throw std::runtime_error(std::string("the capture can't be written: ") + std::strerror(errno));
}

}  // namespace

PcapngWriter::PcapngWriter(std::FILE* file, std::string_view application) : file_(file) {
  begin(pcapng::kSectionHeader);
  put32(pcapng::kByteOrder);
  put16(1);  // version 1.0
  put16(0);
  put32(0xffffffff);  // the section's length, 64 bits: not known
  put32(0xffffffff);
  put_option(pcapng::kSectionApplication, application);
  put_option(pcapng::kEnd, {});
  end();
}

std::uint32_t PcapngWriter::add_interface(const CapturedInterface& interface) {
  begin(pcapng::kInterface);
  put16(pcapng::kLinkEthernet);
  put16(0);
  put32(interface.snap_length);
  if (!interface.name.empty()) put_option(pcapng::kInterfaceName, interface.name);
  put_option(pcapng::kInterfaceTimeUnit, &kNanoseconds, sizeof kNanoseconds);
  if (!interface.filter.empty()) put_option(pcapng::kInterfaceFilter, std::string(1, '\0') + interface.filter);
  put_option(pcapng::kEnd, {});
  end();
  return interfaces_++;
}

void PcapngWriter::write(const PacketView& packet) {
  begin(pcapng::kEnhancedPacket);
  put32(packet.interface);
  put_time(packet.time_ns);
  put32(static_cast<std::uint32_t>(packet.bytes.size()));
  put32(packet.length);
  const std::size_t data_at = block_.size();
  if (!packet.comment.empty()) put_option(pcapng::kComment, packet.comment);
  if (packet.direction != Direction::kUnknown) {
    const std::uint32_t flags = packet.direction == Direction::kIn ? pcapng::kFlagInbound : pcapng::kFlagOutbound;
    put_option(pcapng::kPacketFlags, &flags, sizeof flags);
  }
  put_option(pcapng::kEnd, {});
  end_around(data_at, packet.bytes);
}

void PcapngWriter::write_statistics(std::uint32_t interface, std::uint64_t time_ns, std::uint64_t received,
                                    std::uint64_t dropped) {
  begin(pcapng::kStatistics);
  put32(interface);
  put_time(time_ns);
  put_option(pcapng::kStatisticsReceived, &received, sizeof received);
  put_option(pcapng::kStatisticsDropped, &dropped, sizeof dropped);
  put_option(pcapng::kEnd, {});
  end();
}

void PcapngWriter::flush() {
  if (std::fflush(file_) != 0) fail();
}

void PcapngWriter::begin(std::uint32_t type) {
  block_.clear();
  put32(type);
  put32(0);  // the length, see end()
}

void PcapngWriter::put16(std::uint16_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  block_.insert(block_.end(), bytes, bytes + sizeof bytes);
}

void PcapngWriter::put32(std::uint32_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  block_.insert(block_.end(), bytes, bytes + sizeof bytes);
}

void PcapngWriter::put_time(std::uint64_t time_ns) {
  put32(static_cast<std::uint32_t>(time_ns >> 32));
  put32(static_cast<std::uint32_t>(time_ns));
}

void PcapngWriter::put_padded(const void* data, std::size_t bytes) {
  const char* const from = static_cast<const char*>(data);
  block_.insert(block_.end(), from, from + bytes);
  block_.resize((block_.size() + 3) & ~std::size_t{3});
}

void PcapngWriter::put_option(std::uint16_t code, const void* data, std::size_t bytes) {
  constexpr std::size_t kMost = 0xfff0;
  if (bytes > kMost) bytes = kMost;
  put16(code);
  put16(static_cast<std::uint16_t>(bytes));
  put_padded(data, bytes);
}

void PcapngWriter::put_option(std::uint16_t code, std::string_view text) { put_option(code, text.data(), text.size()); }

void PcapngWriter::end() { end_around(block_.size(), {}); }

// Ends the block at `at` with `data`, padded, which may be long and is not copied. The length stands at both ends of
// a block.
void PcapngWriter::end_around(std::size_t at, std::span<const std::byte> data) {
  static constexpr char kPadding[3] = {};
  const std::size_t padding = -data.size() & 3;
  const auto length = static_cast<std::uint32_t>(block_.size() + data.size() + padding + sizeof(std::uint32_t));
  put32(length);
  std::memcpy(&block_[4], &length, sizeof length);
  put(block_.data(), at);
  put(data.data(), data.size());
  put(kPadding, padding);
  put(block_.data() + at, block_.size() - at);
}

void PcapngWriter::put(const void* data, std::size_t bytes) {
  if (bytes != 0 && std::fwrite(data, 1, bytes, file_) != bytes) fail();
}

}  // namespace viaduct::dump
