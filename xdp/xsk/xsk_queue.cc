#include "xdp/xsk/xsk_queue.h"

#include <algorithm>

#include "xdp/xsk/system_calls.h"

namespace viaduct {
namespace {

constexpr std::uint32_t kFillBatch = 64;
constexpr unsigned kKicks = 64;     // system calls for one flush at most
constexpr unsigned kIdleKicks = 4;  // of these, how many without visible progress

// A burst that has taken so much of the fill ring may be followed by one that needs more than all of it.
constexpr std::uint32_t much_of(std::uint32_t filled) { return filled / 2; }

}  // namespace

void XskQueue::set_up(const Shape& shape, std::byte* area, std::byte* assembly, void* state,
                      PortCounters& counters) {
  shape_ = shape;
  shape_.send -= shape.send % shape.parts;
  buffers_ = buffers(shape_);
  capacity_ = shape.parts << shape.chunk_shift;
  most_out_ = shape.ring / shape.parts;
  area_ = area;
  assembly_ = assembly;
  counters_ = &counters;
  fill_batch_ = std::clamp(shape.filled / 8, 1u, kFillBatch);
  free_receive_.items = static_cast<std::uint32_t*>(state);
  free_send_.items = free_receive_.items + shape.receive;
  free_assembled_.items = free_send_.items + shape.send;
  owner_ = reinterpret_cast<Owner*>(free_assembled_.items + shape.assembled);
  parts_sending_ = reinterpret_cast<std::uint8_t*>(owner_ + buffers(shape));
}

const char* XskQueue::attach(int socket) {
  if (const char* const what = rings_.map(socket, shape_.ring)) return what;
  socket_ = socket;
  free_receive_.count = free_send_.count = 0;
  sending_ = 0;
  filled_ = lacking_ = shape_.filled;
  kick_due_ = kick_cut_short_ = false;
  if (shape_.parts > 1) forget_parts();
  for (std::uint32_t i = shape_.receive + shape_.send; i-- > 0;) {
    if (owner_[i] == Owner::kBorrower) continue;
    owner_[i] = Owner::kFree;
    if (i < shape_.receive) {
      free_receive_.give(i);
    } else if ((i - shape_.receive) % shape_.parts == 0) {
      free_send_.give(i);
    }
  }
  fill();
  return nullptr;
}

void XskQueue::detach() {
  PortCounters so_far{};
  add_statistics(so_far);
  before_ = so_far;
  rings_.unmap();
  socket_ = -1;
}

// ---------------------------------------------------------------------------- receiving

void XskQueue::fill() {
  if (socket_ < 0) return;
  const std::uint32_t n = std::min(free_receive_.count, lacking_);
  if (n == 0 || !rings_.fill.has_room(n)) return;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t chunk = free_receive_.take();
    owner_[chunk] = Owner::kKernel;
    rings_.fill[i] = std::uint64_t{chunk} << shape_.chunk_shift;
  }
  rings_.fill.publish(n);
  lacking_ -= n;
  if (rings_.fill.needs_wakeup()) system_calls::wake_to_receive(socket_);
}

// Gives the kernel more buffers: the next burst may be larger, and frames that find the ring empty are lost.
void XskQueue::fill_more() {
  const std::uint32_t more = std::min(2 * filled_, shape_.filled_at_most) - filled_;
  filled_ += more;
  lacking_ += more;
}

std::size_t XskQueue::receive(std::span<Frame> frames) {
  if (socket_ < 0) return 0;
  if (kick_cut_short_) [[unlikely]]
    send();
  if (shape_.parts > 1) return receive_parts(frames);
  const std::uint32_t n = rings_.receive.available(static_cast<std::uint32_t>(frames.size()));
  if (n == 0) return 0;
  if (filled_ < shape_.filled_at_most && rings_.receive.known() > much_of(filled_)) [[unlikely]] fill_more();
  const std::uint32_t bytes = 1u << shape_.chunk_shift;
  std::size_t got = 0;
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const xdp_desc descriptor = rings_.receive[i];
    const std::uint64_t chunk = descriptor.addr >> shape_.chunk_shift;
    const std::uint64_t offset = descriptor.addr & (bytes - 1);
    if (descriptor.len > bytes - offset || chunk >= shape_.receive ||
        !take(chunk, Owner::kKernel, Owner::kBorrower)) [[unlikely]] {
      ++counters_->rx_dropped_invalid;
      continue;
    }
    std::byte* const at = area_ + descriptor.addr;
    // The sender's CPU has written it: all frames of a burst are fetched at once.
    __builtin_prefetch(at);
    __builtin_prefetch(at + 64);
    frames[got++] = {at, descriptor.len, static_cast<std::uint32_t>(chunk)};
    total += descriptor.len;
  }
  rings_.receive.release(n);
  counters_->rx_frames += got;
  counters_->rx_bytes += total;
  // The borrower may keep these frames for long, so the kernel gets other chunks now.
  lacking_ += n;
  if (lacking_ >= fill_batch_ && free_receive_.count != 0) fill();
  return got;
}

void XskQueue::release(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    if (frame.id < shape_.receive && take(frame.id, Owner::kBorrower, Owner::kFree)) [[likely]] {
      free_receive_.give(frame.id);
    } else if (shape_.parts > 1) {
      release_assembled(frame.id, Owner::kBorrower);
    }
  }
  if (lacking_ >= fill_batch_ && free_receive_.count != 0) fill();
}

// ---------------------------------------------------------------------------- sending

