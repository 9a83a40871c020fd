#include "tests/lab/fault_line.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "xdp/clock.h"

namespace viaduct::lab {
namespace {

constexpr std::uint32_t kBatch = 64;
constexpr std::uint32_t kEthernetHeader = 14;
constexpr std::uint64_t kCableOverhead = 24;  // preamble, check sequence and gap
constexpr std::uint64_t kLongestAsideNs = kNsPerMs;
constexpr std::uint64_t kMostHeldBytes = 256 << 20;
constexpr std::size_t kMostSpare = 1024;

}  // namespace

bool FaultLine::step(std::uint64_t now) {
  bool busy = false;
  while (!queue_.empty() && queue_.front().due <= now && batch_.size() < kBatch) {
    in_batch_.push_back(std::move(queue_.front().frame));
    queue_.pop_front();
    held_bytes_ -= in_batch_.back().size();
    put_out(in_batch_.back());
    busy = true;
  }
  release_overtaken(now, false);
  std::uint32_t taken = 0;
  while (taken < kBatch) {
    const std::span<std::byte> frame = in_.next();
    if (frame.empty()) break;
    ++taken;
    receive(frame, now);
  }
  flush();
  in_.release(taken);
  return busy || taken > 0;
}

std::uint64_t FaultLine::next_due() const {
  const std::uint64_t queued = queue_.empty() ? UINT64_MAX : queue_.front().due;
  const std::uint64_t aside = aside_.empty() ? UINT64_MAX : aside_.front().due;
  return std::min(queued, aside);
}

void FaultLine::receive(std::span<std::byte> frame, std::uint64_t now) {
  ++received_;
  const Fate fate =
      lab::fate(faults, direction_, number_++, static_cast<std::uint32_t>(frame.size()));
  if (fate.lost) {
    ++lost_;
    return;
  }
  if (fate.corrupted) {
    frame[kEthernetHeader + fate.flip_bit / 8] ^= std::byte(1u << fate.flip_bit % 8);
    ++corrupted_;
  }
  if (fate.overtaken_by > 0 && held_bytes_ < kMostHeldBytes) {
    ++reordered_;
    held_bytes_ += frame.size();
    aside_.push_back({now + kLongestAsideNs, fate.overtaken_by, copy(frame)});
  } else {
    go_on(frame, now);
    release_overtaken(now, true);
  }
  if (fate.duplicated) {
    ++duplicated_;
    go_on(frame, now);
  }
}

// `overtaken`: by one frame more. The oldest come first, and of these some stay.
void FaultLine::release_overtaken(std::uint64_t now, bool overtaken) {
  if (aside_.empty()) return;
  std::vector<Copy> released;
  for (Held& held : aside_) {
    if (overtaken) --held.overtakers;
    if (held.overtakers > 0 && held.due > now) continue;
    held.overtakers = 0;
    released.push_back(std::move(held.frame));
  }
  if (released.empty()) return;
  std::erase_if(aside_, [](const Held& held) { return held.overtakers == 0; });
  for (Copy& frame : released) {
    held_bytes_ -= frame.size();
    in_batch_.push_back(std::move(frame));
    go_on(in_batch_.back(), now);
  }
}

void FaultLine::go_on(std::span<std::byte> frame, std::uint64_t now) {
  if (faults.delay_ns == 0 && faults.rate == 0 && queue_.empty()) {
    put_out(frame);
    return;
  }
  std::uint64_t due = now;
  if (faults.rate > 0) {
    const double ns_per_byte = 8e9 / faults.rate;
    const std::uint64_t begin = std::max(now, cable_free_at_);
    if (static_cast<double>(begin - now) > static_cast<double>(faults.queue_bytes) * ns_per_byte) {
      ++overflowed_;
      return;
    }
    due = cable_free_at_ =
        begin + static_cast<std::uint64_t>(static_cast<double>(frame.size() + kCableOverhead) *
                                           ns_per_byte);
  }
  if (held_bytes_ >= kMostHeldBytes) {
    ++overflowed_;
    return;
  }
  due += faults.delay_ns;
  // A change of the settings reorders nothing.
  if (!queue_.empty()) due = std::max(due, queue_.back().due);
  held_bytes_ += frame.size();
  queue_.push_back({due, 0, copy(frame)});
}

void FaultLine::put_out(std::span<std::byte> frame) {
  batch_.push_back({frame.data(), frame.size()});
}

FaultLine::Copy FaultLine::copy(std::span<std::byte> frame) {
  Copy result;
  if (!spare_.empty()) {
    result = std::move(spare_.back());
    spare_.pop_back();
  }
  result.assign(frame.begin(), frame.end());
  return result;
}

void FaultLine::recycle(Copy frame) {
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(frame));
}

void FaultLine::flush() {
  if (!batch_.empty()) {
    const std::uint32_t unsent = out_.send(batch_);
    unsent_ += unsent;
    forwarded_ += batch_.size() - unsent;
    batch_.clear();
  }
  for (Copy& frame : in_batch_) recycle(std::move(frame));
  in_batch_.clear();
}

std::string FaultLine::counters() {
  char line[320];
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::snprintf(
      line, sizeof line,
      "received %llu forwarded %llu lost %llu reordered %llu duplicated %llu corrupted %llu "
      "overflowed %llu unsent %llu missed %llu",
      number(received_), number(forwarded_), number(lost_), number(reordered_), number(duplicated_),
      number(corrupted_), number(overflowed_), number(unsent_), number(in_.missed()));
  return line;
}

}  // namespace viaduct::lab
