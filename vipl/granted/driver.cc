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
constexpr std::uint64_t kFinishNs = 5'000'000;  // how long peers may take to answer; the agent tells them after that

// Ends the connections of the session and tells the peers.
void tell_peers(GrantedStack& stack) {
  const std::uint64_t until = now_ns() + kFinishNs;
  stack.close_session(0, now_ns());
  // Peers answer at once, unless the network or the peer is slow.
  for (std::uint64_t now = now_ns(); now < until; now = now_ns()) {
    stack.progress(now);
    if (stack.usage().goodbyes == 0) break;
    sys::yield();
  }
}

}  // namespace

// ---------------------------------------------------------------------------- making

Driver* Driver::make(Hello& hello, const layout::View& control_session, Pollers& pollers) {
  const control::HelloAnswer& answer = hello.answer;
  const StackLimits limits = granted_limits(answer);
  void* const room = sys::map(sizeof(Driver), -1);
  Driver* const driver = room == nullptr ? nullptr : new (room) Driver();
  if (driver == nullptr) {
    sys::close(hello.port);
    sys::close(hello.umem);
    if (hello.trains >= 0) sys::close(hello.trains);
    if (hello.train_guard >= 0) sys::close(hello.train_guard);
    explain("no memory for a driver");
    return nullptr;
  }
  const char* const failed = driver->port_.open(hello.port, hello.umem, answer.port);
  const int error = errno;
  // The port works without trains too.
  const char* no_trains = nullptr;
  if (hello.trains >= 0) {
    int pipe[2] = {-1, -1};
    sys::pipe(pipe);
    no_trains = driver->port_.open_trains(hello.trains, hello.train_guard, pipe, answer.trains, wire::kTrainTypes);
  }
  if (no_trains != nullptr) explain("no trains: %s (error %d)", no_trains, errno);
  const bool can_sleep = driver->watch_.open();
  const bool fits = granted_segment_bytes(limits, Tables::footprint(limits)) == answer.granted_segment_bytes &&
                    sys::seek_end(hello.granted_segment) == static_cast<long>(answer.granted_segment_bytes);
  if (failed == nullptr && fits) driver->granted_segment_.at = sys::map(answer.granted_segment_bytes, hello.granted_segment);
  driver->granted_segment_.bytes = answer.granted_segment_bytes;
  if (failed != nullptr || driver->granted_segment_.at == nullptr || !can_sleep) {
    explain("the granted port can't be used: %s (error %d)",
            failed != nullptr ? failed : "its granted segment is not what was announced", error);
    destroy(driver, true);
    return nullptr;
  }
  guarded::prepare();
  driver->environment_.attach(control_session, hello.agent_wake, driver->watch_.program, pollers,
                               driver->attached_);
  driver->spin_ns_ = spin_time(answer.busy_poll_us);
  auto* const granted_segment = static_cast<std::byte*>(driver->granted_segment_.at);
  StackAddresses addresses{};
  static_assert(sizeof addresses.host == sizeof answer.host);
  for (std::size_t i = 0; i < sizeof answer.host; ++i) {
    addresses.host[i] = answer.host[i];
    addresses.control_session[i] = answer.control_session[i];
  }
  driver->stack_ = new (driver->stack_room_)
      GrantedStack(granted_segment + granted_stack_offset(limits), limits, answer.port.ether_type, driver->port_,
            driver->environment_, addresses, now_ns());
  driver->stack_->open_session(granted_segment);
  driver->segment_ = layout::View(granted_segment, driver->stack_->capacity());
  if (!driver->start_progress_thread()) {
    explain("cannot start the thread that stands in for the program");
    destroy(driver, true);
    return nullptr;
  }
  return driver;
}

void Driver::destroy(Driver* driver, bool abandoned) {
  if (!abandoned) driver->stop_progress_thread();
  if (driver->stack_ != nullptr && !abandoned) driver->stack_->~BasicStack();
  if (driver->granted_segment_.at != nullptr) sys::unmap(driver->granted_segment_.at, driver->granted_segment_.bytes);
  driver->watch_.close();
  driver->attached_.descriptors([](int fd) {
    if (fd >= 0) sys::close(fd);
  });
  driver->~Driver();
  sys::unmap(driver, sizeof(Driver));
}

void Driver::halt() {
  dismiss_progress_thread();
  while (!lock_.try_take()) sys::yield();
  halted_ = true;
  lock_.release();
  segment_.header().closed.store(1);
}