// Takes back what the kernel has sent.
void XskQueue::reap() {
  if (socket_ < 0) return;
  const std::uint32_t n = rings_.completion.available(shape_.ring);
  if (n == 0) return;
  if (shape_.parts > 1) return reap_parts(n);
  std::uint32_t back = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint64_t chunk = rings_.completion[i] >> shape_.chunk_shift;
    if (chunk < shape_.receive || !take(chunk, Owner::kKernel, Owner::kFree)) [[unlikely]]
      continue;
    free_send_.give(static_cast<std::uint32_t>(chunk));
    ++back;
  }
  rings_.completion.release(n);
  sending_ -= back;
  completed_ += back;
}

std::size_t XskQueue::reserve(std::span<Frame> frames) {
  if (socket_ < 0) return 0;
  // Borrower and kernel together never have more frames than the tx ring holds.
  const auto available = [this]() -> std::uint32_t {
    const std::uint32_t taken = sending_ + reserved_;
    return taken < most_out_ ? std::min(free_send_.count, most_out_ - taken) : 0;
  };
  if (available() < frames.size()) [[unlikely]]
    reap();
  const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(frames.size(), available()));
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t chunk = free_send_.take();
    owner_[chunk] = Owner::kBorrower;
    frames[i] = {data(chunk), capacity_, chunk};
  }
  reserved_ += n;
  if (n < frames.size()) ++counters_->tx_no_buffer;
  return n;
}

void XskQueue::submit(std::span<const Frame> frames) {
  const auto n = static_cast<std::uint32_t>(frames.size());
  if (n == 0) return;
  if (shape_.parts > 1) return submit_parts(frames);
  if (socket_ < 0 || !rings_.transmit.has_room(n)) [[unlikely]] {
    // The socket is away, or was made anew while it was full: the frames are lost, as on a full link.
    counters_->tx_dropped_busy += n;
    cancel(frames);
    return;
  }
  std::uint32_t queued = 0;
  std::uint64_t bytes = 0;
  for (const Frame& frame : frames) {
    if (frame.id < shape_.receive || !take(frame.id, Owner::kBorrower, Owner::kKernel)) [[unlikely]]
      continue;
    rings_.transmit[queued++] = {std::uint64_t{frame.id} << shape_.chunk_shift, frame.length, 0};
    bytes += frame.length;
  }
  rings_.transmit.publish(queued);
  reserved_ -= queued;
  sending_ += queued;
  counters_->tx_frames += queued;
  counters_->tx_bytes += bytes;
  kick_due_ = true;
}

void XskQueue::cancel(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    if (frame.id < shape_.receive || !take(frame.id, Owner::kBorrower, Owner::kFree)) continue;
    free_send_.give(frame.id);
    --reserved_;
  }
}

void XskQueue::send() {
  if (socket_ < 0) return;
  if (!rings_.transmit.needs_wakeup()) {
    // The driver is sending by itself; it may still fall asleep before it has seen all.
    kick_due_ = kick_cut_short_ = rings_.transmit.consumed() != rings_.transmit.ours;
    return;
  }
  kick();
}

// Makes the kernel send. In copy mode it sends only inside a call, and only so much in each.
void XskQueue::kick() {
  if (socket_ < 0) return;
  unsigned idle = kIdleKicks;
  for (unsigned left = kKicks; left > 0; --left) {
    const std::uint32_t consumed = rings_.transmit.consumed();
    const std::uint64_t before = completed_;
    ++counters_->tx_kicks;
    const int error = system_calls::wake_to_send(socket_) < 0 ? errno : 0;
    // Mostly all buffers are back by now, and in the cache: the next frames are written there.
    reap();
    if (error == 0) [[likely]] {
      kick_due_ = kick_cut_short_ = false;
      return;
    }
    kick_due_ = kick_cut_short_ = true;
    if (error == EAGAIN) {
      ++counters_->tx_kick_again;
      // The call has used up its budget, or there is no room further down. Kernels before 6.17 do not always show
      // that they have sent something, so the loop gives up only after some calls without progress. The rest is sent
      // later.
      const bool moved = completed_ != before || rings_.transmit.consumed() != consumed;
      if (!moved && --idle == 0) return;
    } else if (error == EBUSY || error == ENOBUFS) {
      ++counters_->tx_dropped_busy;
    } else {
      // The interface is down or gone; frames in the ring stay there.
      return;
    }
  }
}

void XskQueue::add_statistics(PortCounters& out) const {
  out.rx_dropped_ring_full += before_.rx_dropped_ring_full;
  out.rx_dropped_no_fill += before_.rx_dropped_no_fill;
  out.rx_dropped_invalid += before_.rx_dropped_invalid;
  out.tx_dropped_invalid += before_.tx_dropped_invalid;
  xdp_statistics s{};
  socklen_t length = sizeof s;
  if (socket_ < 0 || system_calls::getsockopt(socket_, SOL_XDP, XDP_STATISTICS, &s, &length) != 0) {
    return;
  }
  out.rx_dropped_ring_full += s.rx_ring_full;
  out.rx_dropped_no_fill += s.rx_fill_ring_empty_descs;
  // The kernel counts a frame that found the fill ring empty in rx_dropped, too.
  out.rx_dropped_invalid += s.rx_dropped - std::min(s.rx_dropped, s.rx_fill_ring_empty_descs) +
                            s.rx_invalid_descs;
  out.tx_dropped_invalid += s.tx_invalid_descs;
}

}  // namespace viaduct
