// The library's thread that gives a granted stack its turns while the program gives it none.
#include "vipl/granted/driver.h"
#include "vipl/process/idle.h"
#include "vipl/process/sys.h"
#include "vipl/process/thread.h"

namespace viaduct::vipl {
namespace {

constexpr std::uint64_t kLeaseNs = 1'000'000;      // without a turn, then the program is away
constexpr std::uint64_t kLongestLeaseNs = 4'000'000;  // for one that has come by regularly
constexpr std::uint64_t kRestNs = 100'000'000;     // while a thread of the program keeps watch
constexpr unsigned kRestAfter = 16;                // leases in which one did

}  // namespace

bool Driver::start_stand_in() { return make_thread(run_stand_in, this, kStandInStack); }

void* Driver::run_stand_in(void* driver) {
  sys::name_thread("vipl-stand-in");
  auto& self = *static_cast<Driver*>(driver);
  self.stand_in_.store(static_cast<std::uint32_t>(sys::thread()));
  self.stand_in();
  self.gone_.store(1);
  sys::futex_wake(self.gone_);
  return nullptr;
}

void Driver::dismiss_stand_in() {
  stopping_.store(true);
  rest_.store(1);
  sys::futex_wake(rest_);
  poke(stand_in_watch_);
}

void Driver::stop_stand_in() {
  dismiss_stand_in();
  while (gone_.load() == 0) sys::futex_wait(gone_, 0, ~0ull);
}

void Driver::stand_in() {
  std::uint64_t lease = kLeaseNs;
  unsigned watched = 0;  // leases in a row in which a thread of the program kept watch
  while (!stopping_.load()) {
    const std::uint32_t before = turns_.load(std::memory_order_relaxed);
    const std::uint32_t watcher = watcher_.load();
    const bool kept = watcher != 0 && sys::thread_lives(static_cast<int>(watcher));
    watched = kept ? watched + 1 : 0;
    rest(kept && watched > kRestAfter ? kRestNs : lease);
    if (turns_.load(std::memory_order_relaxed) != before) {
      if (lease < kLongestLeaseNs) lease *= 2;
    } else if (!kept || watcher_.load() != watcher) {
      lease = kLeaseNs;
      keep_watch(before);
    }
  }
}

// For so long, unless it is woken.
void Driver::rest(std::uint64_t ns) {
  rest_.store(0);
  resting_.store(ns == kRestNs);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // The one who kept watch may have left before it could see that we rest.
  if (!stopping_.load() && (ns != kRestNs || watcher_.load() != 0)) {
    sys::futex_wait(rest_, 0, now_ns() + ns);
  }
  resting_.store(false);
}

// Until a thread of the program has had a turn since `before`, or wants to watch itself.
void Driver::keep_watch(std::uint32_t before) {
  const std::uint32_t self = stand_in_.load();
  std::uint32_t nobody = watcher_.load();
  if (nobody != 0 && sys::thread_lives(static_cast<int>(nobody))) return;
  if (!watcher_.compare_exchange_strong(nobody, self)) return;
  std::uint64_t busy_until = 0;
  std::uint32_t looks = 0;
  while (!stopping_.load() && watcher_.load() == self &&
         turns_.load(std::memory_order_relaxed) == before) {
    if (serve(Cause::kStandIn)) {
      busy_until = now_ns() + spin_ns_;
      looks = 0;
    } else if (const std::uint64_t now = now_ns(); now < busy_until && !stand_in_crowd_.is_here(now)) {
      pause(stand_in_crowd_, ++looks, true);
    } else {
      sleep_as_stand_in();
    }
  }
  leave_watch(self);
}

}  // namespace viaduct::vipl