void Driver::lose(bool port_is_left) {
  silent_ = true;
  if (!port_is_left) return;
  while (!lock_.try_take()) sys::yield();
  tell_peers(*stack_);
  lock_.release();
}

// The lock stays locked for ever: no thread may touch the port's rings any more.
void Driver::finish() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  if (silent_) return;
  stop_progress_thread();
  while (!lock_.try_take()) sys::yield();
  tell_peers(*stack_);
}

// ---------------------------------------------------------------------------- turns

bool Driver::hold() {
  while (!lock_.try_take()) {
    if (progress_thread_.stopping()) return false;
    sys::yield();
  }
  return true;
}

// The lock may be held by a thread that was killed.
bool Driver::outlive() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  if (!lock_.try_take() && !stack_->may_go_on()) return false;
  lock_.release();
  return true;
}

unsigned Driver::round(Cause cause) {
  if (halted_) [[unlikely]] return 0;
  if (!port_.has_frames()) {
    if (cause == Cause::kLook && post_batching_.holds_on()) return 0;
    if (!more() && ++rounds_.idle < kIdleRounds) return 0;
  }
  rounds_.idle = 0;
  rounds_.now = now_ns();
  if (cause == Cause::kLook) post_batching_.looks(rounds_.now);
  if (cause == Cause::kProgressThread) post_batching_.is_away();
  const unsigned work = stack_->progress(rounds_.now);
  // A thread that sleeps on the port may have to wake earlier than it thought.
  if (watch_.anyone_sleeps()) watch_.wake_for(port_.prepare_to_sleep() ? stack_->next_deadline() : 0);
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
  const std::uint32_t agent_wake = layout::vi_bit(vi);
  turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (holders_.load(std::memory_order_relaxed) != 0) {
    segment_.header().doorbells.ring(agent_wake);
    // The last holder may have gone before it could see the doorbell.
    if (holders_.load() == 0) serve(Cause::kPost);
    return;
  }
  if (!lock_.try_take()) {
    segment_.header().doorbells.ring(agent_wake);
    serve(Cause::kPost);
    return;
  }
  if (post_batching_.posts(rounds_.now) && stack_->awaits_acknowledgement(vi)) {
    post_batching_.waits();
    segment_.header().doorbells.ring(agent_wake);
    if (lock_.release()) serve(Cause::kPost);
    return;
  }
  post_batching_.sent();
  stack_->rung(0, agent_wake);
  rounds_.idle = kIdleRounds;
  round(Cause::kPost);
  if (lock_.release()) serve(Cause::kPost);
}

void Driver::hold_posts(bool hold) {
  if (hold) {
    holders_.fetch_add(1);
  } else if (holders_.fetch_sub(1) == 1 && more()) {
    serve(Cause::kPost);
  }
}

template <class Work>
VIP_RETURN Driver::between_rounds(Work&& work) {
  if (!hold()) return VIP_ERROR_RESOURCE;
  const auto result = static_cast<VIP_RETURN>(work());
  if (lock_.release()) serve(Cause::kPost);
  return result;
}

void Driver::go_on(const MacAddress* control_session) {
  if (control_session != nullptr) stack_->set_control_session(*control_session);
  if (lock_.release()) serve(Cause::kPost);
}

VIP_RETURN Driver::redirect(std::uint32_t vi, std::uint32_t generation, const layout::Segment& to) {
  return between_rounds([&] { return stack_->redirect(vi, generation, to); });
}

VIP_RETURN Driver::unredirect(std::uint32_t vi, std::uint32_t generation) {
  return between_rounds([&] { return stack_->unredirect(vi, generation); });
}

void Driver::add_local(const MacAddress& peer, std::uint64_t program, int file, unsigned end) {
  if (!hold()) {
    sys::close(file);
    return;
  }
  wire::Header header{};
  header.type = wire::Type::kWake;
  WholeFrame wake;
  static_assert(wire::kEthernetBytes + wire::kHeaderBytes + wire::kChecksumBytes <= sizeof wake &&
                wire::kMinFrameBytes == sizeof wake);
  wire::encode(header, peer, port_.address(), stack_->ether_type(), wake.data());
  const char* const failed = port_.add_local(peer, program, file, end, wake);
  if (failed != nullptr) explain("no local path to another program of this host: %s", failed);
  if (lock_.release()) serve(Cause::kPost);
}

