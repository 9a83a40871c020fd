// The library's thread that gives a granted stack its turns while the program gives it none.
#include "vipl/granted/driver.h"
#include "vipl/process/idle.h"
#include "vipl/process/sys.h"

namespace viaduct::vipl {
namespace {

constexpr std::uint64_t kLeaseNs = 1'000'000;      // the program is away when it has given no turn for so long
constexpr std::uint64_t kLongestLeaseNs = 4'000'000;  // the longest such time, for a program that has come by regularly
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
  while (!progress_thread_.stopping()) {
    const std::uint32_t before = turns_.load(std::memory_order_relaxed);
    const std::uint32_t watcher = watch_.holder.load();
    const bool kept = watcher != 0 && sys::thread_lives(static_cast<int>(watcher));
    watched = kept ? watched + 1 : 0;
    // Rests long only while a thread still keeps watch: that thread may have left before it could see the rest.
    const bool long_rest = kept && watched > kRestAfter;
    progress_thread_.rest(long_rest ? kRestNs : lease, long_rest, [&] { return watch_.holder.load() != 0; });
    if (turns_.load(std::memory_order_relaxed) != before) {
      if (lease < kLongestLeaseNs) lease *= 2;
    } else if (!kept || watch_.holder.load() != watcher) {
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
