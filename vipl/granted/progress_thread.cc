// The library's thread that gives a granted stack its turns while the program gives it none.
#include "vipl/granted/driver.h"
#include "vipl/process/idle.h"
#include "vipl/process/sys.h"

namespace viaduct::vipl {
namespace {

constexpr std::uint64_t kLeaseNs = 1'000'000;      // without a turn, then the program is away
constexpr std::uint64_t kLongestLeaseNs = 4'000'000;  // for one that has come by regularly
constexpr std::uint64_t kRestNs = 100'000'000;     // while a thread of the program keeps watch
constexpr unsigned kRestAfter = 16;                // leases in which one did

}  // namespace

bool Driver::start_stand_in() {
  return stand_in_.start(
      "vipl-stand-in", [](void* driver) { static_cast<Driver*>(driver)->stand_in(); }, this);
}

void Driver::dismiss_stand_in() {
  stand_in_.dismiss();
  PortWatch::poke(watch_.stand_in);
}

void Driver::stop_stand_in() {
  dismiss_stand_in();
  stand_in_.stop();
}

void Driver::stand_in() {
  std::uint64_t lease = kLeaseNs;
  unsigned watched = 0;  // leases in a row in which a thread of the program kept watch
  while (!stand_in_.stopping()) {
    const std::uint32_t before = turns_.load(std::memory_order_relaxed);
    const std::uint32_t watcher = watch_.holder.load();
    const bool kept = watcher != 0 && sys::thread_lives(static_cast<int>(watcher));
    watched = kept ? watched + 1 : 0;
    // For long only while somebody still keeps watch: it may have left before it could see the rest.
    const bool long_rest = kept && watched > kRestAfter;
    stand_in_.rest(long_rest ? kRestNs : lease, long_rest, [&] { return watch_.holder.load() != 0; });
    if (turns_.load(std::memory_order_relaxed) != before) {
      if (lease < kLongestLeaseNs) lease *= 2;
    } else if (!kept || watch_.holder.load() != watcher) {
      lease = kLeaseNs;
      keep_watch(before);
    }
  }
}

// Until a thread of the program has had a turn since `before`, or wants to watch itself.
void Driver::keep_watch(std::uint32_t before) {
  const std::uint32_t self = stand_in_.id();
  std::uint32_t nobody = watch_.holder.load();
  if (nobody != 0 && sys::thread_lives(static_cast<int>(nobody))) return;
  if (!watch_.holder.compare_exchange_strong(nobody, self)) return;
  std::uint64_t busy_until = 0;
  std::uint32_t looks = 0;
  while (!stand_in_.stopping() && watch_.holder.load() == self &&
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
  watch_.leave(self);
}

}  // namespace viaduct::vipl
