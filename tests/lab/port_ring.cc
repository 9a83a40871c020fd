#include "tests/lab/port_ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "xdp/clock.h"

namespace viaduct::lab {
namespace {

constexpr std::uint32_t kReserve = 16;    // room for a VLAN tag that the kernel has taken out
constexpr std::uint32_t kOverhead = 256;  // headers of a slot and of a frame
constexpr std::uint32_t kRingBytes = 16 << 20;
constexpr std::uint32_t kBlockBytes = 1 << 20;
constexpr int kSendBuffer = 32 << 20;
constexpr std::uint32_t kBatch = 64;
// A veth takes 256 frames for a program behind XDP, which may have to wait for a processor.
constexpr std::uint64_t kPatienceNs = 20 * kNsPerMs;

[[noreturn]] void fail(const std::string& interface, const char* what) {
  std::fprintf(stderr, "lab-faults: %s: %s: %s\n", interface.c_str(), what, std::strerror(errno));
  std::exit(1);
}

std::uint32_t mtu_of(int fd, const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(fd, SIOCGIFMTU, &request) != 0) fail(interface, "MTU");
  return static_cast<std::uint32_t>(request.ifr_mtu);
}

template <class T>
bool set(int fd, int level, int option, const T& value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

}  // namespace

PortRing::PortRing(const std::string& interface)
    : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)) {
  if (fd_ < 0) fail(interface, "packet socket");
  const int version = TPACKET_V2;
  const int on = 1;
  slot_bytes_ = std::bit_ceil(mtu_of(fd_, interface) + kOverhead);
  const std::uint32_t block = std::max(kBlockBytes, slot_bytes_);
  tpacket_req ring{};
  ring.tp_block_size = block;
  ring.tp_block_nr = kRingBytes / block;
  ring.tp_frame_size = slot_bytes_;
  ring.tp_frame_nr = slots_ = kRingBytes / slot_bytes_;
  if (!set(fd_, SOL_PACKET, PACKET_VERSION, version) ||
      !set(fd_, SOL_PACKET, PACKET_RESERVE, kReserve) ||
      !set(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, on) ||
      !set(fd_, SOL_PACKET, PACKET_QDISC_BYPASS, on) ||
      !set(fd_, SOL_SOCKET, SO_SNDBUFFORCE, kSendBuffer) ||
      !set(fd_, SOL_PACKET, PACKET_RX_RING, ring)) {
    fail(interface, "packet ring");
  }
  void* memory = mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) fail(interface, "packet ring");
  ring_ = static_cast<std::byte*>(memory);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  if (bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    fail(interface, "bind");
}

std::byte* PortRing::slot(std::uint64_t number) const {
  return ring_ + (number & (slots_ - 1)) * slot_bytes_;
}

std::span<std::byte> PortRing::next() {
  while (head_ - tail_ < slots_) {
    std::byte* const at = slot(head_);
    auto* header = reinterpret_cast<tpacket2_hdr*>(at);
    const std::uint32_t status = std::atomic_ref(header->tp_status).load(std::memory_order_acquire);
    if (!(status & TP_STATUS_USER)) return {};
    if (header->tp_snaplen < header->tp_len) {
      // Nothing that the interface should bring. Slots are given back in order: first those before
      // it.
      if (head_ != tail_) return {};
      ++missed_;
      ++head_;
      release(1);
      continue;
    }
    ++head_;
    std::byte* frame = at + header->tp_mac;
    std::uint32_t length = header->tp_snaplen;
    if (status & TP_STATUS_VLAN_VALID) {
      const std::uint16_t tag[] = {
          htons(status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : ETH_P_8021Q),
          htons(header->tp_vlan_tci)};
      std::memmove(frame - sizeof tag, frame, 2 * ETH_ALEN);
      frame -= sizeof tag;
      std::memcpy(frame + 2 * ETH_ALEN, tag, sizeof tag);
      length += sizeof tag;
    }
    return {frame, length};
  }
  return {};
}

void PortRing::release(std::uint32_t n) {
  for (; n > 0; --n, ++tail_) {
    auto* header = reinterpret_cast<tpacket2_hdr*>(slot(tail_));
    std::atomic_ref(header->tp_status).store(TP_STATUS_KERNEL, std::memory_order_release);
  }
}

std::uint32_t PortRing::send(std::span<iovec> frames) {
  std::uint32_t unsent = 0;
  std::uint64_t give_up = 0;
  mmsghdr messages[kBatch];
  while (!frames.empty()) {
    const auto n = std::min<std::size_t>(frames.size(), kBatch);
    for (std::size_t i = 0; i < n; ++i) {
      messages[i] = {};
      messages[i].msg_hdr.msg_iov = &frames[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    const int sent = sendmmsg(fd_, messages, static_cast<unsigned>(n), MSG_DONTWAIT);
    if (sent > 0) {
      frames = frames.subspan(static_cast<std::size_t>(sent));
      give_up = 0;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == ENOBUFS || errno == EAGAIN) {
      const std::uint64_t now = monotonic_ns();
      if (give_up == 0) give_up = now + kPatienceNs;
      if (now < give_up) {
        sched_yield();
        continue;
      }
    }
    ++unsent;
    frames = frames.subspan(1);
  }
  return unsent;
}

std::uint64_t PortRing::missed() {
  tpacket_stats statistics{};
  socklen_t length = sizeof statistics;
  if (getsockopt(fd_, SOL_PACKET, PACKET_STATISTICS, &statistics, &length) == 0) {
    missed_ += statistics.tp_drops;
  }
  return missed_;
}

void disable_offloads(const std::string& interface) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  // Without checksums the kernel does its segmentation before the interface, too. A veth that may
  // trust the checksums of what it receives would let damaged frames pass.
  for (const std::uint32_t command : {ETHTOOL_STXCSUM, ETHTOOL_SRXCSUM}) {
    ethtool_value value{.cmd = command, .data = 0};
    ifreq request{};
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&value);
    if (fd < 0 || ioctl(fd, SIOCETHTOOL, &request) != 0) fail(interface, "checksums");
  }
  close(fd);
}

}  // namespace viaduct::lab
