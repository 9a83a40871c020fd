#include "xdp/pcap_port.h"

#include <pcap/pcap.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "xdp/bpf/steering.h"
#include "xdp/port_error.h"

namespace viaduct {
namespace {

constexpr std::uint32_t kEthernet = 14;
constexpr int kKernelBuffer = 16 << 20;
constexpr std::uint32_t kLookEvery = 8192;

}  // namespace

PcapPort::PcapPort(const PortOptions& options, const Interface& interface,
                   std::shared_ptr<InterfaceLock> lock)
    : interface_(interface),
      lock_(std::move(lock)),
      buffers_(options.frames),
      stride_((interface.mtu + kEthernet + 63) & ~63u),
      memory_(stride_ * options.frames) {
  // A steering program that an earlier agent may have left would take our frames.
  silence_xdp_libraries();
  remove_steering(interface.index);
  char reason[PCAP_ERRBUF_SIZE] = "";
  pcap_ = pcap_create(interface.name.c_str(), reason);
  if (pcap_ == nullptr) throw PortError(interface.name + ": libpcap: " + reason);
  pcap_set_snaplen(pcap_, static_cast<int>(stride_));
  pcap_set_immediate_mode(pcap_, 1);
  pcap_set_buffer_size(pcap_, kKernelBuffer);
  pcap_set_timeout(pcap_, 1);
  std::string failed;
  if (pcap_activate(pcap_) < 0) failed = pcap_geterr(pcap_);
  // Captures frames to us and broadcasts, not the frames that we send ourselves.
  char filter[128];
  const MacAddress& a = interface.address;
  std::snprintf(filter, sizeof filter,
                "ether proto 0x%04x and (ether dst %02x:%02x:%02x:%02x:%02x:%02x or ether "
                "broadcast)",
                options.ether_type, a[0], a[1], a[2], a[3], a[4], a[5]);
  bpf_program program{};
  if (failed.empty() && pcap_setnonblock(pcap_, 1, reason) != 0) failed = reason;
  if (failed.empty() && pcap_setdirection(pcap_, PCAP_D_IN) != 0) failed = pcap_geterr(pcap_);
  if (failed.empty() && pcap_compile(pcap_, &program, filter, 1, PCAP_NETMASK_UNKNOWN) != 0) {
    failed = pcap_geterr(pcap_);
  }
  if (failed.empty()) {
    if (pcap_setfilter(pcap_, &program) != 0) failed = pcap_geterr(pcap_);
    pcap_freecode(&program);
  }
  if (!failed.empty()) {
    pcap_close(pcap_);
    throw PortError(interface.name + ": libpcap: " + failed);
  }
  fd_ = pcap_get_selectable_fd(pcap_);
  free_.reserve(buffers_);
  for (std::uint32_t i = buffers_; i-- > 0;) free_.push_back(i);
}

PcapPort::~PcapPort() { pcap_close(pcap_); }

std::size_t PcapPort::receive(std::span<Frame> frames) {
  if (++calls_ % kLookEvery == 0) alive_ = alive_ && is_unchanged(interface_);
  std::size_t got = 0;
  while (got < frames.size()) {
    if (receiving_ >= buffers_ / 2 || free_.empty()) break;
    pcap_pkthdr* header = nullptr;
    const u_char* bytes = nullptr;
    if (pcap_next_ex(pcap_, &header, &bytes) != 1) break;
    if (header->caplen != header->len || header->caplen > stride_) {
      ++counters_.rx_dropped_invalid;
      continue;
    }
    const std::uint32_t buffer = free_.back();
    free_.pop_back();
    ++receiving_;
    std::memcpy(data(buffer), bytes, header->caplen);
    frames[got++] = {data(buffer), header->caplen, buffer};
    ++counters_.rx_frames;
    counters_.rx_bytes += header->caplen;
  }
  return got;
}

void PcapPort::release(std::span<const Frame> frames) {
  for (const Frame& frame : frames) free_.push_back(frame.id);
  receiving_ -= static_cast<std::uint32_t>(frames.size());
}

std::size_t PcapPort::reserve(std::span<Frame> frames) {
  const std::size_t n = std::min(frames.size(), free_.size());
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t buffer = free_.back();
    free_.pop_back();
    frames[i] = {data(buffer), static_cast<std::uint32_t>(stride_), buffer};
  }
  if (n < frames.size()) ++counters_.tx_no_buffer;
  return n;
}

void PcapPort::submit(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    ++counters_.tx_kicks;
    if (pcap_inject(pcap_, frame.data, frame.length) == static_cast<int>(frame.length)) {
      ++counters_.tx_frames;
      counters_.tx_bytes += frame.length;
    } else {
      ++counters_.tx_dropped_busy;
    }
    free_.push_back(frame.id);
  }
}

void PcapPort::cancel(std::span<const Frame> frames) {
  for (const Frame& frame : frames) free_.push_back(frame.id);
}

PortCounters PcapPort::counters() {
  alive_ = alive_ && is_unchanged(interface_);
  PortCounters out = counters_;
  pcap_stat statistics{};
  if (pcap_stats(pcap_, &statistics) == 0) {
    out.rx_dropped_ring_full += statistics.ps_drop;
  }
  return out;
}

}  // namespace viaduct
