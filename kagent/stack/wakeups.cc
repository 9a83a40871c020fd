#include "kagent/stack/wakeups.h"

#include <cstring>

namespace viaduct {

// A completion is stored first and the sleepers' word is looked at later, with one fence for the
// whole round in between; a program does the same two steps the other way round.
template <class Platform>
void Wakeups<Platform>::wake_later(std::uint32_t program, std::atomic<std::uint32_t>& sleepers) {
  if (wake_count_ != 0 && wakes_[wake_count_ - 1].word == &sleepers) return;
  if (wake_count_ == kMaxWakes) flush_wakes();
  wakes_[wake_count_++] = {&sleepers, program};
}

template <class Platform>
void Wakeups<Platform>::flush_wakes() {
  if (wake_count_ == 0) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Wake& wake : std::span(wakes_, wake_count_)) {
    const std::uint32_t who = layout::take_waiting(*wake.word);
    if (who & layout::kSleeper) environment_.wake(*wake.word);
    if (who & layout::kCallbackThread) alert(wake.program);
    if (who & layout::kPoller) environment_.poll_wake(wake.program);
  }
  wake_count_ = 0;
}

// Wakes the program's thread that calls handlers.
template <class Platform>
void Wakeups<Platform>::alert(std::uint32_t program) {
  const state::Program& alerted = programs_[program];
  std::atomic<std::uint32_t>& word = views_[alerted.session].alert(alerted.member);
  if (word.exchange(1) == 0) environment_.wake(word);
}

}  // namespace viaduct
