#include "sovia/background/route_trials.h"

#include <algorithm>
#include <compare>
#include <map>
#include <utility>

#include "sovia/background/background_state.h"
#include "sovia/background/remembered_routes.h"
#include "sovia/background/route_choice.h"
#include "sovia/lane/engine.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/options.h"
#include "sovia/socket/lane_life.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::background {
namespace {

constexpr std::size_t kMostServices = 1024;

// Connections of one service have it in common: the port that this process listens at, or the peer's address and port.
struct Service {
  Role role;
  bool local;
  FlowEnd at;

  auto operator<=>(const Service&) const = default;
};

struct Trials {
  std::map<Service, RouteChoice> services;
  // The services of which a peer has said that the kernel is faster, each with the peer's address, and until when that
  // counts. One peer's word is no reason to leave the lanes of others.
  std::map<Service, std::uint64_t> slower_peers;
};
// Never destroyed: the thread runs until the process is gone.
Trials* g_trials = nullptr;

Trials& trials() {
  if (g_trials == nullptr) g_trials = new Trials;
  return *g_trials;
}
std::map<Service, RouteChoice>& services() { return trials().services; }

Service with_peer(const Flow& flow, Role role, const FlowEnd& peer) { return {role, is_loopback(flow), peer}; }
Service with_peer(const Task& task) { return with_peer(task.flow, task.role, task.peer); }
Service with_peer(const LaneEndpoint& end) { return with_peer(end.tcp, end.role, end.peer); }

Service service_of(Service service) {
  if (service.role == Role::kAccepted) std::fill(std::begin(service.at.address), std::end(service.at.address), 0);
  return service;
}
Service service_of(const Task& task) { return service_of(with_peer(task)); }
Service service_of(const LaneEndpoint& end) { return service_of(with_peer(end)); }

std::uint64_t number_of(const Service& service) {
  return remembered::service_number(service.role, service.local, service.at);
}

// Makes room for one more service. False: all are in use.
bool has_room() {
  if (services().size() < kMostServices) return true;
  std::erase_if(services(), [](const auto& each) { return each.second.stage() == RouteChoice::Stage::kUnknown; });
  return services().size() < kMostServices;
}

bool is_slower_peer(const Service& peer, std::uint64_t now) {
  const auto found = trials().slower_peers.find(peer);
  return found != trials().slower_peers.end() && now < found->second;
}

// Made of the calling end's port, which differs between connections of a service.
std::uint32_t mark_of(const Task& task) {
  const bool calls = std::equal(std::begin(task.peer.port), std::end(task.peer.port), std::begin(task.flow.remote.port));
  const FlowEnd& caller = calls ? task.flow.local : task.flow.remote;
  const std::uint32_t port = static_cast<std::uint32_t>(caller.port[0]) << 8 | caller.port[1];
  return port * 0x9e3779b1u >> 16;
}

template <class Visit>
void for_each_end(const Service& service, Visit&& visit) {
  for (LaneEndpoint* const end : state().ends) {
    if (!end->socket->closed() && service_of(*end) == service) visit(*end);
  }
}

RouteChoice::View view_of(const Service& service) {
  RouteChoice::View view;
  for (const Counter each : {Counter::kBytesSentLane, Counter::kBytesReceivedLane, Counter::kBytesSentKernel,
                             Counter::kBytesReceivedKernel}) {
    view.bytes += counters::value(each);
  }
  for_each_end(service, [&](const LaneEndpoint& end) {
    ++(end.stage == LaneEndpoint::Stage::kOpen ? view.open : view.opening);
  });
  view.by_agent = engine::nic() != nullptr && !engine::nic()->has_own_stack();
  const LockGuard guard(requests().lock);
  for (const Task& task : requests().tasks) view.opening += task.socket && service_of(task) == service;
  for (const Task& task : requests().awaiting) view.opening += service_of(task) == service;
  return view;
}

// Whether another connection of the service has a lane, or asks for one.
bool has_others(const Service& service) {
  bool others = false;
  for_each_end(service, [&](const LaneEndpoint&) { others = true; });
  if (others) return true;
  const LockGuard guard(requests().lock);
  for (const Task& each : requests().tasks) others |= each.socket && service_of(each) == service;
  return others;
}

std::uint32_t again_ms(const RouteChoice& choice, std::uint64_t now) {
  const std::uint64_t until = choice.kernel_until();
  return static_cast<std::uint32_t>(until > now ? (until - now) / kMs : 0);
}

// Ends the service's lanes, and refuses those that are asked for.
void stay_with_kernel(const Service& service, const RouteChoice& choice, std::uint64_t now) {
  for_each_end(service, [&](LaneEndpoint& end) {
    if (end.stage == LaneEndpoint::Stage::kOpen) leave_slower_lane(*end.socket, end, again_ms(choice, now));
    end.not_wanted = end.stage == LaneEndpoint::Stage::kAsking;
  });
}

// Whether the peer leaves the lane itself.
bool hears_leave(LaneEndpoint& end) {
  const LockGuard guard(end.lane.lock());
  return end.lane.control.peer_leaves();
}

void log(const Service& service, const char* what) {
  SOVIA_LOG("port %d: %s", service.at.port[0] << 8 | service.at.port[1], what);
}

void log_rates(const Service& service, const RouteChoice& choice) {
  constexpr double kMegabytesPerSecond = 1e3;
  SOVIA_LOG("port %d: a trial: the kernel moves %.1f MB/s, %zu lanes %.1f", service.at.port[0] << 8 | service.at.port[1],
            choice.kernel_rate() * kMegabytesPerSecond, choice.lanes(), choice.lane_rate() * kMegabytesPerSecond);
}

void keep_finding(const Service& service, RouteChoice& choice) {
  const RouteMemory::Finding finding = choice.take_finding();
  if (finding.route != RouteMemory::Route::kUnknown) remembered::keep(number_of(service), choice.load(), finding);
}

void take_step(const Service& service, RouteChoice& choice, std::uint64_t now) {
  const RouteChoice::Stage before = choice.stage();
  RouteChoice::View view = view_of(service);
  if (choice.wants_finding()) view.found = remembered::recall(number_of(service), choice.load_with(view.open));
  if (view.found.route != RouteMemory::Route::kUnknown && now < view.found.until) log(service, "another process has tried");
  const RouteChoice::Step step = choice.look(view, now);
  if (before == RouteChoice::Stage::kLaneWindow && choice.stage() != before) log_rates(service, choice);
  keep_finding(service, choice);
  if (choice.stage() == RouteChoice::Stage::kLanes && before != choice.stage()) log(service, "stays with lanes");
  switch (step) {
    case RouteChoice::Step::kNone:
      break;
    case RouteChoice::Step::kLeave:
      log(service, "the kernel moves more than lanes");
      stay_with_kernel(service, choice, now);
      break;
    case RouteChoice::Step::kAskAgain:
      LaneDemand::all_may_ask();
      break;
  }
}

}  // namespace

