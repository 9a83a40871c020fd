#include "kagent/tools/viadump/capture_reader.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "kagent/tools/viadump/pcapng_format.h"

namespace viaduct::dump {
namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint32_t kPcapMicro = 0xa1b2c3d4, kPcapNano = 0xa1b23c4d;
constexpr std::size_t kPcapHeader = 20;        // bytes behind the magic number
constexpr std::size_t kPcapPacketHeader = 16;
constexpr std::uint64_t kMicro = 1'000'000;

std::uint32_t swap(std::uint32_t value) { return __builtin_bswap32(value); }

// Nanoseconds of a time in units of 1 / per_second; no overflow for any of today's resolutions.
std::uint64_t in_ns(std::uint64_t time, std::uint64_t per_second) {
  return time / per_second * kNsPerSecond +
         static_cast<std::uint64_t>(static_cast<double>(time % per_second) * (static_cast<double>(kNsPerSecond) /
                                                                              static_cast<double>(per_second)));
}

// Ticks per second by the option if_tsresol: a power of 10, or of 2.
std::uint64_t units_of(std::byte resolution) {
  const auto value = std::to_integer<unsigned>(resolution);
  const unsigned exponent = value & 0x7f;
  if ((value & 0x80) != 0) return std::uint64_t{1} << std::min(exponent, 63u);
  std::uint64_t units = 1;
  for (unsigned i = 0; i < std::min(exponent, 19u); ++i) units *= 10;
  return units;
}

}  // namespace

CaptureReader::CaptureReader(std::FILE* file, std::string name) : file_(file), name_(std::move(name)) {
  std::uint32_t magic = 0;
  if (!read(&magic, sizeof magic)) fail("is empty");
  if (magic == pcapng::kSectionHeader) {
    is_pcapng_ = true;
    begin_section();
  } else {
    begin_pcap(magic);
  }
}

bool CaptureReader::next(Packet& packet) { return is_pcapng_ ? next_of_pcapng(packet) : next_of_pcap(packet); }

void CaptureReader::begin_pcap(std::uint32_t magic) {
  swapped_ = magic == swap(kPcapMicro) || magic == swap(kPcapNano);
  if (swapped_) magic = swap(magic);
  if (magic != kPcapMicro && magic != kPcapNano) fail("is neither pcap nor pcapng");
  block_.resize(kPcapHeader);
  if (!read(block_.data(), block_.size())) fail("ends early");
  const std::uint32_t link = get32(block_, 16) & 0xffff;
  interfaces_.push_back({"", "", get32(block_, 12)});
  units_.push_back({static_cast<std::uint16_t>(link), magic == kPcapNano ? kNsPerSecond : kMicro, 0});
}

bool CaptureReader::next_of_pcap(Packet& packet) {
  for (;;) {
    block_.resize(kPcapPacketHeader);
    if (!read(block_.data(), block_.size())) return false;
    const std::uint64_t seconds = get32(block_, 0), fraction = get32(block_, 4);
    const std::uint32_t captured = get32(block_, 8), length = get32(block_, 12);
    if (captured > pcapng::kMaxBlockBytes) fail("has a packet that is too long");
    packet.bytes.resize(captured);
    if (captured != 0 && !read(packet.bytes.data(), captured)) fail("ends early");
    if (units_[0].link != pcapng::kLinkEthernet) {
      ++left_out_;
      continue;
    }
    packet.time_ns = seconds * kNsPerSecond + fraction * (kNsPerSecond / units_[0].per_second);
    packet.interface = 0;
    packet.length = std::max(length, captured);
    packet.direction = Direction::kUnknown;
    packet.comment.clear();
    return true;
  }
}

// Reads on behind the type of a section header, whose byte order is told after its length.
void CaptureReader::begin_section() {
  std::uint32_t words[2];  // length, byte order
  if (!read(words, sizeof words)) fail("ends early");
  swapped_ = words[1] == swap(pcapng::kByteOrder);
  if (!swapped_ && words[1] != pcapng::kByteOrder) fail("is neither pcap nor pcapng");
  const std::uint32_t length = swapped_ ? swap(words[0]) : words[0];
  if (length < 28 || length % 4 != 0 || length > pcapng::kMaxBlockBytes) fail("has a block of a wrong length");
  block_.resize(length - 12);
  if (!read(block_.data(), block_.size())) fail("ends early");
  if (get16(block_, 0) != 1) fail("has a version that is not known");
  first_ = interfaces_.size();
}

bool CaptureReader::next_of_pcapng(Packet& packet) {
  for (;;) {
    std::uint32_t type = 0;
    if (!read(&type, sizeof type)) return false;
    if (type == pcapng::kSectionHeader) {  // the same in both byte orders
      begin_section();
      continue;
    }
    std::uint32_t length = 0;
    if (!read(&length, sizeof length)) fail("ends early");
    if (swapped_) type = swap(type), length = swap(length);
    if (length < 12 || length % 4 != 0 || length > pcapng::kMaxBlockBytes) fail("has a block of a wrong length");
    block_.resize(length - 8);
    if (!read(block_.data(), block_.size())) fail("ends early");
    const auto body = std::span<const std::byte>(block_).first(length - 12);
    if (type == pcapng::kInterface) take_interface(body);
    if (type == pcapng::kStatistics) take_statistics(body);
    if (type == pcapng::kEnhancedPacket && take_enhanced(body, packet)) return true;
    if (type == pcapng::kSimplePacket && take_simple(body, packet)) return true;
  }
}

