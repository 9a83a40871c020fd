#include "examples/viabench/raw_socket.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "examples/common/nic.h"

#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif
#ifndef XDP_MAX_TX_BUDGET
#define XDP_MAX_TX_BUDGET 9
#endif

namespace viabench {
namespace {

using via::Failure;
using via::format;

constexpr std::uint8_t kType[2] = {0x88, 0xb6};  // for local experiments; not Viaduct's own

Mac address_of(const std::string& interface) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), sizeof request.ifr_name - 1);
  const Fd s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (ioctl(s.get(), SIOCGIFHWADDR, &request) != 0) {
    throw Failure(format("%s: %s", interface.c_str(), std::strerror(errno)));
  }
  Mac mac;
  std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
  return mac;
}

std::uint32_t mtu_of(const std::string& interface) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface.c_str(), sizeof request.ifr_name - 1);
  const Fd s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (ioctl(s.get(), SIOCGIFMTU, &request) != 0) {
    throw Failure(format("%s: %s", interface.c_str(), std::strerror(errno)));
  }
  return static_cast<std::uint32_t>(request.ifr_mtu);
}

}  // namespace

RawSocket::RawSocket(const std::string& interface) : address_(address_of(interface)) {
  const bool large = mtu_of(interface) > kPageMtu;
  try {
    open(interface, large);
    attach(if_nametoindex(interface.c_str()), large);
  } catch (...) {
    close();
    throw;
  }
}

RawSocket::~RawSocket() { close(); }

