#include "kagent/agent/reports/event_log.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <string>

#include "kagent/stack/history_reader.h"
#include "xdp/clock.h"

namespace viaduct {
namespace {

using report::Happened;

template <std::size_t kBytes>
void put(std::string_view text, char (&out)[kBytes]) {
  std::memset(out, 0, kBytes);
  text.copy(out, kBytes - 1);
}

// Nanoseconds to add to a time of the monotonic clock.
std::uint64_t epoch() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const auto seconds = static_cast<std::uint64_t>(now.tv_sec);
  return seconds * kNsPerSecond + static_cast<std::uint64_t>(now.tv_nsec) - monotonic_ns();
}

uid_t user_of(uid_t account) { return account == Peer::kPowerlessRoot ? 0 : account; }

Happened happened(state::Happened what) {
  switch (what) {
    case state::Happened::kConnected: return Happened::kConnected;
    case state::Happened::kDisconnected: return Happened::kDisconnected;
    case state::Happened::kPeerDisconnected: return Happened::kPeerDisconnected;
    case state::Happened::kConnectionLost: return Happened::kConnectionLost;
    case state::Happened::kLoss: return Happened::kLoss;
    case state::Happened::kTimeout: return Happened::kTimeout;
    case state::Happened::kCommand: return Happened::kCommand;
    case state::Happened::kNothing: break;
  }
  return Happened::kMissed;
}

report::Event missed(std::uint64_t count, std::uint64_t number, std::uint64_t now) {
  report::Event out{};
  out.what = static_cast<std::uint32_t>(Happened::kMissed);
  out.number = number;
  out.time_ns = now;
  out.value = count;
  out.vi = report::kNoVi;
  return out;
}

}  // namespace

EventLog::EventLog(Nics nics) : nics_(nics), seen_(nics.size()) {}

report::Event& EventLog::add(Happened what, std::uint64_t now, uid_t account) {
  if (kept_.size() >= kEvents) forget_one();
  accounts_[account].numbers.push_back(next_);
  report::Event& out = kept_[next_].event;
  kept_[next_].account = account;
  out.what = static_cast<std::uint32_t>(what);
  out.number = next_++;
  out.time_ns = now;
  out.vi = report::kNoVi;
  return out;
}

report::Event& EventLog::add(Happened what, std::uint64_t now, const Watched& watched) {
  report::Event& out = add(what, now, watched.account);
  out.process = watched.process, out.user = user_of(watched.account), out.nic = watched.nic;
  return out;
}

void EventLog::forget_one() {
  const auto most = std::max_element(accounts_.begin(), accounts_.end(), [](const auto& a, const auto& b) {
    const auto &one = a.second.numbers, &other = b.second.numbers;
    return one.size() != other.size() ? one.size() < other.size() : one.front() > other.front();
  });
  Account& account = most->second;
  account.lost = account.numbers.front();
  account.numbers.pop_front();
  kept_.erase(account.lost);
  if (account.numbers.empty()) accounts_.erase(most);
}

void EventLog::note(Happened what, const Peer& peer, std::string_view text, std::uint32_t code) {
  const std::uint64_t now = monotonic_ns();
  const auto left_out = refusals_.may_note(peer.account(), now);
  if (!left_out) return;
  report::Event& event = add(what, now, peer.account());
  event.process = static_cast<std::uint32_t>(peer.pid);
  event.user = peer.uid;
  event.nic = static_cast<std::uint32_t>(nics_.size());
  event.code = code;
  put(*left_out == 0 ? std::string(text) : std::to_string(*left_out) + " more of this user, then: " + std::string(text),
      event.text);
}

// All users may see events of NICs, as they see the NICs.
void EventLog::note(Happened what, const AgentNic& nic) {
  collect();
  const std::uint32_t number = number_of(nic);
  if (what == Happened::kInterfaceUp) seen_[number] = 0;
  report::Event& event = add(what, monotonic_ns(), 0);
  event.user = ~0u;
  event.nic = number;
  put(nic.interface(), event.text);
}

