#include "kagent/tools/viactl/events.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>
#include <stdexcept>
#include <vector>

#include "kagent/tools/viactl/words.h"
#include "xdp/clock.h"

namespace viaduct::tool {
namespace {

using report::Happened;

constexpr std::size_t kProgramsKept = 1024;

Happened what_of(const report::Event& event) { return static_cast<Happened>(event.what); }

bool has_peer(const report::Event& event) {
  return std::any_of(event.peer, event.peer + sizeof event.peer, [](std::uint8_t byte) { return byte != 0; });
}

// A stream of events of the agent, or of one session's commands.
class Source {
 public:
  Source(const AgentClient& agent, std::uint64_t traced, bool kept)
      : agent_(agent), traced_(traced), from_(kept ? 0 : report::kFromNow) {}

  // Adds all events that have come. False: the session is over.
  bool read(std::vector<report::Event>& out) {
    for (;;) {
      const std::uint64_t before = from_;
      const std::vector<report::Event> page = agent_.events(from_, traced_);
      out.insert(out.end(), page.begin(), page.end());
      if (traced_ != 0 && from_ == 0) return false;
      if (before == report::kFromNow || from_ <= before || page.empty()) return true;
    }
  }

 private:
  const AgentClient& agent_;
  std::uint64_t traced_;
  std::uint64_t from_;
};

void print(const std::vector<report::Event>& events, EventLines& lines, bool json) {
  for (const report::Event& event : events) {
    std::printf("%s\n", json ? lines.json(event).c_str() : lines.text(event).c_str());
  }
  if (std::fflush(stdout) != 0) throw std::runtime_error("can't write");
}

void wait(const EventOptions& options) { poll(nullptr, 0, static_cast<int>(options.every * 1000)); }

bool concerns(const report::Event& event, const EventOptions& options) {
  return options.process == 0 || event.process == options.process || what_of(event) == Happened::kMissed;
}

}  // namespace

std::string event_detail(const report::Event& event) {
  const std::string text = cell(event.text).text;
  const std::string peer = has_peer(event) ? mac_text(event.peer) : "?";
  const auto plural = [](std::uint64_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
  };
  switch (what_of(event)) {
    case Happened::kMissed: return plural(event.value, "event") + " came too fast to be kept";
    case Happened::kSessionOpened: return has_peer(event) ? text + ", port " + peer : text;
    case Happened::kRefused: return text;
    case Happened::kConnected: return "to " + peer + ", " + reliability_word(event.code);
    case Happened::kDisconnected:
    case Happened::kPeerDisconnected: return "from " + peer;
    case Happened::kConnectionLost: return "to " + peer + ", " + error_word(event.code);
    case Happened::kLoss: return plural(event.value, "frame") + " to " + peer;
    case Happened::kTimeout: return "number " + std::to_string(event.value) + " in a row, to " + peer;
    case Happened::kCommand:
      return std::string(op_word(event.op)) + ": " + result_word(event.code) +
             (event.value == 0 ? "" : " after " + cell_duration(event.value).text);
    default: return event.text[0] != '\0' ? text : "";
  }
}

const std::string& EventLines::program(std::uint32_t process) {
  if (programs_.size() > kProgramsKept) programs_.clear();
  std::string& name = programs_[process];
  if (name.empty()) name = program_text(process);
  return name;
}

std::string EventLines::text(const report::Event& event) {
  std::string out = clock_text(event.time_ns, 6) + "  ";
  std::string word = happened_word(event.what);
  word.resize(std::max<std::size_t>(word.size(), 18), ' ');
  out += word;
  if (event.process != 0) {
    const std::string& name = program(event.process);
    out += "  " + (name.empty() ? "" : cell(name).text + " ") + "(" + std::to_string(event.process) + ")";
  }
  if (event.process != 0 && event.nic < nics_.size()) out += "  " + cell(nics_[event.nic].interface).text;
  if (event.vi != report::kNoVi) out += "  VI " + std::to_string(event.vi);
  const std::string detail = event_detail(event);
  return detail.empty() ? out : out + "  " + detail;
}

std::string EventLines::json(const report::Event& event) {
  const auto number = [](bool known, std::uint64_t value) { return known ? std::to_string(value) : "null"; };
  const auto words = [](bool known, std::string_view text) { return known ? in_json(text) : "null"; };
  const bool of_process = event.process != 0;
  return "{\"time_ns\": " + std::to_string(event.time_ns) + ", \"event\": " + in_json(happened_word(event.what)) +
         ", \"session\": " + number(event.session != 0, event.session) +
         ", \"process\": " + number(of_process, event.process) +
         ", \"program\": " + words(of_process, of_process ? program(event.process) : "") +
         ", \"user\": " + number(of_process, event.user) +
         ", \"nic\": " + words(event.nic < nics_.size(), event.nic < nics_.size() ? nics_[event.nic].interface : "") +
         ", \"vi\": " + number(event.vi != report::kNoVi, event.vi) +
         ", \"peer\": " + words(has_peer(event), mac_text(event.peer)) + ", \"value\": " + std::to_string(event.value) +
         ", \"detail\": " + in_json(event_detail(event)) + "}";
}

void run_events(const AgentClient& agent, const EventOptions& options) {
  const Nics nics = agent.nics();
  EventLines lines(nics);
  Source source(agent, 0, options.kept || options.once);
  for (;;) {
    std::vector<report::Event> events;
    source.read(events);
    std::erase_if(events, [&](const report::Event& event) { return !concerns(event, options); });
    print(events, lines, options.json);
    if (options.once) return;
    wait(options);
  }
}

void run_trace(const AgentClient& agent, const EventOptions& options) {
  const Nics nics = agent.nics();
  EventLines lines(nics);
  const bool kept = options.kept || options.once;
  std::map<std::uint64_t, Source> commands;
  for (const report::Session& session : agent.sessions()) {
    if (session.process == options.process) commands.emplace(session.id, Source(agent, session.id, kept));
  }
  if (commands.empty()) {
    throw std::runtime_error("process " + std::to_string(options.process) + " has no session that may be seen");
  }
  std::set<std::uint64_t> sessions;
  for (const auto& [id, source] : commands) sessions.insert(id);
  Source source(agent, 0, kept);
  while (!commands.empty()) {
    std::vector<report::Event> events;
    for (auto it = commands.begin(); it != commands.end();) {
      it = it->second.read(events) ? std::next(it) : commands.erase(it);
    }
    std::vector<report::Event> others;
    source.read(others);
    std::erase_if(others, [&](const report::Event& event) { return !sessions.contains(event.session); });
    events.insert(events.end(), others.begin(), others.end());
    std::stable_sort(events.begin(), events.end(),
                     [](const report::Event& a, const report::Event& b) { return a.time_ns < b.time_ns; });
    print(events, lines, options.json);
    if (options.once) return;
    wait(options);
  }
}

}  // namespace viaduct::tool
