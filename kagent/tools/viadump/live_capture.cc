#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kagent/tools/viadump/live_capture.h"

#include <stdexcept>

#ifdef HAVE_PCAP
#include <pcap/pcap.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "kagent/contract/wire.h"
#include "xdp/interface.h"
#include "xdp/port_error.h"
#endif

namespace viaduct::dump {

#ifdef HAVE_PCAP
namespace {

constexpr int kHandOverMs = 40;  // how long the kernel may collect packets before it hands them over
constexpr std::uint32_t kWhole = 262'144;  // more than any packet has
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

std::uint64_t now_ns() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

// A datagram with a frame in it has the frame's EtherType 12 bytes behind the header of UDP.
std::string filter_text(std::uint16_t ether_type) {
  char text[128];
  std::snprintf(text, sizeof text, "ether proto 0x%04x or (ip and udp and udp[20:2] = 0x%04x) or "
                "(ip6 proto 17 and ip6[60:2] = 0x%04x)", ether_type, ether_type, ether_type);
  return text;
}

// Lets the same packets pass; returns how much of each the kernel copies.
std::vector<bpf_insn> cutting_filter(std::uint16_t ether_type) {
  constexpr std::uint32_t kData = wire::kEthernetBytes + wire::kHeaderBytes + wire::kRdmaBytes;
  constexpr std::uint32_t kDatagram = 512;  // headers of IP and UDP, and the first frame if it is none of data
  const auto data = static_cast<std::uint32_t>(wire::Type::kData);
  const auto load = [](unsigned size, std::uint32_t at) { return bpf_insn BPF_STMT(BPF_LD | size | BPF_ABS, at); };
  const auto equal = [](std::uint32_t value, unsigned char yes, unsigned char no) {
    return bpf_insn BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
  };
  const auto keep = [](std::uint32_t bytes) { return bpf_insn BPF_STMT(BPF_RET | BPF_K, bytes); };
  return {
      load(BPF_H, 12),                                       // 0: EtherType
      equal(ether_type, 0, 4),
      load(BPF_B, wire::kEthernetBytes + 1), equal(data, 0, 1),
      keep(kData), keep(kWhole),
      equal(0x0800, 0, 7),                                   // 6: IPv4
      load(BPF_B, 23), equal(17, 0, 11),
      load(BPF_H, 20), bpf_insn BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 9, 0),
      bpf_insn BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
      bpf_insn BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14 + 8 + 12), equal(ether_type, 5, 6),
      equal(0x86dd, 0, 5),                                   // 14: IPv6
      load(BPF_B, 20), equal(17, 0, 3),
      load(BPF_H, 14 + 40 + 8 + 12), equal(ether_type, 0, 1),
      keep(kDatagram), keep(0),                              // 19
  };
}

void check(int result, pcap* handle, const std::string& interface) {
  if (result >= 0) return;
  const std::string detail = pcap_geterr(handle);
  const std::string what = detail.empty() ? pcap_statustostr(result) : detail;
  throw std::runtime_error(interface + ": " + what);
}

}  // namespace

LiveCapture::LiveCapture(const LiveOptions& options)
    : interface_(options.interface), filter_(filter_text(options.ether_type)) {
  try {
    address_ = query_interface(options.interface).address;
  } catch (const PortError& error) {
    throw std::runtime_error(error.what());
  }
  char reason[PCAP_ERRBUF_SIZE] = "";
  pcap_ = pcap_create(options.interface.c_str(), reason);
  if (pcap_ == nullptr) throw std::runtime_error(options.interface + ": " + reason);
  try {
    set_up(options);
  } catch (...) {
    pcap_close(pcap_);
    throw;
  }
}