std::uint32_t EventLog::number_of(const AgentNic& nic) const {
  const auto it = std::find_if(nics_.begin(), nics_.end(), [&](const auto& each) { return each.get() == &nic; });
  return static_cast<std::uint32_t>(it - nics_.begin());
}

void EventLog::opened(std::uint64_t id, const Session& session) {
  const Session::Granted* const granted = session.granted();
  Watched watched{};
  watched.process = static_cast<std::uint32_t>(session.peer().pid);
  watched.account = session.peer().account();
  watched.nic = number_of(session.nic());
  watched.number = session.number();
  watched.since = monotonic_ns();
  watched.granted = granted != nullptr ? granted->granted_segment.get() : nullptr;
  report::Event& event = add(Happened::kSessionOpened, watched.since, watched);
  event.session = id;
  put(granted != nullptr ? "granted" : "hosted", event.text);
  if (granted != nullptr) {
    const MacAddress& port = granted->held.port->layout().address;
    std::copy(port.begin(), port.end(), event.peer);
  }
  sessions_.emplace(id, std::move(watched));
}

void EventLog::attached(std::uint64_t id, std::uint32_t program, pid_t process) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Watched& watched = it->second;
  watched.others[program] = static_cast<std::uint32_t>(process);
  report::Event& event = add(Happened::kProcessAttached, monotonic_ns(), watched);
  event.session = id;
  event.process = static_cast<std::uint32_t>(process);
}

void EventLog::left(std::uint64_t id, std::uint32_t program) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end() || !it->second.others.contains(program)) return;
  collect();
  Watched& watched = it->second;
  report::Event& event = add(Happened::kProcessLeft, monotonic_ns(), watched);
  event.session = id;
  event.process = watched.others[program];
  watched.others.erase(program);
}

void EventLog::ends(std::uint64_t id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  collect();
  collect_granted(id, it->second);
  it->second.granted = nullptr;
}

void EventLog::ended(std::uint64_t id, std::string_view why) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  collect();
  const Watched& watched = it->second;
  report::Event& event = add(Happened::kSessionClosed, monotonic_ns(), watched);
  event.session = id;
  put(why, event.text);
  sessions_.erase(it);
}

void EventLog::describe(const state::Event& from, std::uint64_t id, const Watched& watched, report::Event& out) {
  const auto other = watched.others.find(from.program);
  out.session = id;
  out.process = other != watched.others.end() ? other->second : watched.process;
  out.user = user_of(watched.account);
  out.nic = watched.nic;
  out.vi = from.vi;
  out.code = from.code;
  out.op = from.op;
  out.value = from.what == state::Happened::kCommand ? from.waited : from.count;
  out.time_ns = from.time;
  std::copy(from.peer.begin(), from.peer.end(), out.peer);
}

void EventLog::take(const state::Event& event, std::uint64_t id, const Watched& watched) {
  if (happened(event.what) == Happened::kMissed) return;
  describe(event, id, watched, add(happened(event.what), event.time, watched));
}

void EventLog::collect() {
  for (std::uint32_t i = 0; i < nics_.size(); ++i) {
    const AgentNic& nic = *nics_[i];
    if (!nic.is_open() || history_count(nic.segment(), nic.limits(), HistoryOf::kConnections) == seen_[i]) continue;
    const HistoryPage page = read_history(nic.segment(), nic.limits(), HistoryOf::kConnections, seen_[i],
                                          state::kEventsKept, monotonic_ns());
    seen_[i] = page.next;
    if (page.missed != 0) add(Happened::kMissed, monotonic_ns(), 0).value = page.missed;
    std::vector<const std::pair<const std::uint64_t, Watched>*> of_number(nic.limits().sessions);
    for (const auto& each : sessions_) {
      if (each.second.nic == i) of_number.at(each.second.number) = &each;
    }
    for (const state::Event& event : page.events) {
      const auto* const session = event.session < of_number.size() ? of_number[event.session] : nullptr;
      if (session != nullptr) take(event, session->first, session->second);
    }
  }
}

