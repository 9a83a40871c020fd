#include "kagent/tools/viactl/top.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <tuple>

#include "kagent/contract/vip_codes.h"
#include "kagent/tools/viactl/words.h"
#include "xdp/clock.h"

namespace viaduct::tool {
namespace {

constexpr const char* kOrders[] = {"frames", "out", "in", "resent", "rtt"};
constexpr std::size_t kLinesAround = 4;

using Key = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>;
Key key_of(const report::Vi& vi) { return {vi.session, vi.vi, vi.generation}; }

Table top_table(const std::vector<Pace>& paces, std::size_t most, const Sessions& sessions) {
  Table out({{"PID", "process"},
             {"PROGRAM", "program", true},
             {"VI", "vi"},
             {"PLACEMENT", "placement", true, 3},
             {"LEVEL", "level", true, 2},
             {"PEER", "peer", true, 1},
             {"OUT/s", "frames_out_per_second"},
             {"IN/s", "frames_in_per_second"},
             {"RESENT/s", "frames_resent_per_second"},
             {"RTT", "rtt_ns"},
             {"WINDOW", "window_frames", false, 5},
             {"FLIGHT", "frames_in_flight", false, 4},
             {"FRAME", "frame_bytes", false, 6}});
  std::map<std::uint32_t, std::string> names;
  for (const Pace& pace : paces) {
    if (out.rows() == most) break;
    const report::Vi& vi = pace.vi;
    const report::Session* const session = session_of(vi, sessions);
    const auto [it, added] = names.try_emplace(vi.process);
    if (added) it->second = program_text(vi.process);
    const bool reliable = vi.reliability != vip::kUnreliable;
    out.add({vi.process == 0 ? cell_none() : cell(std::uint64_t{vi.process}), cell(it->second),
             cell(std::uint64_t{vi.vi}), session == nullptr ? cell_none() : cell(placement_word(session->placement)),
             cell(reliability_word(vi.reliability)), cell(mac_text(vi.peer)), cell_rate(pace.out), cell_rate(pace.in),
             reliable ? cell_rate(pace.resent) : cell_none(), vi.rtt_ns == 0 ? cell_none() : cell_duration(vi.rtt_ns),
             reliable ? cell(std::uint64_t{std::min(vi.window, vi.peer_window)}) : cell_none(),
             reliable ? cell(std::uint64_t{vi.in_flight}) : cell_none(), cell(std::uint64_t{vi.payload})});
  }
  return out;
}

struct Look {
  std::uint64_t at;
  Sessions sessions;
  Vis vis;
};

Look look(const AgentClient& agent, std::size_t nics) {
  Look out{monotonic_ns(), agent.sessions(), {}};
  out.vis = agent.vis(out.sessions, nics);
  return out;
}

}  // namespace

bool is_top_order(const std::string& order) {
  return std::find(std::begin(kOrders), std::end(kOrders), order) != std::end(kOrders);
}

std::vector<Pace> paces(const Vis& before, const Vis& now, std::uint64_t ns) {
  std::map<Key, const report::Vi*> then;
  for (const report::Vi& vi : before) {
    if (vi.state == vip::kConnected) then.emplace(key_of(vi), &vi);
  }
  const double seconds = static_cast<double>(std::max<std::uint64_t>(ns, 1)) / 1e9;
  std::vector<Pace> out;
  for (const report::Vi& vi : now) {
    if (vi.state != vip::kConnected) continue;
    Pace pace{vi, 0, 0, 0};
    const auto it = then.find(key_of(vi));
    // A VI that has been connected anew counts from another number.
    if (it != then.end() && it->second->connection == vi.connection) {
      const report::Vi& old = *it->second;
      pace.out = (vi.next_psn - old.next_psn) / seconds;
      pace.in = (vi.awaited_psn - old.awaited_psn) / seconds;
      pace.resent = static_cast<std::uint16_t>(vi.resends - old.resends) / seconds;
    }
    out.push_back(pace);
  }
  return out;
}

void sort_paces(std::vector<Pace>& paces, const std::string& order) {
  const auto value = [&order](const Pace& pace) {
    if (order == "out") return pace.out;
    if (order == "in") return pace.in;
    if (order == "resent") return pace.resent;
    if (order == "rtt") return static_cast<double>(pace.vi.rtt_ns);
    return pace.out + pace.in;
  };
  std::stable_sort(paces.begin(), paces.end(), [&](const Pace& a, const Pace& b) { return value(a) > value(b); });
}

void run_top(const AgentClient& agent, const TopOptions& options) {
  const std::size_t nics = agent.nics().size();
  Look before = look(agent, nics);
  for (unsigned i = 0; options.times == 0 || i < options.times; ++i) {
    poll(nullptr, 0, static_cast<int>(options.every * 1000));
    Look now = look(agent, nics);
    std::vector<Pace> rows = paces(before.vis, now.vis, now.at - before.at);
    sort_paces(rows, options.sort);
    double out = 0, in = 0;
    for (const Pace& pace : rows) out += pace.out, in += pace.in;
    const std::size_t height = terminal_height();
    if (options.json) {
      std::string array = top_table(rows, rows.size(), now.sessions).json();
      std::erase(array, '\n');
      std::printf("{\"interval_ns\": %llu, \"connections\": %s}\n",
                  static_cast<unsigned long long>(now.at - before.at), array.c_str());
    } else {
      if (height > 0) std::printf("\033[H\033[J");
      const std::size_t most = height > kLinesAround ? height - kLinesAround : rows.size();
      std::printf("%zu sessions, %zu VIs, %zu connections; %s frames/s out, %s in; sorted by %s\n\n",
                  now.sessions.size(), now.vis.size(), rows.size(), cell_rate(out).text.c_str(),
                  cell_rate(in).text.c_str(), options.sort.c_str());
      std::fputs(top_table(rows, most, now.sessions).text(terminal_width()).c_str(), stdout);
    }
    if (std::fflush(stdout) != 0) throw std::runtime_error("can't write");
    before = std::move(now);
  }
}

}  // namespace viaduct::tool