void Driver::end_local(const MacAddress& peer) {
  if (!hold()) return;
  port_.end_local(peer);
  if (lock_.release()) serve(Cause::kPost);
}

std::uint32_t Driver::join(std::uint32_t parent, std::uint32_t forks) {
  if (!hold()) return 0;
  const std::uint32_t program = stack_->join(0, parent, forks).value_or(0);
  if (lock_.release()) serve(Cause::kPost);
  return program;
}

void Driver::leave(std::uint32_t program) {
  if (!hold()) return;  // the session ends
  if (!halted_) stack_->leave(program, now_ns());
  if (lock_.release()) serve(Cause::kPost);
}

// ---------------------------------------------------------------------------- keeping watch

// Calls asleep() after other threads can see that this one is about to sleep, but not if unless() is true then. False
// if asleep() returned false.
template <class Unless, class Asleep>
bool Driver::sleep_on_port(PortWatch::Sleeper& watch, std::uint64_t until, Unless&& unless, Asleep&& asleep) {
  if (!hold()) {
    // The session is about to be lost; the thread that does that needs the processor.
    sys::yield();
    return true;
  }
  const std::uint64_t due = stack_->next_deadline();
  if (due < until) until = due;
  watch.asleep_until.store(until);
  rounds_.idle = kIdleRounds;  // the next round must look at the clock: a timer may be due
  if (attached_.any()) {
    // Attached processes that ring from now on wake this thread. The word stays set when the thread has woken up: the
    // other watcher may be asleep.
    segment_.header().driver_sleeps.store(1);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  const bool quiet = port_.prepare_to_sleep();
  const bool wanted = lock_.release();
  PortWatch::News news = {
      {port_.descriptor(), POLLIN, 0}, {port_.train_descriptor(), POLLIN, 0}, {watch.driver_wake, POLLIN, 0}, {-1, 0, 0}};
  if (!wanted && quiet && !more() && !unless()) {
    if (&watch == &watch_.program) {
      until = watch_.timer.prepare(now_ns(), until);
      news[PortWatch::kTimer] = {watch_.timer.descriptor(), POLLIN, 0};
    }
    if (!asleep(news, until)) return false;
  }
  watch.asleep_until.store(0);
  if (news[PortWatch::kTrains].revents != 0) port_.trains_came();
  // A driver wake that comes too late to be seen here ends the next sleep.
  if (news[PortWatch::kDriverWake].revents != 0) {
    std::uint64_t driver_wakes;
    sys::read(watch.driver_wake, &driver_wakes, sizeof driver_wakes);
  }
  return true;
}

bool Driver::sleep_alone(PortWatch::News& news, std::uint64_t until, bool cancellable) {
  const std::uint64_t timeout = time_until(until);
  const Cancellable here(cancellable);
  sys::poll_ns(news, PortWatch::kNews, timeout);
  return true;
}

void Driver::sleep_as_progress_thread() {
  const std::uint32_t self = progress_thread_.id();
  sleep_on_port(
      watch_.progress_thread, kNever,
      [&] { return progress_thread_.stopping() || watch_.holder.load() != self; },
      [&](PortWatch::News& news, std::uint64_t until) { return sleep_alone(news, until, false); });
}

bool Driver::watch(const std::atomic<std::uint32_t>& sleepers, std::uint32_t asleep,
                   std::uint64_t until, bool cancellable) {
  const auto self = static_cast<std::uint32_t>(sys::thread());
  if (!watch_.take(self, progress_thread_.id())) return false;
  sleep_on_port(
      watch_.program, until, [&] { return sleepers.load() != asleep; },
      [&](PortWatch::News& news, std::uint64_t due) { return sleep_alone(news, due, cancellable); });
  watch_.leave(self);
  progress_thread_.end_long_rest();
  return true;
}

Driver::Watched Driver::watch(const Sleep& sleep, std::uint64_t until) {
  const auto self = static_cast<std::uint32_t>(sys::thread());
  if (!watch_.take(self, progress_thread_.id())) return Watched::kByAnother;
  const bool here = sleep_on_port(
      watch_.program, until, [&] { return sleep.woken(sleep.self); },
      [&](PortWatch::News& news, std::uint64_t due) { return sleep.sleep(sleep.self, news, due); });
  if (!here) return Watched::kForked;
  watch_.leave(self);
  progress_thread_.end_long_rest();
  return Watched::kYes;
}

}  // namespace viaduct::vipl
