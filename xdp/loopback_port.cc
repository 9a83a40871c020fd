#include "xdp/loopback_port.h"

#include <algorithm>
#include <cstring>

namespace viaduct {
namespace {

constexpr std::uint32_t kBuffers = 2048;
constexpr std::uint32_t kOwn = 0x80000000;  // marks the ids of our buffers
constexpr std::size_t kEthernet = 14;

}  // namespace

LoopbackPort::LoopbackPort(std::unique_ptr<Port> wire)
    : wire_(std::move(wire)),
      address_(wire_->address()),
      stride_((wire_->mtu() + kEthernet + 63) & ~std::size_t{63}) {}

bool LoopbackPort::is_own(const Frame& frame) const {
  return std::memcmp(frame.data, address_.data(), address_.size()) == 0;
}

void LoopbackPort::turn_back(const Frame& frame) {
  if (memory_.empty()) {
    memory_.resize(stride_ * kBuffers);
    for (std::uint32_t i = kBuffers; i-- > 0;) free_.push_back(i);
  }
  if (free_.empty() || frame.length > stride_) {
    ++dropped_;
    return;
  }
  const std::uint32_t buffer = free_.back();
  free_.pop_back();
  std::byte* data = &memory_[buffer * stride_];
  std::memcpy(data, frame.data, frame.length);
  queue_.push_back({data, frame.length, buffer | kOwn});
}

void LoopbackPort::submit(std::span<const Frame> frames) {
  while (!frames.empty()) {
    const bool own = is_own(frames.front());
    std::size_t n = 1;
    while (n < frames.size() && is_own(frames[n]) == own) ++n;
    const auto run = frames.first(n);
    if (own) {
      for (const Frame& frame : run) turn_back(frame);
      wire_->cancel(run);
    } else {
      wire_->submit(run);
    }
    frames = frames.subspan(n);
  }
}

std::size_t LoopbackPort::receive(std::span<Frame> frames) {
  std::size_t got = 0;
  if (head_ != queue_.size()) {
    // Half of the room at most, so that neither side starves the other.
    got = std::min(std::max<std::size_t>(frames.size() / 2, 1), queue_.size() - head_);
    std::copy_n(queue_.begin() + static_cast<std::ptrdiff_t>(head_), got, frames.begin());
    head_ += got;
    if (head_ == queue_.size()) queue_.clear(), head_ = 0;
  }
  return got + (got < frames.size() ? wire_->receive(frames.subspan(got)) : 0);
}

void LoopbackPort::release(std::span<const Frame> frames) {
  while (!frames.empty()) {
    const bool own = (frames.front().id & kOwn) != 0;
    std::size_t n = 1;
    while (n < frames.size() && ((frames[n].id & kOwn) != 0) == own) ++n;
    if (own) {
      for (const Frame& frame : frames.first(n)) free_.push_back(frame.id & ~kOwn);
    } else {
      wire_->release(frames.first(n));
    }
    frames = frames.subspan(n);
  }
}

PortCounters LoopbackPort::counters() {
  PortCounters out = wire_->counters();
  out.tx_dropped_busy += dropped_;
  return out;
}

}  // namespace viaduct