void RawSocket::open(const std::string& interface, bool large) {
  constexpr std::size_t kBytes = std::size_t{kPages} * kPage;
  void* const area = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (area == MAP_FAILED) throw Failure("no memory for frames");
  area_ = static_cast<unsigned char*>(area);

  xsk_umem_config memory{};
  memory.fill_size = memory.comp_size = kRing;
  memory.frame_size = kPage;
  xsk_socket_config config{};
  config.rx_size = config.tx_size = kRing;
  config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  config.bind_flags = XDP_COPY | XDP_USE_NEED_WAKEUP;
  if (large) config.bind_flags |= XDP_USE_SG;
  // The kernel gives a queue back late, so the one of the sample before may still be taken.
  constexpr int kTries = 80;
  for (int i = 0;; ++i) {
    int error = xsk_umem__create(&umem_, area_, kBytes, &fill_, &completion_, &memory);
    if (error == 0) {
      error = xsk_socket__create(&socket_, interface.c_str(), 0, umem_, &rx_, &tx_, &config);
      if (error == 0) break;
      socket_ = nullptr;
      xsk_umem__delete(umem_);
    }
    umem_ = nullptr;
    if (error != -EBUSY || i == kTries) {
      throw Failure(format("AF_XDP on %s: %s", interface.c_str(), std::strerror(-error)));
    }
    usleep(25'000);
  }
  // One call may then send a whole ring; older kernels don't know it, and kick() goes on.
  int budget = kRing;
  setsockopt(xsk_socket__fd(socket_), SOL_XDP, XDP_MAX_TX_BUDGET, &budget, sizeof budget);

  std::uint32_t at = 0;
  xsk_ring_prod__reserve(&fill_, kRing, &at);
  for (std::uint32_t i = 0; i < kRing; ++i) {
    *xsk_ring_prod__fill_addr(&fill_, at++) = std::uint64_t{i} * kPage;
  }
  xsk_ring_prod__submit(&fill_, kRing);
}

// return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS);
void RawSocket::attach(unsigned index, bool large) {
  map_ = Fd(bpf_map_create(BPF_MAP_TYPE_XSKMAP, "viabench", 4, 4, 1, nullptr));
  const int key = 0;
  const int fd = xsk_socket__fd(socket_);
  if (!map_ || bpf_map_update_elem(map_.get(), &key, &fd, BPF_ANY) != 0) {
    throw Failure(format("XSKMAP: %s", std::strerror(errno)));
  }
  const bpf_insn code[] = {
      {BPF_LDX | BPF_MEM | BPF_W, BPF_REG_2, BPF_REG_1, offsetof(xdp_md, rx_queue_index), 0},
      {BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map_.get()},
      {0, 0, 0, 0, 0},
      {BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_3, 0, 0, XDP_PASS},
      {BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map},
      {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
  };
  bpf_prog_load_opts load{};
  load.sz = sizeof load;
  load.prog_flags = large ? BPF_F_XDP_HAS_FRAGS : 0u;
  program_ = Fd(
      bpf_prog_load(BPF_PROG_TYPE_XDP, "viabench", "Dual MIT/GPL", code, std::size(code), &load));
  if (!program_) throw Failure(format("XDP program: %s", std::strerror(errno)));
  bpf_link_create_opts options{};
  options.sz = sizeof options;
  options.flags = XDP_FLAGS_SKB_MODE;
  // A link, unlike a plain attachment, goes away with its process.
  link_ = Fd(bpf_link_create(program_.get(), static_cast<int>(index), BPF_XDP, &options));
  if (!link_) throw Failure(format("attaching the XDP program: %s", std::strerror(errno)));
}

void RawSocket::close() {
  link_.reset();
  if (socket_ != nullptr) xsk_socket__delete(socket_);
  if (umem_ != nullptr) xsk_umem__delete(umem_);
  if (area_ != nullptr) munmap(area_, std::size_t{kPages} * kPage);
}

void RawSocket::queue(const Mac& to, std::uint32_t payload, std::uint8_t kind) {
  std::uint32_t left = std::max(payload + kHeader, kLeast), at = 0;
  const std::uint32_t pages = (left + kPage - 1) / kPage;
  while (outstanding_ + pages > kRing || xsk_ring_prod__reserve(&tx_, pages, &at) < pages) kick();
  if (next_ + pages > kPages) next_ = kRing;
  unsigned char* const frame = area_ + std::size_t{next_} * kPage;
  std::memcpy(frame, to.data(), 6);
  std::memcpy(frame + 6, address_.data(), 6);
  std::memcpy(frame + 12, kType, 2);
  frame[kHeader] = kind;
  for (std::uint32_t p = 0; p < pages; ++p, ++next_) {
    xdp_desc* const d = xsk_ring_prod__tx_desc(&tx_, at++);
    d->addr = std::uint64_t{next_} * kPage;
    d->len = std::min(left, kPage);
    left -= d->len;
    d->options = left != 0 ? std::uint32_t{XDP_PKT_CONTD} : 0;
  }
  xsk_ring_prod__submit(&tx_, pages);
  if (next_ == kPages) next_ = kRing;
  outstanding_ += pages;
}

void RawSocket::kick() {
  const ssize_t result = sendto(xsk_socket__fd(socket_), nullptr, 0, MSG_DONTWAIT, nullptr, 0);
  if (result < 0 && errno != EAGAIN && errno != EBUSY && errno != ENOBUFS && errno != EINTR) {
    throw Failure(format("sending: %s", std::strerror(errno)));
  }
  std::uint32_t at = 0;
  const std::uint32_t n = xsk_ring_cons__peek(&completion_, kRing, &at);
  if (n > 0) xsk_ring_cons__release(&completion_, n);
  outstanding_ -= n;
}

void RawSocket::flush() {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (outstanding_ > 0) {
    kick();
    if (std::chrono::steady_clock::now() >= limit) throw Failure("frames are not sent");
  }
}

RawSocket::Received RawSocket::receive(std::uint32_t most) {
  Received received;
  std::uint32_t at = 0, to = 0;
  const std::uint32_t n = xsk_ring_cons__peek(&rx_, most, &at);
  if (n == 0) return received;
  xsk_ring_prod__reserve(&fill_, n, &to);
  for (std::uint32_t i = 0; i < n; ++i) {
    const xdp_desc page = *xsk_ring_cons__rx_desc(&rx_, at++);
    const unsigned char* const frame = area_ + page.addr;
    *xsk_ring_prod__fill_addr(&fill_, to++) = page.addr & ~std::uint64_t{kPage - 1};
    const bool first = !more_;
    more_ = (page.options & XDP_PKT_CONTD) != 0;
    if (first) {
      ours_ = std::memcmp(frame + 12, kType, 2) == 0;
      if (ours_) {
        kind_ = frame[kHeader];
        std::memcpy(from_.data(), frame + 6, 6);
      }
    }
    if (more_ || !ours_) continue;
    ++received.frames;
    received.kind = kind_;
    received.from = from_;
  }
  xsk_ring_prod__submit(&fill_, n);
  xsk_ring_cons__release(&rx_, n);
  return received;
}

}  // namespace viabench
