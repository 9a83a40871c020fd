#include "xdp/af_xdp_queue.h"

#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "xdp/open_port.h"

#ifndef XDP_MAX_TX_BUDGET
#define XDP_MAX_TX_BUDGET 9
#endif

namespace viaduct {
namespace {

constexpr std::uint32_t kFillBatch = 64;
constexpr unsigned kKicks = 64;      // system calls for one flush at most
constexpr unsigned kIdleKicks = 4;   // of these, how many without visible progress
constexpr unsigned kBindTries = 40;  // the kernel gives a queue back late
constexpr unsigned kBindPauseUs = 25'000;

}  // namespace

AfXdpQueue::AfXdpQueue(const Options& options, PortCounters& counters)
    : options_(options),
      counters_(counters),
      fill_batch_(std::clamp(options.ring / 16, 1u, kFillBatch)),
      bytes_(std::size_t{options.chunk} * (options.receive + options.send)) {
  void* area = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (area == MAP_FAILED) {
    throw PortError(std::string(options.interface) + ": no memory for " +
                    std::to_string(bytes_ >> 20) + " MB of frames");
  }
  area_ = static_cast<std::byte*>(area);
  owner_.assign(options.receive + options.send, Owner::kFree);
  free_receive_.reserve(options.receive);
  free_send_.reserve(options.send);
  const char* what = "";
  int error = 0;
  for (unsigned left = kBindTries;; --left) {
    error = open(what);
    if (error != EBUSY || left == 0) break;
    usleep(kBindPauseUs);
  }
  if (error != 0) {
    munmap(area_, bytes_);
    throw PortError(explain(what, error));
  }
}

AfXdpQueue::~AfXdpQueue() {
  close();
  munmap(area_, bytes_);
}

std::string AfXdpQueue::explain(const char* what, int error) const {
  std::string text = std::string(options_.interface) + ", queue " +
                     std::to_string(options_.queue) + ": " + what + ": " + std::strerror(error);
  if (error == EPERM || error == EACCES) text += " (CAP_NET_RAW and CAP_NET_ADMIN needed)";
  if (error == EBUSY) text += " (another AF_XDP socket has the queue)";
  if (error == ENOBUFS) text += " (raise the limit of locked memory, ulimit -l)";
  return text;
}

// Returns 0, or an errno and what it belongs to; then there is no socket.
int AfXdpQueue::open(const char*& what) {
  // Completions have room for everything that may be under way: a full completion ring stops
  // transmission.
  xsk_umem_config umem{};
  umem.fill_size = options_.ring;
  umem.comp_size = options_.ring;
  umem.frame_size = options_.chunk;
  what = "UMEM";
  int error = -xsk_umem__create(&umem_, area_, bytes_, &fill_ring_, &completion_, &umem);
  if (error != 0) {
    umem_ = nullptr;
    return error;
  }
  xsk_socket_config socket{};
  socket.rx_size = options_.ring;
  socket.tx_size = options_.ring;
  socket.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  // Without either flag the kernel takes zero-copy where the driver can, which must not happen
  // under a generic program.
  socket.bind_flags =
      static_cast<std::uint16_t>(XDP_USE_NEED_WAKEUP | (options_.copy ? XDP_COPY : 0));
  what = "AF_XDP socket";
  error = -xsk_socket__create(&socket_, options_.interface, options_.queue, umem_, &rx_, &tx_,
                              &socket);
  if (error != 0) {
    socket_ = nullptr;
    close();
    return error;
  }
  fd_ = xsk_socket__fd(socket_);
  // Newer kernels send a whole ring in one call, if asked.
  int budget = static_cast<int>(options_.ring);
  setsockopt(fd_, SOL_XDP, XDP_MAX_TX_BUDGET, &budget, sizeof budget);

  free_receive_.clear();
  free_send_.clear();
  sending_ = 0;
  lacking_ = options_.ring;
  unsent_ = false;
  const std::uint32_t all = options_.receive + options_.send;
  for (std::uint32_t i = all; i-- > 0;) {
    if (owner_[i] == Owner::kBorrower) continue;
    owner_[i] = Owner::kFree;
    (i < options_.receive ? free_receive_ : free_send_).push_back(i);
  }
  fill();
  return 0;
}

void AfXdpQueue::close() {
  PortCounters so_far{};
  add_statistics(so_far);
  before_ = so_far;
  if (socket_ != nullptr) xsk_socket__delete(socket_);
  if (umem_ != nullptr) xsk_umem__delete(umem_);
  socket_ = nullptr;
  umem_ = nullptr;
  fd_ = -1;
}

bool AfXdpQueue::rebind(std::string& error) {
  close();
  const char* what = "";
  const int number = open(what);
  if (number != 0 && number != EBUSY) error = explain(what, number);
  return number == 0;
}

bool AfXdpQueue::zero_copy() const {
  xdp_options options{};
  socklen_t length = sizeof options;
  return getsockopt(fd_, SOL_XDP, XDP_OPTIONS, &options, &length) == 0 &&
         (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

// ---------------------------------------------------------------------------- receiving

// As many chunks as there are entries in a ring are with the kernel, if there are enough; so neither
// fill ring nor rx ring can be too short.
void AfXdpQueue::fill() {
  if (fd_ < 0) return;
  const std::uint32_t n = std::min(static_cast<std::uint32_t>(free_receive_.size()), lacking_);
  std::uint32_t at = 0;
  if (n == 0 || xsk_ring_prod__reserve(&fill_ring_, n, &at) != n) return;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t chunk = free_receive_.back();
    free_receive_.pop_back();
    owner_[chunk] = Owner::kKernel;
    *xsk_ring_prod__fill_addr(&fill_ring_, at + i) = std::uint64_t{chunk} * options_.chunk;
  }
  xsk_ring_prod__submit(&fill_ring_, n);
  lacking_ -= n;
  if (xsk_ring_prod__needs_wakeup(&fill_ring_)) {
    recvfrom(fd_, nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
  }
}

std::size_t AfXdpQueue::receive(std::span<Frame> frames) {
  if (fd_ < 0) return 0;
  std::uint32_t at = 0;
  const std::uint32_t n =
      xsk_ring_cons__peek(&rx_, static_cast<std::uint32_t>(frames.size()), &at);
  if (n == 0) return 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const xdp_desc* descriptor = xsk_ring_cons__rx_desc(&rx_, at + i);
    const auto chunk = static_cast<std::uint32_t>(descriptor->addr / options_.chunk);
    owner_[chunk] = Owner::kBorrower;
    frames[i] = {area_ + descriptor->addr, descriptor->len, chunk};
    counters_.rx_bytes += descriptor->len;
  }
  xsk_ring_cons__release(&rx_, n);
  counters_.rx_frames += n;
  // The borrower may keep them for long.
  lacking_ += n;
  fill_if_worth_it();
  return n;
}

void AfXdpQueue::release(std::uint32_t chunk) {
  owner_[chunk] = Owner::kFree;
  free_receive_.push_back(chunk);
  fill_if_worth_it();
}

// ---------------------------------------------------------------------------- sending

// Takes back what the kernel has sent.
void AfXdpQueue::reap() {
  if (fd_ < 0) return;
  std::uint32_t at = 0;
  const std::uint32_t n = xsk_ring_cons__peek(&completion_, options_.ring, &at);
  if (n == 0) return;
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto chunk = static_cast<std::uint32_t>(
        *xsk_ring_cons__comp_addr(&completion_, at + i) / options_.chunk);
    owner_[chunk] = Owner::kFree;
    free_send_.push_back(chunk);
  }
  xsk_ring_cons__release(&completion_, n);
  sending_ -= n;
  completed_ += n;
}

std::size_t AfXdpQueue::reserve(std::span<Frame> frames) {
  // Never more with the borrower and the kernel together than the tx ring holds.
  const auto available = [this]() -> std::size_t {
    const std::uint32_t taken = sending_ + reserved_;
    if (fd_ < 0 || taken >= options_.ring) return 0;
    return std::min<std::size_t>(free_send_.size(), options_.ring - taken);
  };
  if (available() < frames.size()) reap();
  const std::size_t n = std::min(frames.size(), available());
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t chunk = free_send_.back();
    free_send_.pop_back();
    owner_[chunk] = Owner::kBorrower;
    frames[i] = {data(chunk), options_.chunk, chunk};
  }
  reserved_ += static_cast<std::uint32_t>(n);
  if (n < frames.size()) ++counters_.tx_no_buffer;
  return n;
}

