#include "sovia/background/dear_lanes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <compare>
#include <map>
#include <optional>

#include "sovia/background/background_state.h"
#include "sovia/background/lane_family.h"
#include "sovia/background/lane_price.h"
#include "sovia/lane/engine.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/socket/lane_life.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::background::dear_lanes {
namespace {

constexpr std::size_t kMostPeers = 1024;
constexpr std::uint64_t kNewNs = 1'000 * kMs;  // for which a lane is new

// The end of a connection that all of one service have in common: the port that a process listens at, with the address.
struct Peer {
  Role role;
  FlowEnd at;

  auto operator<=>(const Peer&) const = default;
};

struct Known {
  LanePrice price{lane_family::family()};
  std::uint64_t left_until = 0;  // until when this process's connections use the kernel; 0: they use lanes
  std::uint64_t look_at = kNever;  // a lane is new, and what it costs is to be known soon
  std::map<Peer, std::uint64_t> peers;  // that have left dear lanes, each with the time until when that counts
};
// Never destroyed: the thread runs until the process is gone.
Known* g_known = nullptr;

Known& known() {
  if (g_known == nullptr) g_known = new Known;
  return *g_known;
}

Peer peer_of(const LaneEndpoint& end) { return {end.role, end.peer}; }

bool has_left(const Peer& peer, std::uint64_t now) {
  const auto found = known().peers.find(peer);
  return found != known().peers.end() && now < found->second;
}

bool concerns(const LaneEndpoint& end) {
  return options().route == kRouteAuto && !end.socket->closed() && !end.socket->modes.carries_messages();
}

void leave(LaneEndpoint& end, std::uint64_t ns) {
  end.not_wanted = end.stage == LaneEndpoint::Stage::kAsking;
  if (end.stage == LaneEndpoint::Stage::kOpen) leave_slower_lane(*end.socket, end, static_cast<std::uint32_t>(ns / kMs));
}

// For how long any thread of this host has waited for a processor, in ns, since the host began.
std::optional<std::uint64_t> waited_for_processors() {
  const KeepErrno keep;
  const long opened = syscall(SYS_openat, AT_FDCWD, "/proc/pressure/cpu", O_RDONLY | O_CLOEXEC);
  if (opened < 0) return {};
  const int fd = own_descriptors::adopt(static_cast<int>(opened));
  char text[256];
  const ssize_t bytes = libc::read(fd, text, sizeof text - 1);
  own_descriptors::close(fd);
  text[std::max<ssize_t>(bytes, 0)] = '\0';
  constexpr char kTotal[] = "total=";
  const char* const total = strstr(text, kTotal);  // the first one: "some"
  if (total == nullptr) return {};
  return strtoull(total + sizeof kTotal - 1, nullptr, 10) * 1000;
}

void look_at_price(bool asks, std::uint64_t now) {
  const LanePrice::Counts counts{.packets = counters::value(Counter::kDataReceived),
                                 .sleeps = counters::value(Counter::kSleeps),
                                 .lanes = state().ends.size(),
                                 .by_agent = engine::nic() != nullptr && !engine::nic()->has_own_stack(),
                                 .asks = asks};
  known().price.look(counts, now, waited_for_processors);
}

}  // namespace

Reason judge(const Task& task) {
  if (options().route != kRouteAuto || task.socket->modes.carries_messages()) return Reason::kNone;
  const std::uint64_t now = now_ns();
  const std::size_t lanes = state().ends.size();
  if (lanes == 0 || lanes >= LanePrice::kCrowd) look_at_price(true, now);
  return known().price.is_dear(now) || has_left({task.role, task.peer}, now) ? Reason::kSlower : Reason::kNone;
}

void opened(std::uint64_t now) { lane_family::family().lane_opened(now); }

void look_at_open(LaneEndpoint& end, std::uint64_t now) {
  if (known().price.is_dear(now) && concerns(end)) leave(end, known().price.until() - now);
}

// Other lanes with that peer stay: another of its processes may serve more connections with one wake-up.
void peer_left(const LaneEndpoint& end, std::uint32_t again_ms) {
  const std::uint64_t now = now_ns(), ns = std::min(again_ms * kMs, LanePrice::kMostNs);
  if (known().peers.size() == kMostPeers || has_left(peer_of(end), now)) return;
  lane_family::family().peer_left(now, ns);
  known().peers[peer_of(end)] = now + ns;
}

bool any() { return known().price.is_dear(now_ns()) || !known().peers.empty(); }

bool has(const LaneEndpoint& end) {
  const std::uint64_t now = now_ns();
  return known().price.is_dear(now) || has_left(peer_of(end), now);
}

void look() {
  const std::uint64_t now = now_ns();
  const bool ends = known().left_until != 0 && now >= known().left_until;
  if (ends) known().left_until = 0;
  if (std::erase_if(known().peers, [now](const auto& peer) { return now >= peer.second; }) != 0 || ends) LaneDemand::all_may_ask();
  known().look_at = kNever;
  if (state().ends.empty() || options().route != kRouteAuto) return;
  const auto is_new = [now](const LaneEndpoint* end) { return now - end->asked_at < kNewNs; };
  if (std::any_of(state().ends.begin(), state().ends.end(), is_new)) known().look_at = now + LanePrice::kWindowNs;
  look_at_price(false, now);
  if (!known().price.is_dear(now) || known().left_until != 0) return;
  SOVIA_LOG("lanes are dearer than the kernel here");
  known().left_until = known().price.until();
  for (LaneEndpoint* const end : state().ends) {
    if (concerns(*end)) leave(*end, known().price.until() - now);
  }
}

std::uint64_t due() {
  std::uint64_t due = known().left_until != 0 ? known().left_until : kNever;
  for (const auto& [peer, until] : known().peers) due = std::min(due, until);
  return std::min(due, known().look_at);
}

// The parent's thread may have been changing the map, so it is left as it is.
void after_fork_in_child() { g_known = nullptr; }

}  // namespace viaduct::sovia::background::dear_lanes
