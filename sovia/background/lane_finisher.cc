#include "sovia/background/lane_finisher.h"

#include <algorithm>
#include <mutex>
#include <new>

#include "sovia/background/background_state.h"
#include "sovia/lane/engine.h"
#include "sovia/process/clock.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::background {
namespace {

constexpr VIP_ULONG kSleepMs = 5;

// The owner of the packets of a lane that is given up.
class NoOwner final : public LaneOwner {
 public:
  void arrived(const ProcessNic::Arrival&) override {}
  void transport_failed() override {}
};
constinit NoOwner g_no_owner;

struct Progress {
  bool begun = false;
  std::uint64_t moved_at = 0;
  std::size_t unsent = 0;
};
constinit Progress g_progress;

// Has the lane send all that it was given, also what it holds back. False: there is nothing to send, or a thread was
// killed while it changed the lane, which is given up.
// The lock of such a lane stays with that thread.
bool begin(LaneEndpoint& end, const ReceiveOwner* at_hand) VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  Lane& lane = end.lane;
  if (&end.vi.receives == at_hand || !lane.lock().try_lock()) {
    // Where the VI ends with the NIC, the peer learns that something is missing. A disconnect would say that all has come.
    end.vi.receives.told = &g_no_owner;
    lane.ring.hold(true);
    return false;
  }
  const LockGuard guard(std::adopt_lock, lane.lock());
  if (end.stage != LaneEndpoint::Stage::kOpen || lane.control.broken() || lane.control.is_finished()) return false;
  if (lane.rx.unread() != 0) {
    // TCP resets the connection of a process that is killed before all was read. The peer does so for data that is missing.
    lane.ring.hold(true);
    return false;
  }
  lane.tx.cork(false);
  lane.rx.refuse_data();
  lane.rx.close_reading();
  lane.finish(true);
  lane.tx.push();
  return true;
}

void begin_all() {
  // A lane would wait for ever for a packet that was being handed to it.
  const ReceiveOwner* const at_hand = engine::take_over();
  new (&requests().lock) Mutex;  // a killed thread may have held it
  std::vector<LaneEndpoint*>& ends = state().ends;
  std::erase_if(ends, [&](LaneEndpoint* end) { return !begin(*end, at_hand); });
  g_progress.begun = true;
  g_progress.moved_at = now_ns();
}

// Whether the peer has all, or can't be reached.
bool is_done(LaneEndpoint& end, std::size_t& unsent) {
  const LockGuard guard(end.lane.lock());
  end.lane.poll();
  if (end.lane.rx.has_refused()) end.vi.disconnect();
  unsent += end.lane.ring.unsent();
  return end.lane.control.broken() || end.lane.control.is_finished();
}

}  // namespace

int finish_lanes(void*) {
  if (!g_progress.begun) begin_all();
  ProcessNic* const nic = engine::nic();
  if (nic == nullptr) return 0;
  engine::turn();
  std::size_t unsent = 0;
  std::vector<LaneEndpoint*>& ends = state().ends;
  std::erase_if(ends, [&](LaneEndpoint* end) { return is_done(*end, unsent); });
  if (ends.empty()) return 0;
  const std::uint64_t now = now_ns();
  if (unsent != g_progress.unsent) g_progress.moved_at = now;
  g_progress.unsent = unsent;
  if (now - g_progress.moved_at > kLingerNs) return 0;
  VIP_VI_HANDLE vi;
  VIP_BOOLEAN receive;
  if (VipCQWait(nic->cq(), kSleepMs, &vi, &receive) == VIP_SUCCESS) engine::take_in(vi);
  return 1;
}

}  // namespace viaduct::sovia::background
