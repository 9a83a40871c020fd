#include "vipl/process/idle.h"

#include "vipl/process/environment.h"
#include "vipl/process/sys.h"

namespace viaduct::vipl {
namespace {

constexpr std::uint32_t kLooksPerClock = 64;  // looks between readings of the clock
// Looks between yields where processors are few but the thread waits for nothing but its own doing.
constexpr std::uint32_t kYieldSeldom = 128;
// How long such a thread spins when others want the processor: about what waking it up costs.
constexpr std::uint64_t kBriefNs = 10'000;

bool g_few_processors = true;

}  // namespace

std::uint64_t now_ns() { return sys::monotonic_ns(); }

void nap() {
  std::atomic<std::uint32_t> nobody{0};
  constexpr std::uint64_t kNapNs = 1'000'000;
  sys::futex_wait(nobody, 0, now_ns() + kNapNs);
}

std::uint64_t deadline_after(std::uint64_t now, std::uint64_t timeout_ms) {
  return timeout_ms >= 0xffffffff ? kNever : now + timeout_ms * 1'000'000u;
}

void look_at_processors() { g_few_processors = idle::are_processors_few(); }

std::uint64_t spin_time(std::uint32_t recommended_us) {
  const std::uint64_t us = environment::spin_us(recommended_us);
  constexpr std::uint64_t kMostUs = 10'000'000;
  return (us < kMostUs ? us : kMostUs) * 1000;
}

bool pause(Crowd& crowd, std::uint32_t looks, bool others) {
  const bool yields = others ? idle::gives_way(g_few_processors, looks, idle::kLooksOfProgram)
                             : g_few_processors && looks % kYieldSeldom == 0;
  if (yields) {
    const std::uint64_t before = now_ns();
    sys::yield();
    crowd.note(before, now_ns());
    return others;
  }
  if (others) relax();
  return false;
}

bool spin(Crowd& crowd, std::uint32_t looks, bool others) {
  // A thread that yields only once stands behind another one with a full time slice, so it sleeps instead.
  if (crowd.is_here(now_ns())) return false;
  pause(crowd, looks, others);
  return true;
}

Spinner::Spinner(Crowd& crowd, std::uint64_t start, std::uint64_t until, bool others)
    : crowd_(crowd), until_(until), last_(start), others_(others), crowded_(crowd.is_here(start)) {
  if (!crowded_) return;
  const std::uint64_t brief = others ? start : start + kBriefNs;
  if (brief < until_) until_ = brief;
}

bool Spinner::again() {
  ++looks_;
  const bool yields =
      !crowded_ && (others_ ? idle::gives_way(g_few_processors, looks_, idle::kLooksOfProgram)
                            : g_few_processors && looks_ % kYieldSeldom == 0);
  if (yields || looks_ % kLooksPerClock == 0 || crowded_) {
    std::uint64_t now = now_ns();
    crowd_.note(last_, now);  // a long wait may be noted without a yield, too
    if (now >= until_) return false;
    if (yields) {
      sys::yield();
      last_ = now;
      now = now_ns();
      crowd_.note(last_, now);
      // The thread looks once more, then it sleeps.
      if (!crowded_ && crowd_.is_here(now)) crowded_ = true, until_ = now;
    }
    last_ = now;
    if (yields) return true;
  }
  if (others_) relax();
  return true;
}

}  // namespace viaduct::vipl
