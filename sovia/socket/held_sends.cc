#include "sovia/socket/held_sends.h"

#include <vipl/vipl_ext.h>

#include "sovia/lane/engine.h"
#include "sovia/process/clock.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/signals.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/socket.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::held_sends {
namespace {

constexpr std::uint32_t kSure = 32;        // times in a row, then it is a habit
constexpr std::uint64_t kSoonNs = 20'000;  // from the last send to the wait

// Linked by next_held, in the order in which they were sent to.
LaneEndpoint* g_first VIADUCT_GUARDED_BY(g_lock) = nullptr;
LaneEndpoint* g_last VIADUCT_GUARDED_BY(g_lock) = nullptr;

// Takes a lane off the list; no socket: the list is empty. The lane may have been freed when the caller looks at it,
// the socket not.
SocketRef take(LaneEndpoint*& end) {
  const LockGuard guard(g_lock);
  end = g_first;
  if (end == nullptr) return {};
  g_first = end->next_held;
  end->is_held = false;
  g_held.fetch_sub(1, std::memory_order_relaxed);
  return end->socket->reference();
}

// While it lives, what is posted waits, and leaves the process by one system call.
class NicHold {
 public:
  explicit NicHold(ProcessNic* nic) : nic_(nic != nullptr && nic->has_own_stack() ? nic : nullptr) {
    if (nic_ != nullptr) VipxHoldPosts(nic_->handle(), VIP_TRUE);
  }
  ~NicHold() {
    if (nic_ != nullptr) VipxHoldPosts(nic_->handle(), VIP_FALSE);
  }
  NicHold(const NicHold&) = delete;
  NicHold& operator=(const NicHold&) = delete;

 private:
  ProcessNic* const nic_;
};

}  // namespace

constinit Lock g_lock;
std::atomic<std::uint32_t> g_held{0};
constinit thread_local __attribute__((tls_model("initial-exec"))) Habit t_habit;

bool may_hold() {
  Habit& habit = t_habit;
  const std::uint64_t now = now_ns();
  habit.sent_at = now;
  ++habit.sends;
  if (habit.sure < kSure || options().combine == 0 || options().combine_timer != 0) return false;
  if (habit.held_from == 0) habit.held_from = now;
  if (now - habit.held_from < kMostNs) return true;
  habit.held_from = 0;
  return false;
}

void waits_after_sends() {
  Habit& habit = t_habit;
  const std::uint64_t passed = now_ns() - habit.sent_at;
  if (passed > kSoonNs) {
    habit.sure /= 2;
  } else if (habit.sends > 1 && habit.sure < kSure) {  // a send alone has nothing to share a packet with
    ++habit.sure;
  }
  habit.sent_at = habit.held_from = 0;
  habit.sends = 0;
}

void add(LaneEndpoint& end) {
  const LockGuard guard(g_lock);
  if (end.is_held) return;
  end.is_held = true;
  end.next_held = nullptr;
  (g_first == nullptr ? g_first : g_last->next_held) = &end;
  g_last = &end;
  g_held.fetch_add(1, std::memory_order_relaxed);
}

void forget(LaneEndpoint& end) {
  const LockGuard guard(g_lock);
  if (!end.is_held) return;
  LaneEndpoint** at = &g_first;
  LaneEndpoint* before = nullptr;
  for (; *at != &end; at = &before->next_held) before = *at;
  *at = end.next_held;
  if (g_last == &end) g_last = before;
  end.is_held = false;
  g_held.fetch_sub(1, std::memory_order_relaxed);
}

void flush_all(const Socket* sender) {
  const signals::Inside inside;
  const KeepErrno keep;
  const NicHold hold(g_held.load(std::memory_order_relaxed) > 1 ? engine::nic() : nullptr);
  LaneEndpoint* end;
  while (const SocketRef socket = take(end)) {
    if (socket.get() == sender) continue;
    const TxGuard guard(*socket);
    if (socket->link.end != end) continue;
    const LockGuard lane_guard(end->lane.lock());
    end->push_held();
  }
}

void flush_own(const Socket* sender) {
  if (t_habit.held_from != 0) flush_all(sender);
}

// Held over fork.
void before_fork() VIADUCT_NO_THREAD_SAFETY_ANALYSIS { g_lock.lock(); }
void after_fork_in_parent() VIADUCT_NO_THREAD_SAFETY_ANALYSIS { g_lock.unlock(); }

void after_fork_in_child() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  g_lock.unlock();
  g_first = nullptr;
  g_held.store(0);
  t_habit = {};
}

}  // namespace viaduct::sovia::held_sends
