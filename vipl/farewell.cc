#include "vipl/farewell.h"

#include <atomic>

#include "vipl/idle.h"
#include "vipl/session.h"
#include "vipl/sys.h"
#include "vipl/wait.h"
#include "vipl/work_queue.h"

namespace viaduct::vipl::farewell {
namespace {

constexpr std::uint64_t kPatienceMs = 500;
constexpr std::uint64_t kNsPerMs = 1'000'000;

std::atomic<int> g_process;  // that opened a session
std::atomic<bool> g_begun;

// Other threads may still post, take back, disconnect and destroy: whoever changes something here
// only changes for how long we wait.
bool has_gone_out(Session& session, std::uint32_t vi) {
  const layout::Vi& shared = session.view.vi(vi);
  if (shared.send.owner.load(std::memory_order_relaxed) != session.member) return true;
  const std::uint32_t generation = shared.send.generation.load(std::memory_order_acquire);
  if (generation == 0 || shared.status.state.load() != VIP_STATE_CONNECTED) return true;
  const Handle handle(Kind::kVi, session.nic_part(), indexed_object(vi, generation));
  return session.over() || WorkQueue(session, handle, WorkQueue::Side::kSend).all_completed();
}

void wait_for(Session& session, std::uint64_t deadline) {
  for (std::uint32_t vi = 0; vi < session.capacity.vis && !session.over(); ++vi) {
    if (has_gone_out(session, vi)) continue;
    const std::uint64_t now = now_ns();
    if (now >= deadline) return;
    session.wait(
        session.view.vi(vi).send.sleepers, (deadline - now) / kNsPerMs + 1,
        [&] { return has_gone_out(session, vi); }, false);
  }
}

// A destructor rather than atexit(): it runs after all functions of the program that do, which may
// still post or close.
__attribute__((destructor)) void say() {
  if (g_process.load() != sys::process()) return;
  g_begun.store(true);
  const std::uint64_t deadline = now_ns() + kPatienceMs * kNsPerMs;
  for (std::uint32_t number = 0; number < kMaxSessions; ++number) {
    const std::uint32_t key = registry::at(number).key.load();
    if (key == 0) continue;
    const Visit visit(Handle(Kind::kNic, key & ~Session::kOpen, 0).pointer(), Kind::kNic);
    if (visit) wait_for(visit.session(), deadline);
  }
}

}  // namespace

void prepare() { g_process.store(sys::process()); }

bool begun() { return g_begun.load(std::memory_order_relaxed); }

}  // namespace viaduct::vipl::farewell
