#include "kagent/tools/viactl/views.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "kagent/contract/vip_codes.h"
#include "kagent/tools/viactl/words.h"

namespace viaduct::tool {
namespace {

std::string interface_of(std::uint32_t nic, const Nics& nics) { return nic < nics.size() ? nics[nic].interface : ""; }

bool is_granted(const report::Session& session) {
  return session.placement == static_cast<std::uint32_t>(control::Placement::kGranted);
}

// Names of programs; /proc is read once for each process.
class Programs {
 public:
  const std::string& name(std::uint32_t process) {
    const auto it = names_.find(process);
    return it != names_.end() ? it->second : names_.emplace(process, program_text(process)).first->second;
  }

 private:
  std::map<std::uint32_t, std::string> names_;
};

Cell process_cell(std::uint32_t process) { return process == 0 ? cell_none() : cell(std::uint64_t{process}); }

Cell of_limit(std::uint32_t used, std::uint32_t limit) {
  return {std::to_string(used) + "/" + std::to_string(limit), std::to_string(used)};
}

Table nics_table(const Nics& nics) {
  Table out({{"NIC", "interface", true},
             {"UP", "up", true},
             {"MODE", "mode", true},
             {"ADDRESS", "address", true, 3},
             {"MTU", "mtu"},
             {"TYPE", "ether_type", false, 7},
             {"SESSIONS", "sessions"},
             {"VIS", "vis", false, 2},
             {"CONNECTED", "connected"},
             {"CQS", "cqs", false, 6},
             {"REGIONS", "regions", false, 5},
             {"PEERS", "peers", false, 4},
             {"PORTS", "granted_ports"}});
  for (const report::Nic& nic : nics) {
    char type[8];
    std::snprintf(type, sizeof type, "0x%04x", nic.ether_type & 0xffff);
    if (nic.up == 0) {
      out.add({cell(nic.interface), cell_flag(false)});
      continue;
    }
    out.add({cell(nic.interface), cell_flag(true), cell(nic.mode), cell(mac_text(nic.address)),
             cell(std::uint64_t{nic.mtu}), {type, std::to_string(nic.ether_type)},
             of_limit(nic.sessions, nic.sessions_limit), of_limit(nic.vis, nic.vis_limit),
             cell(std::uint64_t{nic.connected}), cell(std::uint64_t{nic.cqs}), cell(std::uint64_t{nic.regions}),
             cell(std::uint64_t{nic.peers}), cell(std::uint64_t{nic.granted_ports})});
  }
  return out;
}

}  // namespace

std::string status_text(const report::Status& status, const std::string& socket, const Nics& nics,
                        std::size_t width) {
  std::string out = "agent " + cell(status.version).text + ", process " + std::to_string(status.process) + " of " +
                    user_text(status.user) + ", up " + cell_duration(status.up_ns).text + ", socket " + socket + "\n";
  out += "host " + cell(status.host).text + ", placement " + placement_word(status.placement) + ", log level " +
         log_level_word(status.log_level) + ", " + std::to_string(status.sessions) + " sessions" +
         (status.draining != 0 ? ", draining" : "") + "\n\n";
  out += nics_table(nics).text(width);
  for (const report::Nic& nic : nics) {
    if (nic.up == 0) {
      out += std::string(nic.interface) + ": the agent waits for it: " + cell(nic.why_not_granted).text + "\n";
    }
    // A NIC where programs meet without a wire has no ports anyway.
    if (nic.up == 0 || nic.grants != 0 || nic.is_loopback != 0) continue;
    out += std::string(nic.interface) + ": programs are hosted: " + cell(nic.why_not_granted).text + "\n";
  }
  return out;
}

std::string status_json(const report::Status& status, const std::string& socket, const Nics& nics) {
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  return "{\"version\": " + in_json(status.version) + ", \"process\": " + number(status.process) +
         ", \"user\": " + number(status.user) + ", \"up_ns\": " + number(status.up_ns) +
         ", \"socket\": " + in_json(socket) + ", \"host\": " + in_json(status.host) +
         ", \"placement\": " + in_json(placement_word(status.placement)) +
         ", \"draining\": " + (status.draining != 0 ? "true" : "false") +
         ", \"log_level\": " + in_json(log_level_word(status.log_level)) +
         ", \"sessions\": " + number(status.sessions) + ", \"longest_round_ns\": " + number(status.longest_round_ns) +
         ",\n\"nics\": " + nics_table(nics).json() + "}";
}

Table sessions_table(const Sessions& sessions, const Nics& nics) {
  Table out({{"ID", "id"},
             {"PID", "process"},
             {"PROGRAM", "program", true},
             {"USER", "user", true, 1},
             {"NIC", "nic", true},
             {"PLACEMENT", "placement", true},
             {"AGE", "age_ns"},
             {"PROCESSES", "processes", false, 6},
             {"VIS", "vis"},
             {"CQS", "cqs", false, 8},
             {"REGIONS", "regions", false, 7},
             {"REGISTERED", "registered_bytes", false, 3},
             {"TABLES", "segment_bytes", false, 9},
             {"SENT", "bytes_sent", false, 2},
             {"RECEIVED", "bytes_received", false, 2},
             {"MSGS OUT", "messages_sent", false, 5},
             {"MSGS IN", "messages_received", false, 5},
             {"RESENT", "retransmissions", false, 4},
             {"LOST", "connections_lost", false, 10},
             {"PORT", "port", true, 11}});
  for (const report::Session& s : sessions) {
    const bool counted = s.counted != 0;
    const auto count = [counted](std::uint64_t value) { return counted ? cell(value) : cell_none(); };
    const auto bytes = [counted](std::uint64_t value) { return counted ? cell_bytes(value) : cell_none(); };
    out.add({cell(s.id), process_cell(s.process), cell(program_text(s.process)), cell(user_text(s.user)),
             cell(interface_of(s.nic, nics)), cell(placement_word(s.placement)), cell_duration(s.age_ns),
             cell(std::uint64_t{s.attached} + 1), cell(std::uint64_t{s.vis}), cell(std::uint64_t{s.cqs}),
             cell(std::uint64_t{s.regions}), cell_bytes(s.registered_bytes), cell_bytes(s.segment_bytes),
             bytes(s.bytes_sent), bytes(s.bytes_received), count(s.messages_sent), count(s.messages_received),
             count(s.retransmissions), count(s.connections_lost),
             is_granted(s) ? cell(mac_text(s.port)) : cell_none()});
  }
  return out;
}

const report::Session* session_of(const report::Vi& vi, const Sessions& sessions) {
  const auto it = std::lower_bound(sessions.begin(), sessions.end(), vi.session,
                                   [](const report::Session& session, std::uint64_t id) { return session.id < id; });
  return it != sessions.end() && it->id == vi.session ? &*it : nullptr;
}

Table vis_table(const Vis& vis, const Sessions& sessions, const Nics& nics) {
  Table out({{"SESSION", "session", false, 1},
             {"VI", "vi"},
             {"PID", "process"},
             {"PROGRAM", "program", true},
             {"NIC", "nic", true, 2},
             {"PLACEMENT", "placement", true, 3},
             {"LEVEL", "level", true},
             {"STATE", "state", true},
             {"TRANSFER", "max_transfer_bytes", false, 4}});
  Programs programs;
  for (const report::Vi& vi : vis) {
    const report::Session* const session = session_of(vi, sessions);
    out.add({cell(vi.session), cell(std::uint64_t{vi.vi}), process_cell(vi.process), cell(programs.name(vi.process)),
             session == nullptr ? cell_none() : cell(interface_of(session->nic, nics)),
             session == nullptr ? cell_none() : cell(placement_word(session->placement)),
             cell(reliability_word(vi.reliability)), cell(state_word(vi.state)), cell_bytes(vi.max_transfer)});
  }
  return out;
}

Table connections_table(const Vis& vis, const Sessions& sessions, const Nics& nics) {
  Table out({{"SESSION", "session", false, 12},
             {"VI", "vi"},
             {"PID", "process"},
             {"PROGRAM", "program", true},
             {"NIC", "nic", true, 8},
             {"PLACEMENT", "placement", true, 5},
             {"LEVEL", "level", true},
             {"PEER", "peer", true},
             {"HOST", "peer_host", true, 9},
             {"VI THERE", "peer_vi", false, 10},
             {"PATH", "path", true, 5},
             {"RTT", "rtt_ns"},
             {"LEAST", "least_rtt_ns", false, 6},
             {"FRAME", "frame_bytes", false, 7},
             {"WINDOW", "window_frames", false, 2},
             {"FLIGHT", "frames_in_flight", false, 3},
             {"RESENT", "frames_resent", false, 1},
             {"LOSSES", "losses", true, 11},
             {"HELD", "frames_held", false, 13},
             {"HEARD", "heard_ns", false, 4},
             {"SENT", "sent_ns", false, 14}});
  Programs programs;
  for (const report::Vi& vi : vis) {
    if (vi.state != vip::kConnected) continue;
    const report::Session* const session = session_of(vi, sessions);
    const bool reliable = vi.reliability != vip::kUnreliable;
    const auto time = [](std::uint64_t ns, std::uint64_t unknown) {
      return ns == unknown ? cell_none() : cell_duration(ns);
    };
    const auto frames = [reliable](std::uint64_t value) { return reliable ? cell(value) : cell_none(); };
    out.add({cell(vi.session), cell(std::uint64_t{vi.vi}), process_cell(vi.process), cell(programs.name(vi.process)),
             session == nullptr ? cell_none() : cell(interface_of(session->nic, nics)),
             session == nullptr ? cell_none() : cell(placement_word(session->placement)),
             cell(reliability_word(vi.reliability)), cell(mac_text(vi.peer)), cell(mac_text(vi.peer_host)),
             cell(std::uint64_t{vi.peer_vi}), cell(path_word(vi.path)), time(vi.rtt_ns, 0), time(vi.least_rtt_ns, 0),
             cell(std::uint64_t{vi.payload}), frames(std::min(vi.window, vi.peer_window)), frames(vi.in_flight),
             frames(vi.resends), reliable ? cell(losses_word(vi.losses)) : cell_none(), frames(vi.held_frames),
             time(vi.heard_ns, ~0ull), time(vi.sent_ns, ~0ull)});
  }
  return out;
}

std::vector<Counter> parse_counters(std::string_view text, std::string_view pattern) {
  constexpr std::string_view kPrefix = "viaduct_";
  std::vector<Counter> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t space = line.rfind(' ');
    if (line.empty() || line[0] == '#' || space == std::string_view::npos) continue;
    std::string_view name = line.substr(0, space);
    std::string_view labels;
    if (const std::size_t brace = name.find('{'); brace != std::string_view::npos) {
      labels = name.substr(brace + 1, name.size() - brace - 2);
      name = name.substr(0, brace);
    }
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    if (name.find(pattern) == std::string_view::npos) continue;
    Counter counter{std::string(name), std::string(labels), 0};
    counter.value = std::strtoull(std::string(line.substr(space + 1)).c_str(), nullptr, 10);
    out.push_back(std::move(counter));
  }
  return out;
}

Table counters_table(const std::vector<Counter>& counters, bool zeros) {
  Table out({{"VALUE", "value"}, {"COUNTER", "counter", true}, {"OF", "labels", true}});
  for (const Counter& counter : counters) {
    if (counter.value == 0 && !zeros) continue;
    out.add({cell(counter.value), cell(counter.name), cell(counter.labels)});
  }
  return out;
}

}  // namespace viaduct::tool
