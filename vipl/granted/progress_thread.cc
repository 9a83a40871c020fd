// The library's thread that gives a granted stack its turns while the program gives it none.
#include "vipl/granted/driver.h"
#include "vipl/process/idle.h"
#include "vipl/process/sys.h"

namespace viaduct::vipl {
namespace {

constexpr std::uint64_t kLeaseNs = 1'000'000;      // the program is away when it has given no turn for so long
constexpr std::uint64_t kLongestLeaseNs = 4'000'000;  // the longest such time, for a program that has come by regularly
// When this thread itself waits for a processor, so does the program, of which each turn then comes later.
constexpr std::uint64_t kLateNs = 500'000;
constexpr std::uint64_t kLongestCrowdedLeaseNs = 16'000'000;
constexpr unsigned kCrowdedLeases = 1;             // such leases in a row without a turn; then the program is away
constexpr std::uint64_t kRestNs = 100'000'000;     // this thread's rest while one of the program keeps watch
constexpr unsigned kRestAfter = 16;                // leases in a row in which one kept watch; then this thread rests

}  // namespace

bool Driver::start_progress_thread() {
  return progress_thread_.start(
      "vipl-progress", [](void* driver) { static_cast<Driver*>(driver)->progress_thread(); }, this);
}

void Driver::dismiss_progress_thread() {
  progress_thread_.dismiss();
  PortWatch::wake_driver(watch_.progress_thread);
}

void Driver::stop_progress_thread() {
  dismiss_progress_thread();
  progress_thread_.stop();
}

void Driver::progress_thread() {
  std::uint64_t lease = kLeaseNs;
  unsigned watched = 0;  // leases in a row in which a thread of the program kept watch
  unsigned crowded_leases = 0;
  while (!progress_thread_.stopping()) {
    const std::uint32_t before = turns_.load(std::memory_order_relaxed);
    const std::uint32_t watcher = watch_.holder.load();
    const bool kept = watcher != 0 && sys::thread_lives(static_cast<int>(watcher));
    watched = kept ? watched + 1 : 0;
    // Rests long only while a thread still keeps watch: that thread may have left before it could see the rest.
    const bool long_rest = kept && watched > kRestAfter;
    const std::uint64_t rest = long_rest ? kRestNs : lease;
    const std::uint64_t end = now_ns() + rest;
    progress_thread_.rest(rest, long_rest, [&] { return watch_.holder.load() != 0; });
    const bool crowded = now_ns() > end + kLateNs;
    if (turns_.load(std::memory_order_relaxed) != before) {
      const std::uint64_t longest = crowded ? kLongestCrowdedLeaseNs : kLongestLeaseNs;
      lease = lease < longest ? lease * 2 : longest;
      crowded_leases = 0;
    } else if (crowded && ++crowded_leases <= kCrowdedLeases) {
      continue;
    } else if (!kept || watch_.holder.load() != watcher) {
      crowded_leases = 0;
      lease = kLeaseNs;
      keep_watch(before);
    }
  }
}

// Keeps watch until a thread of the program has had a turn since `before`, or wants to watch itself.
void Driver::keep_watch(std::uint32_t before) {
  const std::uint32_t self = progress_thread_.id();
  std::uint32_t nobody = watch_.holder.load();
  if (nobody != 0 && sys::thread_lives(static_cast<int>(nobody))) return;
  if (!watch_.holder.compare_exchange_strong(nobody, self)) return;
  std::uint64_t busy_since = 0, busy_until = 0;
  bool slept = false;
  std::uint32_t looks = 0;
  while (!progress_thread_.stopping() && watch_.holder.load() == self &&
         turns_.load(std::memory_order_relaxed) == before) {
    if (serve(Cause::kProgressThread)) {
      const std::uint64_t now = now_ns();
      if (slept && busy_since != 0) progress_spin_time_.slept(now - busy_since, spin_ns_, SpinTime::kPrograms);
      slept = false;
      busy_since = now;
      busy_until = now + progress_spin_time_.ns(spin_ns_);
      looks = 0;
    } else if (const std::uint64_t now = now_ns(); now < busy_until && !progress_crowd_.is_here(now)) {
      pause(progress_crowd_, ++looks, true);
    } else {
      sleep_as_progress_thread();
      slept = true;
    }
  }
  watch_.leave(self);
}

}  // namespace viaduct::vipl
