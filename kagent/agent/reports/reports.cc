#include "kagent/agent/reports/reports.h"

#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kagent/agent/control/control_messages.h"
#include "kagent/agent/control/control_socket.h"
#include "kagent/agent/config/device_names.h"
#include "kagent/agent/process/log.h"
#include "kagent/agent/reports/vi_report.h"
#include "xdp/clock.h"

namespace viaduct {
namespace {

using report::What;

// The cost of accepting, judging and answering a request, whatever the question.
constexpr std::uint64_t kRequestNs = 20 * kNsPerUs;

template <std::size_t kBytes>
void put(const std::string& text, char (&out)[kBytes]) {
  text.copy(out, kBytes - 1);
}

template <class Record>
std::vector<std::byte> packet(const std::vector<Record>& records, std::uint64_t next) {
  report::Answer answer{};
  answer.head.kind = report::kKind;
  answer.head.bytes = static_cast<std::uint32_t>(sizeof answer + records.size() * sizeof(Record));
  answer.head.result = vip::kSuccess;
  answer.count = static_cast<std::uint32_t>(records.size());
  answer.record_bytes = sizeof(Record);
  answer.next = next;
  std::vector<std::byte> out(answer.head.bytes);
  std::memcpy(out.data(), &answer, sizeof answer);
  if (!records.empty()) std::memcpy(out.data() + sizeof answer, records.data(), records.size() * sizeof(Record));
  return out;
}

// A packet with this result and nothing else.
std::vector<std::byte> packet(vip::Return result) {
  std::vector<std::byte> out = packet(std::vector<report::Nic>(), 0);
  auto* const answer = reinterpret_cast<report::Answer*>(out.data());
  answer->head.result = result;
  return out;
}

// VIs between programs on the agent's own stack have no path of their own: mark them as on this host.
void mark_own_host(AgentNic& nic, std::vector<report::Vi>& vis) {
  const MacAddress host = nic.stack().host();
  for (report::Vi& vi : vis) {
    if (vi.path == 0 && std::equal(host.begin(), host.end(), vi.peer_host)) vi.path = 1;
  }
}

// Null: the asker may see no session of this id.
const ShownSession* find(std::span<const ShownSession> sessions, std::uint64_t id) {
  const auto it = std::find_if(sessions.begin(), sessions.end(),
                               [id](const ShownSession& shown) { return shown.id == id; });
  return it == sessions.end() ? nullptr : &*it;
}

void require_root(const Peer& peer, const char* what) {
  if (sees_all(peer)) return;
  throw Refused{vip::kErrorResource, &ServiceCounters::refused_access, std::string("only root may ") + what};
}

void set_log_level(const Peer& peer, std::uint64_t level) {
  require_root(peer, "set the log level");
  if (level > static_cast<std::uint64_t>(report::LogLevel::kLast)) throw malformed("unknown log level");
  log::set_level(static_cast<unsigned>(level));
  log::info("{} has set the log level to {}", text_of(peer), log::level_name());
}

}  // namespace

report::Query judge_query(std::span<const std::byte> message) {
  report::Query query;
  if (message.size() != sizeof query) throw malformed("not as long as a query");
  std::memcpy(&query, message.data(), sizeof query);
  return query;
}

bool sees_all(const Peer& peer) { return peer.is_root || (peer.uid != 0 && peer.uid == geteuid()); }

Reports::Reports(const Config& config, Nics nics, ServiceCounters& counters,
                 std::function<std::string()> counters_text)
    : config_(config),
      nics_(nics),
      counters_(counters),
      counters_text_(std::move(counters_text)),
      started_(monotonic_ns()),
      events_(nics) {}

std::vector<std::byte> Reports::answer(const Peer& peer, const report::Query& query, std::size_t all,
                                       std::span<const ShownSession> sessions,
                                       std::span<const ShownProcess> processes) {
  const std::uint64_t now = monotonic_ns();
  ++counters_.report_requests;
  if (!budget_.may_ask(peer.account(), now)) {
    ++counters_.reports_postponed;
    return packet(vip::kNotDone);
  }
  std::vector<std::byte> out;
  switch (static_cast<What>(query.what)) {
    case What::kStatus:
      out = packet(std::vector{status(peer, all)}, 0);
      break;
    case What::kNics: {
      std::vector<report::Nic> records;
      for (const auto& nic : nics_) records.push_back(describe(*nic));
      out = packet(records, 0);
      break;
    }
    case What::kSessions:
      out = sessions_page(query, sessions, now);
      break;
    case What::kVis:
      out = vis_page(query, sessions, processes);
      break;
    case What::kEvents: {
      std::uint64_t next = 0;
      const auto records = events_.page(query.from, sees_all(peer), peer.account(), next);
      out = packet(records, next);
      break;
    }
    case What::kTrace: {
      std::uint64_t next = 0;
      std::vector<report::Event> records;
      if (find(sessions, query.session) != nullptr) records = events_.trace(query.session, query.from, next);
      out = packet(records, next);
      break;
    }
    case What::kDrain:
      set_draining(peer, query.from != 0);
      out = packet(vip::kSuccess);
      break;
    case What::kLogLevel:
      set_log_level(peer, query.from);
      out = packet(vip::kSuccess);
      break;
    default:
      throw malformed("of no known question");
  }
  budget_.spend(peer.account(), kRequestNs + monotonic_ns() - now, now);
  return out;
}

std::vector<std::byte> Reports::sessions_page(const report::Query& query, std::span<const ShownSession> sessions,
                                              std::uint64_t now) const {
  std::vector<report::Session> records;
  for (const ShownSession& shown : sessions) {
    if (shown.id < query.from) continue;
    if (records.size() == report::kSessionsOfPage) return packet(records, shown.id);
    records.push_back(describe(shown, now));
  }
  return packet(records, 0);
}

std::vector<std::byte> Reports::vis_page(const report::Query& query, std::span<const ShownSession> sessions,
                                         std::span<const ShownProcess> processes) const {
  std::vector<report::Vi> records;
  const auto from = static_cast<std::uint32_t>(std::min<std::uint64_t>(query.from, 0xffffffff));
  std::uint32_t next = 0;
  if (query.session != 0) {
    const ShownSession* const shown = find(sessions, query.session);
    if (shown != nullptr) next = read_granted(*shown, from, records);
  } else if (query.nic < nics_.size() && nics_[query.nic]->is_open()) {
    next = read_hosted(*nics_[query.nic], from, sessions, processes, records);
  }
  return packet(records, next);
}

// Only root gets these files: they show all that the programs send.
std::vector<std::byte> Reports::local_pairs(const Peer& peer, const report::Query& query,
                                            std::span<const LocalPaths::SharedPair> pairs) {
  require_root(peer, "capture what programs of this host exchange");
  ++counters_.report_requests;
  std::vector<report::LocalPair> records;
  for (const LocalPaths::SharedPair& pair : pairs) {
    report::LocalPair& record = records.emplace_back();
    record.number = pair->number;
    record.nic = number_of(pair->nic);
    for (unsigned end = 0; end < 2; ++end) std::copy(pair->ends[end].begin(), pair->ends[end].end(), record.ends[end]);
  }
  return packet(records, records.empty() ? query.from : records.back().number + 1);
}

void Reports::set_draining(const Peer& peer, bool draining) {
  require_root(peer, "drain the agent");
  if (draining == draining_) return;
  draining_ = draining;
  log::info("{} {}", text_of(peer),
            draining ? "drains the agent: it takes no new programs and ends with the last connection"
                     : "has ended the draining");
}

report::Status Reports::status(const Peer& peer, std::size_t all) const {
  report::Status out{};
  put(PACKAGE_VERSION, out.version);
  put(config_.name, out.host);
  out.process = static_cast<std::uint32_t>(getpid());
  out.user = geteuid();
  out.up_ns = monotonic_ns() - started_;
  out.log_level = log::level();
  out.placement = static_cast<std::uint32_t>(config_.placement);
  out.nics = static_cast<std::uint32_t>(nics_.size());
  out.sessions = static_cast<std::uint32_t>(all);
  out.sees_all = sees_all(peer);
  out.layout_version = layout::kLayoutVersion;
  out.rounds = counters_.rounds;
  out.busy_rounds = counters_.busy_rounds;
  out.sleeps = counters_.sleeps;
  out.longest_round_ns = counters_.longest_round_ns;
  out.draining = draining_;
  return out;
}

report::Nic Reports::describe(const AgentNic& nic) const {
  report::Nic out{};
  const NicReport now = nic.report();
  put(now.interface, out.interface);
  out.sessions_limit = now.limits.sessions;
  out.vis_limit = now.limits.vis;
  out.ether_type = nic.config().ether_type;
  out.is_loopback = now.interface == kLoopbackDevice;
  if (!now.live) {
    put(nic.why_closed(), out.why_not_granted);
    return out;
  }
  out.up = 1;
  out.grants = config_.placement != control::Placement::kHosted && nic.granter() != nullptr;
  if (out.grants == 0) {
    put(config_.placement == control::Placement::kHosted ? "placement = \"hosted\"" : nic.why_not_granted(),
        out.why_not_granted);
  }
  put(now.live->mode, out.mode);
  std::copy(now.live->address.begin(), now.live->address.end(), out.address);
  out.mtu = now.live->mtu;
  const Stack::Usage& usage = now.live->usage;
  out.sessions = usage.sessions;
  out.attached = usage.members;
  out.vis = usage.vis;
  out.connected = usage.connected;
  out.cqs = usage.cqs;
  out.regions = usage.regions;
  out.peers = usage.peers;
  out.requests = usage.requests;
  out.goodbyes = usage.goodbyes;
  out.held_frames = usage.held;
  out.granted_ports = now.live->granted_ports;
  return out;
}

report::Session Reports::describe(const ShownSession& shown, std::uint64_t now) const {
  report::Session out{};
  const Session& session = *shown.session;
  out.id = shown.id;
  out.process = static_cast<std::uint32_t>(session.peer().pid);
  out.user = session.peer().uid;
  out.group = session.peer().gid;
  out.nic = number_of(&session.nic());
  out.attached = shown.attached;
  out.age_ns = now - std::min(now, shown.opened);
  out.segment_bytes = session.segment_used();
  const Session::Granted* const granted = session.granted();
  if (granted == nullptr) {
    out.placement = static_cast<std::uint32_t>(control::Placement::kHosted);
    read_holdings(session.nic().segment(), session.nic().limits(), session.number(), out);
    return out;
  }
  out.placement = static_cast<std::uint32_t>(control::Placement::kGranted);
  const MacAddress& port = granted->held.port->layout().address;
  std::copy(port.begin(), port.end(), out.port);
  const GrantedSegment& own = *granted->granted_segment;
  read_holdings(own.stack(), own.limits(), 0, out);
  read_counters(own.stack(), own.limits(), out);
  return out;
}

std::uint32_t Reports::number_of(const AgentNic* nic) const {
  const auto it = std::find_if(nics_.begin(), nics_.end(), [&](const auto& each) { return each.get() == nic; });
  return static_cast<std::uint32_t>(it - nics_.begin());
}

std::uint32_t Reports::read_hosted(AgentNic& nic, std::uint32_t from, std::span<const ShownSession> sessions,
                                   std::span<const ShownProcess> processes,
                                   std::vector<report::Vi>& out) const {
  std::vector<const ShownSession*> of_number(nic.limits().sessions);
  for (const ShownSession& shown : sessions) {
    const bool here = &shown.session->nic() == &nic && shown.session->granted() == nullptr;
    if (here) of_number.at(shown.session->number()) = &shown;
  }
  const auto own = [&](const ViOwner& owner, report::Vi& record) {
    const ShownSession* const shown = owner.session < of_number.size() ? of_number[owner.session] : nullptr;
    if (shown == nullptr) return false;
    record.session = shown->id;
    record.process = static_cast<std::uint32_t>(shown->session->peer().pid);
    if (owner.program == owner.session) return true;
    const auto it = std::find_if(processes.begin(), processes.end(), [&](const ShownProcess& each) {
      return each.session == shown->id && each.program == owner.program;
    });
    record.process = it == processes.end() ? 0 : static_cast<std::uint32_t>(it->process);
    return true;
  };
  const std::uint32_t next = read_vis(nic.segment(), nic.limits(), from, monotonic_ns(), own, out);
  mark_own_host(nic, out);
  return next;
}

// Which process of a family uses a VI only the granted stack knows.
std::uint32_t Reports::read_granted(const ShownSession& shown, std::uint32_t from,
                                    std::vector<report::Vi>& out) const {
  const Session::Granted* const granted = shown.session->granted();
  if (granted == nullptr) return 0;
  const auto own = [&](const ViOwner& owner, report::Vi& record) {
    record.session = shown.id;
    if (owner.program == 0) record.process = static_cast<std::uint32_t>(shown.session->peer().pid);
    return true;
  };
  const GrantedSegment& segment = *granted->granted_segment;
  const std::uint32_t next = read_vis(segment.stack(), segment.limits(), from, monotonic_ns(), own, out);
  if (shown.session->nic().is_open()) mark_own_host(shown.session->nic(), out);
  return next;
}

void Reports::send_counters(int socket, const Peer& peer) {
  const std::uint64_t begin = monotonic_ns();
  if (!budget_.may_ask(peer.account(), begin)) {
    throw Refused{vip::kNotDone, &ServiceCounters::reports_postponed,
                  text_of_account(peer.account()) + " asks for reports too often"};
  }
  ++counters_.counter_requests;
  const std::string text = counters_text_();
  const Descriptor file(memfd_create("viaduct-counters", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool written =
      file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  if (!written) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_resources,
                  std::string("no memory for the table: ") + std::strerror(errno)};
  }
  control::MessageHead answer;
  answer.kind = static_cast<std::uint16_t>(control::Kind::kCounters);
  answer.bytes = sizeof answer;
  answer.result = vip::kSuccess;
  const int fds[] = {file.get()};
  send_message(socket, &answer, sizeof answer, fds);
  budget_.spend(peer.account(), kRequestNs + monotonic_ns() - begin, begin);
}

}  // namespace viaduct
