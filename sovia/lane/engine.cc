#include "sovia/lane/engine.h"

#include <vipl/vipl_ext.h>

#include <mutex>
#include <new>

#include "sovia/process/counters.h"
#include "sovia/process/options.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

constexpr unsigned kMostAtOnce = 64;  // arrivals of one turn

std::atomic<ProcessNic*> g_nic{nullptr};
std::atomic<std::uint32_t> g_turns{0};
std::atomic<int> g_lanes{0};
std::atomic<ProcessNic*> g_lost{nullptr};
std::atomic<ProcessNic*> g_left{nullptr};  // to the finisher
std::atomic<ReceiveOwner*> g_at_hand{nullptr};  // whose arrival a thread is handing over
// The looks in vain since a turn of this thread last found an arrival.
constinit thread_local __attribute__((tls_model("initial-exec"))) std::uint32_t t_looks_in_vain = 0;
constinit thread_local __attribute__((tls_model("initial-exec"))) bool t_found_turn_taken = false;

void hand_over(const ProcessNic::Arrival& arrival) VIADUCT_REQUIRES(engine::g_turn) {
  g_at_hand.store(arrival.owner, std::memory_order_relaxed);
  arrival.owner->told->arrived(arrival);
  g_at_hand.store(nullptr, std::memory_order_relaxed);
}

}  // namespace

bool progress() {
  // Column M of the paper's table 4: which thread processes arrivals.
  return options().handling == Handling::kSingle && engine::turn();
}

namespace engine {

constinit Lock g_turn;

ProcessNic* nic() { return g_nic.load(std::memory_order_acquire); }
void set_nic(ProcessNic* nic) { g_nic.store(nic, std::memory_order_release); }

bool has_lanes() { return g_lanes.load(std::memory_order_acquire) != 0; }
void count_lanes(int more) { g_lanes.fetch_add(more); }

bool turn() {
  ProcessNic* const nic = engine::nic();
  if (nic == nullptr) return false;
  g_turns.store(g_turns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (!g_turn.try_lock()) {
    t_found_turn_taken = true;
    return false;
  }
  t_found_turn_taken = false;
  const LockGuard guard(std::adopt_lock, g_turn);
  bool any = false;
  ProcessNic::Arrival arrival;
  for (unsigned n = 0; n < kMostAtOnce && nic->next(arrival); ++n) {
    any = true;
    hand_over(arrival);
  }
  if (any) t_looks_in_vain = 0;
  return any;
}

bool found_turn_taken() { return t_found_turn_taken; }

void after_look_in_vain() {
  ProcessNic* const nic = engine::nic();
  if (nic == nullptr || nic->has_own_stack()) return;
  counters::add(Counter::kGaveWay);
  VipxSpin(nic->cq(), ++t_looks_in_vain);
}

void take_in(VIP_VI_HANDLE vi) {
  const LockGuard guard(g_turn);
  ProcessNic::Arrival arrival;
  if (ProcessNic::take(vi, arrival)) hand_over(arrival);
}

std::uint32_t turns() { return g_turns.load(std::memory_order_relaxed); }

void take_all_in() {
  ProcessNic* const nic = engine::nic();
  if (nic == nullptr) return;
  const LockGuard guard(g_turn);
  ProcessNic::Arrival arrival;
  while (nic->next(arrival)) hand_over(arrival);
}

void lost(ProcessNic& nic) {
  const LockGuard guard(g_turn);
  ProcessNic::Arrival arrival;
  while (nic.next(arrival)) hand_over(arrival);
  ProcessNic* expected = &nic;
  if (g_nic.compare_exchange_strong(expected, nullptr)) g_lost.store(&nic);
}

ProcessNic* take_lost() { return g_lost.exchange(nullptr); }

void pause() { g_turn.lock(); }
bool try_pause() { return g_turn.try_lock(); }
void go_on() { g_turn.unlock(); }

void leave() {
  const LockGuard guard(g_turn);
  g_left.store(g_nic.exchange(nullptr));
}

const ReceiveOwner* take_over() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  if (ProcessNic* const left = g_left.exchange(nullptr); left != nullptr) g_nic.store(left);
  new (&g_turn) Lock;
  return g_at_hand.load();
}

void after_fork_in_child() {
  g_nic.store(nullptr);
  g_lanes.store(0);
  g_lost.store(nullptr);
  g_left.store(nullptr);
  go_on();
}

}  // namespace engine
}  // namespace viaduct::sovia