void CaptureReader::take_interface(std::span<const std::byte> body) {
  Units units{get16(body, 0), kMicro, 0};
  CapturedInterface interface;
  interface.snap_length = get32(body, 4);
  each_option(body, 8, [&](std::uint16_t code, std::span<const std::byte> value) {
    const std::string text(reinterpret_cast<const char*>(value.data()), value.size());
    if (code == pcapng::kInterfaceName) interface.name = text;
    if (code == pcapng::kInterfaceFilter && !text.empty()) interface.filter = text.substr(1);
    if (code == pcapng::kInterfaceTimeUnit && !value.empty()) units.per_second = units_of(value[0]);
  });
  interfaces_.push_back(interface);
  units_.push_back(units);
}

// Takes the losses of a statistics block. The numbers grow from one such block to the next.
void CaptureReader::take_statistics(std::span<const std::byte> body) {
  const std::size_t interface = first_ + get32(body, 0);
  if (interface >= units_.size()) return;
  each_option(body, 12, [&](std::uint16_t code, std::span<const std::byte> value) {
    if (code != pcapng::kStatisticsDropped || value.size() != 8) return;
    const std::uint64_t now = get64(value, 0);
    dropped_ += now - std::min(now, units_[interface].dropped);
    units_[interface].dropped = now;
  });
}

bool CaptureReader::take_enhanced(std::span<const std::byte> body, Packet& packet) {
  const std::size_t interface = first_ + get32(body, 0);
  if (interface >= units_.size()) fail("has a packet of an interface that it does not describe");
  const std::uint64_t time = std::uint64_t{get32(body, 4)} << 32 | get32(body, 8);
  const std::uint32_t captured = get32(body, 12);
  packet.interface = static_cast<std::uint32_t>(interface);
  packet.time_ns = in_ns(time, units_[interface].per_second);
  packet.length = std::max(get32(body, 16), captured);
  packet.direction = Direction::kUnknown;
  packet.comment.clear();
  if (!take_bytes(body, 20, captured, packet)) return false;
  each_option(body, 20 + ((std::size_t{captured} + 3) & ~std::size_t{3}),
              [&](std::uint16_t code, std::span<const std::byte> value) {
    if (code == pcapng::kComment) packet.comment.assign(reinterpret_cast<const char*>(value.data()), value.size());
    if (code == pcapng::kPacketFlags && value.size() == 4) {
      const std::uint32_t direction = get32(value, 0) & pcapng::kFlagDirection;
      if (direction == pcapng::kFlagInbound) packet.direction = Direction::kIn;
      if (direction == pcapng::kFlagOutbound) packet.direction = Direction::kOut;
    }
  });
  return true;
}

// Takes a simple packet block, which has no time and belongs to the first interface.
bool CaptureReader::take_simple(std::span<const std::byte> body, Packet& packet) {
  if (first_ >= units_.size()) fail("has a packet of an interface that it does not describe");
  const std::uint32_t length = get32(body, 0);
  const std::uint32_t snap = interfaces_[first_].snap_length;
  packet = {};
  packet.interface = static_cast<std::uint32_t>(first_);
  packet.length = length;
  return take_bytes(body, 4, snap == 0 ? length : std::min(length, snap), packet);
}

bool CaptureReader::take_bytes(std::span<const std::byte> body, std::size_t at, std::uint32_t captured,
                               Packet& packet) {
  if (body.size() < at || captured > body.size() - at) fail("has a packet that is longer than its block");
  if (units_[packet.interface].link != pcapng::kLinkEthernet) {
    ++left_out_;
    return false;
  }
  const auto bytes = body.subspan(at, captured);
  packet.bytes.assign(bytes.begin(), bytes.end());
  return true;
}

bool CaptureReader::read(void* to, std::size_t bytes) {
  const std::size_t got = std::fread(to, 1, bytes, file_);
  if (got == bytes) return true;
  if (got != 0) fail("ends early");
  if (std::ferror(file_) != 0) fail("can't be read");
  return false;
}

std::uint16_t CaptureReader::get16(std::span<const std::byte> body, std::size_t at) const {
  if (at + sizeof(std::uint16_t) > body.size()) fail("has a block that is too short");
  std::uint16_t value;
  std::memcpy(&value, &body[at], sizeof value);
  return swapped_ ? __builtin_bswap16(value) : value;
}

std::uint32_t CaptureReader::get32(std::span<const std::byte> body, std::size_t at) const {
  if (at + sizeof(std::uint32_t) > body.size()) fail("has a block that is too short");
  std::uint32_t value;
  std::memcpy(&value, &body[at], sizeof value);
  return swapped_ ? swap(value) : value;
}

std::uint64_t CaptureReader::get64(std::span<const std::byte> body, std::size_t at) const {
  if (at + sizeof(std::uint64_t) > body.size()) fail("has a block that is too short");
  std::uint64_t value;
  std::memcpy(&value, &body[at], sizeof value);
  return swapped_ ? __builtin_bswap64(value) : value;
}

template <class Use>
void CaptureReader::each_option(std::span<const std::byte> body, std::size_t at, Use&& use) const {
  while (at + 4 <= body.size()) {
    const std::uint16_t code = get16(body, at);
    const std::size_t length = get16(body, at + 2);
    if (code == pcapng::kEnd) return;
    if (length > body.size() - at - 4) fail("has an option that is longer than its block");
    use(code, body.subspan(at + 4, length));
    at += 4 + ((length + 3) & ~std::size_t{3});
  }
}

void CaptureReader::fail(const char* what) const { throw std::runtime_error(name_ + " " + what); }

}  // namespace viaduct::dump