void AfXdpQueue::submit(std::span<const Frame> frames) {
  const auto n = static_cast<std::uint32_t>(frames.size());
  std::uint32_t at = 0;
  if (fd_ < 0 || xsk_ring_prod__reserve(&tx_, n, &at) != n) {
    // The socket is away, or was made anew under a full one: lost, like any frame on a full link.
    counters_.tx_dropped_busy += n;
    for (const Frame& frame : frames) cancel(frame.id);
    return;
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    xdp_desc* descriptor = xsk_ring_prod__tx_desc(&tx_, at + i);
    descriptor->addr = std::uint64_t{frames[i].id} * options_.chunk;
    descriptor->len = frames[i].length;
    descriptor->options = 0;
    owner_[frames[i].id] = Owner::kKernel;
    counters_.tx_bytes += frames[i].length;
  }
  xsk_ring_prod__submit(&tx_, n);
  reserved_ -= n;
  counters_.tx_frames += n;
  sending_ += n;
  unsent_ = true;
}

void AfXdpQueue::cancel(std::uint32_t chunk) {
  owner_[chunk] = Owner::kFree;
  free_send_.push_back(chunk);
  --reserved_;
}

void AfXdpQueue::flush() {
  if (!unsent_ || fd_ < 0) return;
  if (!xsk_ring_prod__needs_wakeup(&tx_)) {
    // The driver is at it; it may still fall asleep before it has seen all.
    unsent_ = __atomic_load_n(tx_.consumer, __ATOMIC_ACQUIRE) != *tx_.producer;
    return;
  }
  kick();
}

