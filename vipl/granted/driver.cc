#include "vipl/granted/driver.h"
#include "kagent/stack/tables.h"

#include <new>

#include "vipl/granted/guarded_copy.h"
#include "vipl/process/cancellable.h"
#include "vipl/process/idle.h"
#include "vipl/process/sys.h"
#include "vipl/session/debug_log.h"
#include "vipl/session/hello.h"

namespace viaduct::vipl {
namespace {

constexpr std::uint32_t kIdleRounds = 32;  // looks without the clock between those with it
constexpr std::uint64_t kFinishNs = 5'000'000;  // for peers to answer; the agent goes on after that

}  // namespace

// ---------------------------------------------------------------------------- making

Driver* Driver::make(Hello& hello, const layout::View& desk, Pollers& pollers) {
  const control::HelloAnswer& answer = hello.answer;
  const StackLimits limits = granted_limits(answer);
  void* const room = sys::map(sizeof(Driver), -1);
  Driver* const driver = room == nullptr ? nullptr : new (room) Driver();
  if (driver == nullptr) {
    sys::close(hello.port);
    sys::close(hello.umem);
    explain("no memory for a driver");
    return nullptr;
  }
  const char* const failed = driver->port_.open(hello.port, hello.umem, answer.port);
  const int error = errno;
  const bool can_sleep = driver->watch_.open();
  const bool fits = home_bytes(limits, Tables::footprint(limits)) == answer.home_bytes &&
                    sys::seek_end(hello.home) == static_cast<long>(answer.home_bytes);
  if (failed == nullptr && fits) driver->home_ = sys::map(answer.home_bytes, hello.home);
  driver->home_bytes_ = answer.home_bytes;
  if (failed != nullptr || driver->home_ == nullptr || !can_sleep) {
    explain("the granted port can't be used: %s (error %d)",
            failed != nullptr ? failed : "its home is not what was announced", error);
    destroy(driver, true);
    return nullptr;
  }
  guarded::prepare();
  driver->environment_.attach(desk, hello.bell, driver->watch_.program, pollers,
                               driver->company_);
  driver->spin_ns_ = spin_time(answer.busy_poll_us);
  auto* const home = static_cast<std::byte*>(driver->home_);
  StackAddresses addresses{};
  static_assert(sizeof addresses.host == sizeof answer.host);
  for (std::size_t i = 0; i < sizeof answer.host; ++i) {
    addresses.host[i] = answer.host[i];
    addresses.desk[i] = answer.desk[i];
  }
  driver->stack_ = new (driver->stack_room_)
      GrantedStack(home + home_stack_offset(limits), limits, answer.port.ether_type, driver->port_,
            driver->environment_, addresses, now_ns());
  driver->stack_->open_session(home);
  driver->segment_ = layout::View(home, driver->stack_->capacity());
  if (!driver->start_stand_in()) {
    explain("cannot start the thread that stands in for the program");
    destroy(driver, true);
    return nullptr;
  }
  return driver;
}

void Driver::destroy(Driver* driver, bool abandoned) {
  if (!abandoned) driver->stop_stand_in();
  if (driver->stack_ != nullptr && !abandoned) driver->stack_->~BasicStack();
  if (driver->home_ != nullptr) sys::unmap(driver->home_, driver->home_bytes_);
  driver->watch_.close();
  driver->company_.descriptors([](int fd) {
    if (fd >= 0) sys::close(fd);
  });
  driver->~Driver();
  sys::unmap(driver, sizeof(Driver));
}

void Driver::halt() {
  dismiss_stand_in();
  while (!lock_.try_take()) sys::yield();
  halted_ = true;
  lock_.release();
  segment_.header().closed.store(1);
}

void Driver::finish() {
  if (silent_) return;
  stop_stand_in();
  while (!lock_.try_take()) sys::yield();
  const std::uint64_t until = now_ns() + kFinishNs;
  stack_->close_session(0, now_ns());
  // Who is told answers at once, unless the network or the peer is slow.
  for (std::uint64_t now = now_ns(); now < until; now = now_ns()) {
    stack_->progress(now);
    if (stack_->usage().goodbyes == 0) break;
    sys::yield();
  }
  // Locked for ever: nobody may touch the port's rings any more.
}

// ---------------------------------------------------------------------------- turns

bool Driver::lock() {
  while (!lock_.try_take()) {
    if (stand_in_.stopping()) return false;
    sys::yield();
  }
  return true;
}

unsigned Driver::round(Cause cause) {
  if (halted_) [[unlikely]] return 0;
  if (!port_.has_frames()) {
    if (cause == Cause::kLook && habit_.holds_on()) return 0;
    if (!more() && ++idle_ < kIdleRounds) return 0;
  }
  idle_ = 0;
  now_ = now_ns();
  if (cause == Cause::kLook) habit_.looks(now_);
  if (cause == Cause::kStandIn) habit_.is_away();
  const unsigned work = stack_->progress(now_);
  // Whoever sleeps on the port may have to wake earlier than it thought.
  if (watch_.anyone_sleeps()) watch_.wake_for(stack_->next_deadline());
  return work;
}

bool Driver::turn() {
  turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return serve(Cause::kLook);
}

bool Driver::serve(Cause cause) {
  unsigned work = 0;
  for (bool again = true; again;) {
    if (!lock_.try_take()) break;
    work += round(cause);
    again = lock_.release();
  }
  return work != 0;
}

void Driver::posted(std::uint32_t vi) {
  const std::uint32_t bell = layout::vi_bit(vi);
  turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (!lock_.try_take()) {
    segment_.header().doorbells.ring(bell);
    serve(Cause::kPost);
    return;
  }
  if (habit_.posts(now_) && stack_->awaits_acknowledgement(vi)) {
    habit_.waits();
    segment_.header().doorbells.ring(bell);
    if (lock_.release()) serve(Cause::kPost);
    return;
  }
  habit_.sent();
  stack_->rung(0, bell);
  idle_ = kIdleRounds;
  round(Cause::kPost);
  if (lock_.release()) serve(Cause::kPost);
}

template <class Work>
VIP_RETURN Driver::between_rounds(Work&& work) {
  if (!lock()) return VIP_ERROR_RESOURCE;
  const auto result = static_cast<VIP_RETURN>(work());
  if (lock_.release()) serve(Cause::kPost);
  return result;
}

void Driver::go_on(const MacAddress& desk) {
  stack_->set_desk(desk);
  if (lock_.release()) serve(Cause::kPost);
}

VIP_RETURN Driver::divert(std::uint32_t vi, std::uint32_t generation, const layout::Segment& to) {
  return between_rounds([&] { return stack_->divert(vi, generation, to); });
}

VIP_RETURN Driver::undivert(std::uint32_t vi, std::uint32_t generation) {
  return between_rounds([&] { return stack_->undivert(vi, generation); });
}

std::uint32_t Driver::join(std::uint32_t parent, std::uint32_t forks) {
  if (!lock()) return 0;
  const std::uint32_t program = stack_->join(0, parent, forks).value_or(0);
  if (lock_.release()) serve(Cause::kPost);
  return program;
}

void Driver::leave(std::uint32_t program) {
  if (!lock()) return;  // it all ends
  if (!halted_) stack_->leave(program, now_ns());
  if (lock_.release()) serve(Cause::kPost);
}

// ---------------------------------------------------------------------------- keeping watch

// Calls asleep(), unless unless() is true once it is known to others that somebody is about to
// sleep. False if that was said by asleep().
template <class Unless, class Asleep>
bool Driver::sleep_on_port(PortWatch::Sleeper& watch, std::uint64_t until, Unless&& unless, Asleep&& asleep) {
  if (!lock()) {
    // The session is about to be lost; whoever does that needs the processor.
    sys::yield();
    return true;
  }
  const std::uint64_t due = stack_->next_deadline();
  if (due < until) until = due;
  watch.asleep_until.store(until);
  idle_ = kIdleRounds;  // what the next look is for may be a timer
  if (company_.any()) {
    // Whoever of them rings from now on wakes us. It stays so when we have woken up: the other one of
    // us may be asleep.
    segment_.header().driver_sleeps.store(1);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  const bool wanted = lock_.release();
  if (!wanted && !more() && !unless()) {
    if (!asleep(port_.descriptor(), watch.poke, until)) return false;
  }
  watch.asleep_until.store(0);
  std::uint64_t pokes;
  sys::read(watch.poke, &pokes, sizeof pokes);
  return true;
}

bool Driver::sleep_alone(int port, int poke, std::uint64_t until, bool cancellable) {
  pollfd fds[2] = {{port, POLLIN, 0}, {poke, POLLIN, 0}};
  const std::uint64_t timeout = time_until(until);
  const Cancellable here(cancellable);
  sys::poll_ns(fds, 2, timeout);
  return true;
}

void Driver::sleep_as_stand_in() {
  const std::uint32_t self = stand_in_.id();
  sleep_on_port(
      watch_.stand_in, kNever,
      [&] { return stand_in_.stopping() || watch_.holder.load() != self; },
      [&](int port, int poke, std::uint64_t until) {
        return sleep_alone(port, poke, until, false);
      });
}

bool Driver::watch(const std::atomic<std::uint32_t>& sleepers, std::uint32_t asleep,
                   std::uint64_t until, bool cancellable) {
  const auto self = static_cast<std::uint32_t>(sys::thread());
  if (!watch_.take(self, stand_in_.id())) return false;
  sleep_on_port(
      watch_.program, until, [&] { return sleepers.load() != asleep; },
      [&](int port, int poke, std::uint64_t due) {
        return sleep_alone(port, poke, due, cancellable);
      });
  watch_.leave(self);
  stand_in_.end_long_rest();
  return true;
}

Driver::Watched Driver::watch(const Sleep& sleep, std::uint64_t until) {
  const auto self = static_cast<std::uint32_t>(sys::thread());
  if (!watch_.take(self, stand_in_.id())) return Watched::kByAnother;
  const bool here = sleep_on_port(
      watch_.program, until, [&] { return sleep.woken(sleep.self); },
      [&](int port, int poke, std::uint64_t due) {
        return sleep.sleep(sleep.self, port, poke, due);
      });
  if (!here) return Watched::kForked;
  watch_.leave(self);
  stand_in_.end_long_rest();
  return Watched::kYes;
}

}  // namespace viaduct::vipl
