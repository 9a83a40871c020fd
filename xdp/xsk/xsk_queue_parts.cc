// Frames of several chunks (multi-buffer).
//
//   to send      | chunk c | c + 1 | c + 2 |   one frame for the borrower, up to three descriptors
//   received     | headroom, data |  | headroom, data |  ...  wherever the kernel took chunks from
//
// Between the pieces of a received frame there is at least a headroom, so it is copied together:
// for 9000 bytes in the cache that is far less than what the kernel does with them.
#include <algorithm>
#include <cstring>

#include "xdp/xsk/xsk_queue.h"

#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

namespace viaduct {

// ---------------------------------------------------------------------------- receiving

// Receives frames. The parts of a frame need not all be there yet; the next call goes on with it.
[[gnu::noinline]] std::size_t XskQueue::receive_parts(std::span<Frame> frames) {
  const std::uint32_t n =
      rings_.receive.available(static_cast<std::uint32_t>(frames.size()) * shape_.parts);
  if (n == 0) return 0;
  const std::uint32_t bytes = 1u << shape_.chunk_shift;
  std::size_t got = 0;
  std::uint64_t total = 0;
  std::uint32_t seen = 0;
  for (; seen < n && got < frames.size(); ++seen) {
    const xdp_desc part = rings_.receive[seen];
    const std::uint64_t chunk = part.addr >> shape_.chunk_shift;
    const bool last = (part.options & XDP_PKT_CONTD) == 0;
    if (part.len > bytes - (part.addr & (bytes - 1)) || chunk >= shape_.receive ||
        !take(chunk, Owner::kKernel, Owner::kBorrower)) [[unlikely]] {
      spoil(counters_->rx_dropped_invalid);
    } else if (last && assembling_ == kNone && !dropping_frame_) {
      std::byte* const at = area_ + part.addr;
      __builtin_prefetch(at);
      __builtin_prefetch(at + 64);
      frames[got++] = {at, part.len, static_cast<std::uint32_t>(chunk)};
      total += part.len;
    } else if (add_part(part, static_cast<std::uint32_t>(chunk)) && last) {
      const std::uint32_t buffer = shape_.receive + shape_.send + assembling_;
      owner_[buffer] = Owner::kBorrower;
      frames[got++] = {assembly_ + assembling_ * stride(shape_), assembled_bytes_, buffer};
      total += assembled_bytes_;
      assembling_ = kNone;
    }
    if (last) dropping_frame_ = false;
  }
  rings_.receive.release(seen);
  counters_->rx_frames += got;
  counters_->rx_bytes += total;
  lacking_ += seen;
  if (lacking_ >= fill_batch_ && free_receive_.count != 0) fill();
  return got;
}

// Copies a part behind those before it and takes its chunk back. False if the frame is lost.
bool XskQueue::add_part(const xdp_desc& part, std::uint32_t chunk) {
  owner_[chunk] = Owner::kFree;
  free_receive_.give(chunk);
  if (dropping_frame_) return false;
  if (assembling_ == kNone) {
    if (free_assembled_.count == 0) {
      spoil(counters_->rx_dropped_no_fill);
      return false;
    }
    assembling_ = free_assembled_.take();
    owner_[shape_.receive + shape_.send + assembling_] = Owner::kKernel;
    assembled_bytes_ = 0;
  }
  if (part.len == 0 || part.len > shape_.frame - assembled_bytes_) {
    spoil(counters_->rx_dropped_invalid);
    return false;
  }
  std::memcpy(assembly_ + assembling_ * stride(shape_) + assembled_bytes_, area_ + part.addr,
              part.len);
  assembled_bytes_ += part.len;
  return true;
}

// The frame whose parts are coming is lost, and counted once.
void XskQueue::spoil(std::uint64_t& counter) {
  if (!dropping_frame_) ++counter;
  dropping_frame_ = true;
  if (assembling_ == kNone) return;
  release_assembled(shape_.receive + shape_.send + assembling_, Owner::kKernel);
  assembling_ = kNone;
}

void XskQueue::release_assembled(std::uint32_t buffer, Owner from) {
  const std::uint32_t first = shape_.receive + shape_.send;
  if (buffer < first || !take(buffer, from, Owner::kFree)) return;
  free_assembled_.give(buffer - first);
}

// ---------------------------------------------------------------------------- sending

[[gnu::noinline]] void XskQueue::submit_parts(std::span<const Frame> frames) {
  const std::uint32_t chunk_bytes = 1u << shape_.chunk_shift;
  if (socket_ < 0 ||
      !rings_.transmit.has_room(static_cast<std::uint32_t>(frames.size()) * shape_.parts)) {
    counters_->tx_dropped_busy += frames.size();
    cancel(frames);
    return;
  }
  std::uint32_t queued = 0, descriptors = 0;
  std::uint64_t bytes = 0;
  for (const Frame& frame : frames) {
    if (frame.id < shape_.receive || !take(frame.id, Owner::kBorrower, Owner::kKernel)) [[unlikely]]
      continue;
    std::uint32_t left = std::min(frame.length, capacity_);
    std::uint32_t chunk = frame.id;
    for (;; ++chunk) {
      const std::uint32_t here = std::min(left, chunk_bytes);
      left -= here;
      owner_[chunk] = Owner::kKernel;
      rings_.transmit[descriptors++] = {std::uint64_t{chunk} << shape_.chunk_shift, here,
                                        left != 0 ? std::uint32_t{XDP_PKT_CONTD} : 0};
      if (left == 0) break;
    }
    parts_sending_[frame.id - shape_.receive] = static_cast<std::uint8_t>(chunk - frame.id + 1);
    ++queued;
    bytes += frame.length;
  }
  rings_.transmit.publish(descriptors);
  reserved_ -= queued;
  sending_ += queued;
  counters_->tx_frames += queued;
  counters_->tx_bytes += bytes;
  kick_due_ = true;
}

// Takes back what the kernel has sent; a frame is free when all of its chunks are.
[[gnu::noinline]] void XskQueue::reap_parts(std::uint32_t n) {
  std::uint32_t back = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint64_t chunk = rings_.completion[i] >> shape_.chunk_shift;
    if (chunk < shape_.receive || chunk >= shape_.receive + shape_.send ||
        !take(chunk, Owner::kKernel, Owner::kFree)) [[unlikely]]
      continue;
    const std::uint32_t at = static_cast<std::uint32_t>(chunk) - shape_.receive;
    const std::uint32_t first = at - at % shape_.parts;
    if (parts_sending_[first] == 0 || --parts_sending_[first] != 0) continue;
    free_send_.give(shape_.receive + first);
    ++back;
  }
  rings_.completion.release(n);
  sending_ -= back;
  completed_ += back;
}

// ---------------------------------------------------------------------------- a new socket

// Frees the chunks that the kernel had.
void XskQueue::forget_parts() {
  assembling_ = kNone;
  dropping_frame_ = false;
  free_assembled_.count = 0;
  std::memset(parts_sending_, 0, shape_.send);
  for (std::uint32_t i = shape_.assembled; i-- > 0;) {
    Owner& owner = owner_[shape_.receive + shape_.send + i];
    if (owner == Owner::kBorrower) continue;
    owner = Owner::kFree;
    free_assembled_.give(i);
  }
}

}  // namespace viaduct