// Only the granted stack knows which of the session's processes has what: the first process stands for all.
void EventLog::collect_granted(std::uint64_t id, Watched& watched) {
  if (watched.granted == nullptr) return;
  const HistoryPage page = read_history(watched.granted->stack(), watched.granted->limits(), HistoryOf::kConnections,
                                        watched.seen, state::kEventsKept, monotonic_ns());
  watched.seen = page.next;
  if (page.missed != 0) {
    report::Event& event = add(Happened::kMissed, monotonic_ns(), watched);
    event.value = page.missed;
    event.session = id;
  }
  for (state::Event event : page.events) {
    event.program = state::kNone;
    take(event, id, watched);
  }
}

std::vector<report::Event> EventLog::page(std::uint64_t from, bool all, uid_t account, std::uint64_t& next) {
  collect();
  for (auto& [id, watched] : sessions_) collect_granted(id, watched);
  std::vector<report::Event> out;
  next = next_;
  // A number that is yet to come was given by an earlier agent.
  if (from == report::kFromNow) return out;
  if (from > next_) from = 0;
  const std::uint64_t wall = epoch();
  std::uint64_t expected = from, lost = 0;
  const std::size_t room = report::kEventsOfPage - (kept_.size() >= kEvents);  // one may tell what is lost
  auto it = kept_.lower_bound(from);
  for (; it != kept_.end() && out.size() < room; ++it) {
    const auto& [number, kept] = *it;
    lost += number - expected;
    expected = number + 1;
    if (all || kept.account == account || kept.event.user == ~0u) out.push_back(kept.event);
  }
  if (it != kept_.end()) next = it->first;
  // A user is not told of events that only others have lost.
  const auto own = accounts_.find(account);
  const bool told = all || (own != accounts_.end() && own->second.lost >= from);
  if (from != 0 && lost != 0 && told) {
    const std::uint64_t before = (out.empty() ? next : out.front().number) - 1;
    out.insert(out.begin(), missed(lost, before, monotonic_ns()));
  }
  for (report::Event& event : out) event.time_ns += wall;
  return out;
}

std::vector<report::Event> EventLog::trace(std::uint64_t id, std::uint64_t from, std::uint64_t& next) const {
  std::vector<report::Event> out;
  const auto it = sessions_.find(id);
  next = 0;
  if (it == sessions_.end()) return out;
  const Watched& watched = it->second;
  const AgentNic& nic = *nics_[watched.nic];
  const bool granted = watched.granted != nullptr;
  const void* const segment = granted ? watched.granted->stack() : nic.segment();
  const StackLimits& limits = granted ? watched.granted->limits() : nic.limits();
  const std::uint32_t number = granted ? 0 : watched.number;
  const std::uint64_t now = monotonic_ns();
  // Here numbers begin with 1: 0 says that there is no such session.
  const std::uint64_t begin = from == report::kFromNow ? history_count(segment, limits, HistoryOf::kCommands)
                              : from == 0              ? 0
                                                       : from - 1;
  const HistoryPage page =
      read_history(segment, limits, HistoryOf::kCommands, begin, report::kEventsOfPage - 1, now);
  next = page.next + 1;
  const std::uint64_t wall = epoch();
  if (begin != 0 && page.missed != 0) out.push_back(missed(page.missed, 0, now));
  for (const state::Event& event : page.events) {
    // The number may have been another session's before.
    if (event.session != number || event.time < watched.since || event.what != state::Happened::kCommand) continue;
    report::Event record{};
    record.what = static_cast<std::uint32_t>(Happened::kCommand);
    describe(event, id, watched, record);
    out.push_back(record);
  }
  for (report::Event& event : out) event.time_ns += wall;
  return out;
}

}  // namespace viaduct