void LiveCapture::set_up(const LiveOptions& options) {
  const std::uint32_t snap = options.snap_length == 0 ? kWhole : std::min(options.snap_length, kWhole);
  pcap_set_snaplen(pcap_, static_cast<int>(snap));
  pcap_set_promisc(pcap_, options.promiscuous ? 1 : 0);
  pcap_set_timeout(pcap_, kHandOverMs);
  pcap_set_buffer_size(pcap_, static_cast<int>(options.buffer_bytes));
  pcap_set_tstamp_precision(pcap_, PCAP_TSTAMP_PRECISION_NANO);  // refused: microseconds
  check(pcap_activate(pcap_), pcap_, options.interface);
  char reason[PCAP_ERRBUF_SIZE] = "";
  if (pcap_setnonblock(pcap_, 1, reason) != 0) throw std::runtime_error(options.interface + ": " + reason);
  if (pcap_datalink(pcap_) != DLT_EN10MB) throw std::runtime_error(options.interface + " is no Ethernet");
  set_filter(options);
}

void LiveCapture::set_filter(const LiveOptions& options) {
  if (options.cut_data) {
    std::vector<bpf_insn> cutting = cutting_filter(options.ether_type);
    bpf_program program{static_cast<unsigned>(cutting.size()), cutting.data()};
    return check(pcap_setfilter(pcap_, &program), pcap_, options.interface);
  }
  bpf_program program{};
  check(pcap_compile(pcap_, &program, filter_.c_str(), 1, PCAP_NETMASK_UNKNOWN), pcap_, options.interface);
  const int set = pcap_setfilter(pcap_, &program);
  pcap_freecode(&program);
  check(set, pcap_, options.interface);
}

LiveCapture::~LiveCapture() { pcap_close(pcap_); }

LiveCapture::Got LiveCapture::next(PacketView& packet, int wait_ms) {
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  if (stopped_ && last_ns_ == 0) last_ns_ = now_ns();
  int got = pcap_next_ex(pcap_, &header, &bytes);
  if (got == 0) {
    pollfd waiting{pcap_get_selectable_fd(pcap_), POLLIN, 0};
    poll(&waiting, 1, wait_ms);
    got = pcap_next_ex(pcap_, &header, &bytes);
  }
  if (got == 0) return last_ns_ != 0 ? Got::kEnd : Got::kNothing;
  check(got, pcap_, interface_);
  const bool nano = pcap_get_tstamp_precision(pcap_) == PCAP_TSTAMP_PRECISION_NANO;
  const std::uint64_t fraction = static_cast<std::uint64_t>(header->ts.tv_usec) * (nano ? 1 : 1000);
  packet.time_ns = static_cast<std::uint64_t>(header->ts.tv_sec) * kNsPerSecond + fraction;
  if (last_ns_ != 0 && packet.time_ns > last_ns_) return Got::kEnd;
  packet.interface = 0;
  packet.length = header->len;
  packet.bytes = {reinterpret_cast<const std::byte*>(bytes), header->caplen};
  packet.comment = {};
  packet.direction = direction_of(packet.bytes);
  return Got::kPacket;
}

// libpcap does not tell the direction. Ports of programs have addresses of their own, which only the agent knows.
Direction LiveCapture::direction_of(std::span<const std::byte> bytes) const {
  if (bytes.size() < 2 * address_.size()) return Direction::kUnknown;
  if (std::memcmp(&bytes[address_.size()], address_.data(), address_.size()) == 0) return Direction::kOut;
  const bool own = std::memcmp(bytes.data(), address_.data(), address_.size()) == 0;
  return own ? Direction::kIn : Direction::kUnknown;
}

LiveCapture::Counts LiveCapture::counts() const {
  pcap_stat statistics{};
  if (pcap_stats(pcap_, &statistics) != 0) return {};
  return {statistics.ps_recv, statistics.ps_drop};
}

#else

LiveCapture::LiveCapture(const LiveOptions&) {
  throw std::runtime_error("this viadump was built without libpcap: it reads files only");
}
LiveCapture::~LiveCapture() = default;
void LiveCapture::set_up(const LiveOptions&) {}
void LiveCapture::set_filter(const LiveOptions&) {}
Direction LiveCapture::direction_of(std::span<const std::byte>) const { return Direction::kUnknown; }
LiveCapture::Got LiveCapture::next(PacketView&, int) { return Got::kEnd; }
LiveCapture::Counts LiveCapture::counts() const { return {}; }

#endif

}  // namespace viaduct::dump
