// Timers with numbers instead of objects: a hashed wheel whose links live in the stack's segment.
//
// A timer is armed for a time in nanoseconds and fires once, up to one tick late. Arming an armed
// timer moves it. All operations are O(1) but advance(), which looks at the slots that have passed.
#ifndef VIADUCT_KAGENT_STACK_TIMER_WHEEL_H
#define VIADUCT_KAGENT_STACK_TIMER_WHEEL_H

#include <cstdint>

namespace viaduct {

class TimerWheel {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::uint64_t kNever = ~0ull;
  static constexpr std::uint32_t kSlots = 1024;

  // There is one entry for each timer, in the segment. Zero is one that is not armed: a new stack touches none.
  struct Entry {
    std::uint64_t deadline;
    std::uint32_t next;
    std::uint32_t previous;
    std::uint32_t place;  // 1 + the slot; 0: not armed
  };

  // The wheel itself, in the segment.
  struct State {
    std::uint64_t tick;  // every slot before this one has been looked at
    std::uint64_t occupied[kSlots / 64];
    std::uint32_t heads[kSlots];
  };

  void attach(State* state, Entry* entries) { state_ = state, entries_ = entries; }
  // The entries must be zero.
  void reset(std::uint64_t now);

  void arm(std::uint32_t timer, std::uint64_t deadline);
  void disarm(std::uint32_t timer);
  bool armed(std::uint32_t timer) const { return entries_[timer].place != 0; }
  std::uint64_t deadline(std::uint32_t timer) const { return entries_[timer].deadline; }

  // Calls fire(timer) for each timer whose time has come; it may arm and disarm timers.
  template <class Fire>
  void advance(std::uint64_t now, Fire&& fire);

  // No timer fires before this time; kNever when none is armed. May be earlier than the earliest.
  std::uint64_t next() const;

 private:
  static constexpr std::uint64_t kTickBits = 16;  // 65.5 us

  State* state_ = nullptr;
  Entry* entries_ = nullptr;
};

inline void TimerWheel::reset(std::uint64_t now) {
  state_->tick = now >> kTickBits;
  for (auto& word : state_->occupied) word = 0;
  for (auto& head : state_->heads) head = kNone;
}

inline void TimerWheel::arm(std::uint32_t timer, std::uint64_t deadline) {
  disarm(timer);
  Entry& entry = entries_[timer];
  std::uint64_t tick = deadline >> kTickBits;
  if (tick < state_->tick) tick = state_->tick;
  const auto slot = static_cast<std::uint32_t>(tick % kSlots);
  entry = {deadline, state_->heads[slot], kNone, 1 + slot};
  if (entry.next != kNone) entries_[entry.next].previous = timer;
  state_->heads[slot] = timer;
  state_->occupied[slot / 64] |= 1ull << (slot % 64);
}

inline void TimerWheel::disarm(std::uint32_t timer) {
  Entry& entry = entries_[timer];
  if (entry.place == 0) return;
  if (entry.next != kNone) entries_[entry.next].previous = entry.previous;
  if (entry.previous != kNone) {
    entries_[entry.previous].next = entry.next;
  } else {
    const std::uint32_t slot = entry.place - 1;
    state_->heads[slot] = entry.next;
    if (entry.next == kNone) state_->occupied[slot / 64] &= ~(1ull << (slot % 64));
  }
  entry.place = 0;
}

template <class Fire>
void TimerWheel::advance(std::uint64_t now, Fire&& fire) {
  const std::uint64_t last = now >> kTickBits;
  if (last < state_->tick) return;
  // The slot of `last` stays open: some of its timers may still be ahead.
  std::uint64_t tick = state_->tick;
  if (last - tick >= kSlots) tick = last - kSlots + 1;
  while (tick <= last) {
    const auto slot = static_cast<std::uint32_t>(tick % kSlots);
    const std::uint64_t word = state_->occupied[slot / 64] >> (slot % 64);
    if ((word & 1) == 0) {
      tick += word == 0 ? 64 - slot % 64 : static_cast<std::uint64_t>(__builtin_ctzll(word));
      continue;
    }
    state_->tick = tick++;
    // A timer that fires may change the list, so look from the head again after each.
    for (bool fired = true; fired;) {
      fired = false;
      for (std::uint32_t t = state_->heads[slot]; t != kNone; t = entries_[t].next) {
        if (entries_[t].deadline > now) continue;
        disarm(t);
        fire(t);
        fired = true;
        break;
      }
    }
  }
  state_->tick = last;
}

inline std::uint64_t TimerWheel::next() const {
  const std::uint64_t from = state_->tick;
  for (std::uint64_t tick = from; tick < from + kSlots;) {
    const auto slot = static_cast<std::uint32_t>(tick % kSlots);
    const std::uint64_t word = state_->occupied[slot / 64] >> (slot % 64);
    if (word == 0) {
      tick += 64 - slot % 64;
      continue;
    }
    tick += static_cast<std::uint64_t>(__builtin_ctzll(word));
    // An earlier deadline cannot hide in a later slot, but a later one can in this slot.
    std::uint64_t earliest = kNever;
    for (std::uint32_t t = state_->heads[tick % kSlots]; t != kNone; t = entries_[t].next) {
      if (entries_[t].deadline < earliest) earliest = entries_[t].deadline;
    }
    const std::uint64_t end = (tick + 1) << kTickBits;
    return earliest < end ? earliest : end;
  }
  return kNever;
}

}  // namespace viaduct

#endif