// In copy mode the kernel sends only inside a call, and only so much in each.
void AfXdpQueue::kick() {
  if (fd_ < 0) return;
  unsigned idle = kIdleKicks;
  for (unsigned left = kKicks; left > 0; --left) {
    const std::uint32_t consumed = __atomic_load_n(tx_.consumer, __ATOMIC_ACQUIRE);
    const std::uint64_t before = completed_;
    ++counters_.tx_kicks;
    const int error = sendto(fd_, nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0 ? errno : 0;
    reap();
    if (error == 0) {
      unsent_ = false;
      return;
    }
    unsent_ = true;
    if (error == EAGAIN) {
      ++counters_.tx_kick_again;
      // Budget, or no room further down. Kernels before 6.17 do not always show that they have
      // gone on, so not seeing it is believed only after some calls. What is left is sent later.
      const bool moved =
          completed_ != before || __atomic_load_n(tx_.consumer, __ATOMIC_ACQUIRE) != consumed;
      if (!moved && --idle == 0) return;
    } else if (error == EBUSY || error == ENOBUFS) {
      ++counters_.tx_dropped_busy;
    } else {
      // The interface is down or gone; what is in the ring stays there.
      return;
    }
  }
}

void AfXdpQueue::add_statistics(PortCounters& out) const {
  out.rx_dropped_ring_full += before_.rx_dropped_ring_full;
  out.rx_dropped_no_fill += before_.rx_dropped_no_fill;
  out.rx_dropped_invalid += before_.rx_dropped_invalid;
  out.tx_dropped_invalid += before_.tx_dropped_invalid;
  xdp_statistics s{};
  socklen_t length = sizeof s;
  if (fd_ < 0 || getsockopt(fd_, SOL_XDP, XDP_STATISTICS, &s, &length) != 0) return;
  out.rx_dropped_ring_full += s.rx_ring_full;
  out.rx_dropped_no_fill += s.rx_fill_ring_empty_descs;
  out.rx_dropped_invalid += s.rx_dropped + s.rx_invalid_descs;
  out.tx_dropped_invalid += s.tx_invalid_descs;
}

}  // namespace viaduct
