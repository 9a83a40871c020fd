#include "vipl/session/session.h"

#include "vipl/process/sys.h"

namespace viaduct::vipl {

std::atomic<std::uint32_t>& Notification::sleepers(const Session& session) const {
  if (object.is(Kind::kCq)) return session.view.cq(object.index()).sleepers;
  layout::Vi& vi = session.view.vi(object.index());
  return receive ? vi.receive.sleepers : vi.send.sleepers;
}

void Session::wake_driver(const layout::View& at) {
  // Of several threads that ring, one makes the system call.
  if (at.header().driver_sleeps.exchange(0) == 0) return;
  const std::uint64_t one = 1;
  if (at.base() == control_session.base()) {
    sys::write(agent_wake, &one, sizeof one);
  } else {
    for (const int driver_wake : driver_wakes) sys::write(driver_wake, &one, sizeof one);
  }
}

void Session::wake(std::atomic<std::uint32_t>& sleepers) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t who = layout::take_waiting(sleepers);
  if ((who & layout::kSleeper) != 0) sys::futex_wake(sleepers);
  if ((who & layout::kSleeper) != 0 && driver != nullptr) driver->wake_port_watcher();
  if ((who & layout::kCallbackThread) != 0) alert();
  if ((who & layout::kPoller) != 0) pollers.wake();
}

void Session::alert() {
  std::atomic<std::uint32_t>& word = view.alert(member);
  if (word.exchange(1) == 0) sys::futex_wake(word);
}

}  // namespace viaduct::vipl
