#include "sovia/background/rest.h"

#include <algorithm>

#include "sovia/background/background_state.h"
#include "sovia/background/dear_lanes.h"
#include "sovia/datagram/datagram_control.h"
#include "sovia/lane/engine.h"
#include "sovia/process/clock.h"
#include "sovia/process/options.h"
#include "sovia/socket/table.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::background {
namespace {

constexpr std::uint64_t kQuietNs = 300 * kMs;       // without anything to do, doubled each time
constexpr unsigned kMostDoublings = 20;
constexpr std::uint64_t kUsefulNs = 60'000 * kMs;   // after a lane that was worth its cost

std::uint64_t g_quiet_since = kNever;  // kNever: there is something to do, or the NIC may be of use
unsigned g_rests = 0;

// Each rest leaves a little memory behind (background.cc), and a NIC that is wanted again costs its opening.
std::uint64_t quiet_ns() { return kQuietNs << std::min(g_rests, kMostDoublings); }

bool has_work() {
  if (!state().ends.empty() || !state().falling.empty() || !datagram::is_idle() || datagram::has_work()) return true;
  const LockGuard guard(requests().lock);
  return !requests().tasks.empty() || !requests().fallen.empty() || requests().queue != nullptr;
}

// Whether peers were asked for lanes, and none has ever answered.
bool peers_are_silent() {
  const auto& peers = state().no_peer;
  return !peers.empty() && std::all_of(peers.begin(), peers.end(),
                                       [](const auto& peer) { return peer.second.answered_at == 0; });
}

bool is_useful(std::uint64_t now) {
  if (options().udp != 0) return true;
  if (state().useful_at != 0 && now - state().useful_at < kUsefulNs) return true;
  return engine::nic() != nullptr && !dear_lanes::any() && !peers_are_silent();
}

}  // namespace

bool may_rest(std::uint64_t now) {
  if (has_work() || is_useful(now)) {
    g_quiet_since = kNever;
    return false;
  }
  if (g_quiet_since == kNever) g_quiet_since = now;
  return now - g_quiet_since >= quiet_ns();
}

std::uint64_t rest_due() { return g_quiet_since == kNever ? kNever : g_quiet_since + quiet_ns(); }

void prepare_rest() {
  g_quiet_since = kNever;
  ++g_rests;
  table::for_each([](int, Socket& socket) { socket.demand.shorten_bypass(); });
}

}  // namespace viaduct::sovia::background