Reason admit(Task& task) {
  if (options().route != kRouteAuto || task.socket->modes.carries_messages()) return Reason::kNone;
  const std::uint64_t now = now_ns();
  if (is_slower_peer(with_peer(task), now)) return Reason::kSlower;
  const Service service = service_of(task);
  const bool is_new = !services().contains(service);
  if (is_new && !has_room()) return Reason::kNone;
  RouteChoice& choice = services()[service];
  RouteChoice::Ask ask;
  ask.remembered = is_new && remembered::doubts_lanes(number_of(service), now);
  ask.doubtful = choice.stage() == RouteChoice::Stage::kUnknown && has_others(service);
  ask.mark = mark_of(task);
  switch (choice.asked(ask, now)) {
    case RouteChoice::Answer::kOpen:
      return Reason::kNone;
    case RouteChoice::Answer::kRefuse:
      return Reason::kSlower;
    case RouteChoice::Answer::kLater:
      break;
  }
  if (choice.may_need_no_nic()) return Reason::kTrial;
  const Reason why = open_nic(task.flow);  // now, as the work for that is not to fall into a window
  return why == Reason::kNone ? Reason::kTrial : why;
}

void look_at_open_lane(LaneEndpoint& end, std::uint64_t now) {
  const auto found = services().find(service_of(end));
  if (found == services().end() || found->second.stage() != RouteChoice::Stage::kKernel) return;
  if (now < found->second.kernel_until()) leave_slower_lane(*end.socket, end, again_ms(found->second, now));
}

void peer_found_slower(const LaneEndpoint& end, std::uint32_t again_ms) {
  const Service peer = with_peer(end), service = service_of(end);
  const std::uint64_t now = now_ns();
  const std::uint64_t ns = std::min(again_ms * kMs, RouteChoice::kMostDoubtNs);
  if (trials().slower_peers.size() < kMostServices) trials().slower_peers[peer] = now + ns;
  bool others = false;
  for_each_end(service, [&](LaneEndpoint& each) {
    const bool same = with_peer(each) == peer;
    others |= !same;
    if (!same) return;
    each.not_wanted = each.stage == LaneEndpoint::Stage::kAsking;
    // Other processes of the peer's, which serve the same port, may have chosen lanes: they are told too, as they would
    // open lanes in vain.
    if (each.stage == LaneEndpoint::Stage::kOpen && !hears_leave(each)) leave_slower_lane(*each.socket, each, again_ms);
  });
  const auto found = services().find(service);
  if (others || found == services().end()) return;
  found->second.peer_left(ns, now);
  keep_finding(service, found->second);
}

bool trials_go_on() {
  return std::any_of(services().begin(), services().end(), [](const auto& each) {
    const RouteChoice::Stage stage = each.second.stage();
    return stage != RouteChoice::Stage::kUnknown && stage != RouteChoice::Stage::kKernel;
  });
}

bool trials_chose_kernel() {
  const auto kernel = [](const auto& each) { return each.second.stage() == RouteChoice::Stage::kKernel; };
  return !trials().slower_peers.empty() || std::any_of(services().begin(), services().end(), kernel);
}

bool trials_chose_kernel(const LaneEndpoint& end) {
  const auto found = services().find(service_of(end));
  const bool chosen = found != services().end() && found->second.stage() == RouteChoice::Stage::kKernel;
  return chosen || trials().slower_peers.contains(with_peer(end));
}

void look_at_trials() {
  const std::uint64_t now = now_ns();
  for (auto& [service, choice] : services()) {
    if (now >= choice.due()) take_step(service, choice, now);
  }
  const auto is_past = [now](const auto& peer) { return now >= peer.second; };
  if (std::erase_if(trials().slower_peers, is_past) != 0) LaneDemand::all_may_ask();
}

std::uint64_t trials_due() {
  std::uint64_t due = kNever;
  for (const auto& [service, choice] : services()) due = std::min(due, choice.due());
  for (const auto& [peer, until] : trials().slower_peers) due = std::min(due, until);
  return due;
}

// The parent's thread may have been changing the maps, so they are left as they are.
void forget_trials() { g_trials = nullptr; }

}  // namespace viaduct::sovia::background
