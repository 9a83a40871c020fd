// Fuzz target of what operators are told: a granted program writes anything to its stack's tables, and the agent is
// asked about it as viactl asks, in any order and from any place. Answers must be whole and pages must come to an end;
// no text that viactl shows of them may have characters that a terminal obeys.
//
// The input is a list of steps: a byte with the step, then what it needs.
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "kagent/agent/process/log.h"
#include "kagent/contract/granted_segment.h"
#include "kagent/contract/report.h"
#include "kagent/stack/tables.h"
#include "kagent/tools/viactl/events.h"
#include "kagent/tools/viactl/views.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/unit/agent/agent_fixture.h"

using namespace viaduct;  // NOLINT: one translation unit
using fuzz::Input;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kMostSteps = 100;
constexpr std::size_t kMostPages = 40;

void require_shown(const std::string& text) {
  for (const char c : text) require((c >= ' ' && c < 0x7f) || c == '\n', "a terminal obeys a character");
}

void require_json(const std::string& text) {
  require_shown(text);
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      depth += (text[i] == '{' || text[i] == '[') - (text[i] == '}' || text[i] == ']');
    }
  }
  require(depth == 0 && !quoted, "JSON that does not end");
}

void require_shown(const tool::Table& table, std::size_t width) {
  require_shown(table.text(width));
  require_json(table.json());
}

template <class Record>
struct Page {
  std::vector<Record> records;
  std::uint64_t next = 0;
};

// An agent with a hosted and a granted program. It stays for all inputs: only the granted program's tables change.
class Agent {
 public:
  Agent() {
    hosted_ = open(control::Placement::kHosted);
    granted_ = open(control::Placement::kGranted);
    nics_ = ask<report::Nic>(query(report::What::kNics)).records;
    require(nics_.size() == 2, "an interface is not told of");
  }

  // The tables as they were before anything was written to them.
  void restore() { std::memcpy(tables_, pristine_.data(), pristine_.size()); }
  std::uint8_t* tables() { return tables_; }
  std::size_t bytes() const { return pristine_.size(); }
  const StackLimits& limits() const { return limits_; }
  const tool::Nics& nics() const { return nics_; }

  static report::Query query(report::What what) {
    report::Query out{};
    out.head = control::MessageHead{};
    out.head.kind = report::kKind;
    out.head.bytes = sizeof out;
    out.what = static_cast<std::uint32_t>(what);
    return out;
  }

  template <class Record>
  Page<Record> ask(const report::Query& query) {
    const std::size_t length = exchange(&query, sizeof query);
    report::Answer answer;
    require(length >= sizeof answer, "an answer is too short");
    std::memcpy(&answer, room_, sizeof answer);
    require(answer.head.kind == report::kKind && answer.head.result == vip::kSuccess, "root is refused an answer");
    require(answer.head.bytes == length && answer.record_bytes == sizeof(Record) &&
                length == sizeof answer + std::size_t{answer.count} * sizeof(Record),
            "an answer is not as long as it says");
    Page<Record> out;
    out.records.resize(answer.count);
    if (answer.count != 0) std::memcpy(out.records.data(), room_ + sizeof answer, length - sizeof answer);
    out.next = answer.next;
    return out;
  }

  // A question that may be none. Returns the length of the answer.
  std::size_t exchange(const void* question, std::size_t bytes) {
    TestProgram program(agent_.socket());
    require(program.say(question, bytes), "the agent takes no question");
    agent_.run();
    const ssize_t got = recv(program.fd(), room_, sizeof room_, 0);
    require(got > 0, "the agent does not answer");
    return static_cast<std::size_t>(got);
  }

 private:
  std::unique_ptr<TestProgram> open(control::Placement placement) {
    auto program = std::make_unique<TestProgram>(agent_.socket());
    program->say(TestProgram::hello("nic0", placement));
    agent_.run();
    const auto answer = program->answer();
    require(answer && answer->hello.head.result == vip::kSuccess, "a session is refused");
    if (placement == control::Placement::kGranted) map(*answer);
    return program;
  }

  void map(const TestProgram::Answer& answer) {
    require(answer.fds.size() >= control::kGrantedDescriptors, "no port is granted");
    const std::size_t bytes = answer.hello.granted_segment_bytes;
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, answer.fds[4].get(), 0);
    require(memory != MAP_FAILED, "mmap");
    limits_ = granted_limits(answer.hello);
    tables_ = static_cast<std::uint8_t*>(memory) + granted_stack_offset(limits_);
    pristine_.assign(tables_, tables_ + Tables::footprint(limits_));
  }

  TestAgent agent_{TestAgent::small_config()};
  std::unique_ptr<TestProgram> hosted_, granted_;
  StackLimits limits_;
  std::uint8_t* tables_ = nullptr;
  std::vector<std::uint8_t> pristine_;
  tool::Nics nics_;
  alignas(16) std::byte room_[report::kMaxAnswerBytes];
};

// ---------------------------------------------------------------------------- writing

void scribble(Agent& agent, Input& input) {
  const std::size_t at = input.word() % agent.bytes();
  const auto bytes = input.bytes(1 + input.byte() % 64);
  std::copy_n(bytes.begin(), std::min(bytes.size(), agent.bytes() - at), agent.tables() + at);
}

void fill(Agent& agent, Input& input) {
  const std::size_t at = input.word() % agent.bytes();
  std::memset(agent.tables() + at, input.byte(), std::min<std::size_t>(input.number(), agent.bytes() - at));
}

// Fields that the answers are made of, with values near those that make sense.
void change_vi(Agent& agent, Input& input) {
  const Tables::Parts parts = Tables::parts(agent.limits());
  auto& root = *reinterpret_cast<state::Root*>(agent.tables() + parts.root);
  root.vis.fresh = input.byte() < 250 ? agent.limits().vis : input.word();
  auto& vi = reinterpret_cast<state::Vi*>(agent.tables() + parts.vis)[input.byte() % agent.limits().vis];
  const std::uint8_t what = input.byte();
  vi.session = (what & 1) != 0 ? 0 : input.word();
  vi.program = (what & 2) != 0 ? 0 : input.word();
  vi.state = (what & 4) != 0 ? vip::kConnected : static_cast<vip::State>(input.byte());
  vi.reliability = (what & 8) != 0 ? std::uint16_t{vip::kReliableDelivery} : input.number();
  vi.link.peer = input.byte() < 200 ? 0 : input.word();
  vi.tx.path = static_cast<state::Path>(input.byte());
  vi.tx.sent_time = (what & 16) != 0 ? input.word() : ~0ull;
  vi.tx.send_una = input.word();
  const auto rest = input.bytes(input.byte() % 64);
  if (!rest.empty()) std::memcpy(reinterpret_cast<std::uint8_t*>(&vi.tx) + what % 32, rest.data(), rest.size());
}

void change_history(Agent& agent, Input& input) {
  auto& history = *reinterpret_cast<state::History*>(agent.tables() + Tables::parts(agent.limits()).history);
  state::EventRing& ring = input.byte() % 2 != 0 ? history.commands : history.connections;
  // Often just one more, as a stack would count.
  const std::uint8_t count = input.byte();
  if (count < 200) {
    ring.count += count % 8;
  } else {
    ring.count = input.word() | std::uint64_t{input.word()} << 32;
  }
  const auto bytes = input.bytes(sizeof(state::Event));
  std::memcpy(static_cast<void*>(&ring.events[input.byte() % state::kEventsKept]), bytes.data(), bytes.size());
}

// ---------------------------------------------------------------------------- asking

template <class Record>
std::vector<Record> all_pages(Agent& agent, report::Query query) {
  std::vector<Record> out;
  for (std::size_t pages = 0; pages < kMostPages; ++pages) {
    const Page<Record> page = agent.ask<Record>(query);
    out.insert(out.end(), page.records.begin(), page.records.end());
    if (page.next == 0) return out;
    require(page.next > query.from, "a page leads back");
    query.from = page.next;
  }
  require(false, "pages do not end");
  return out;
}

void show_vis(Agent& agent, Input& input) {
  const tool::Sessions sessions = all_pages<report::Session>(agent, Agent::query(report::What::kSessions));
  require(sessions.size() == 2, "a session is not told of");
  report::Query query = Agent::query(report::What::kVis);
  query.nic = input.byte() % 4;
  query.session = input.byte() % 4 == 3 ? 0 : sessions[1].id;
  query.from = input.byte() < 200 ? 0 : input.word();
  const tool::Vis vis = all_pages<report::Vi>(agent, query);
  for (std::size_t i = 0; i < vis.size(); ++i) {
    require(vis[i].vi < agent.limits().vis && (i == 0 || vis[i - 1].vi < vis[i].vi), "a VI is told of twice, or is none");
    require(vis[i].session == query.session, "a VI of another session");
  }
  const std::size_t width = input.byte();
  require_shown(tool::sessions_table(sessions, agent.nics()), width);
  require_shown(tool::vis_table(vis, sessions, agent.nics()), width);
  require_shown(tool::connections_table(vis, sessions, agent.nics()), width);
}

void show_events(Agent& agent, Input& input) {
  const std::uint8_t what = input.byte();
  report::Query query = Agent::query(what % 2 != 0 ? report::What::kEvents : report::What::kTrace);
  query.session = 1 + what / 2 % 4;
  query.from = what < 200 ? input.byte() : input.word() | std::uint64_t{input.word()} << 32;
  tool::EventLines lines(agent.nics());
  for (report::Event event : agent.ask<report::Event>(query).records) {
    event.text[sizeof event.text - 1] = '\0';
    require_shown(lines.text(event));
    require_json(lines.json(event));
  }
}

void show_status(Agent& agent, Input& input) {
  const auto status = agent.ask<report::Status>(Agent::query(report::What::kStatus)).records;
  require(status.size() == 1 && status[0].sessions == 2, "a session is lost");
  require_shown(tool::status_text(status[0], "there", agent.nics(), input.byte()));
  require_json(tool::status_json(status[0], "there", agent.nics()));
}

void show_counters(Input& input) {
  const auto pattern = input.bytes(input.byte() % 8);
  const auto text = input.bytes(input.number());
  const auto as_text = [](std::span<const std::uint8_t> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  require_shown(tool::counters_table(tool::parse_counters(as_text(text), as_text(pattern)), true), 0);
}

// What no viactl would ask.
void ask_anything(Agent& agent, Input& input) {
  report::Query query = Agent::query(static_cast<report::What>(input.byte() % 10));
  std::uint8_t room[sizeof query + 16] = {};
  query.nic = input.byte(), query.session = input.byte(), query.from = input.byte();
  std::memcpy(room, &query, sizeof query);
  for (std::uint8_t changes = input.byte() % 4; changes > 0; --changes) {
    const std::size_t at = input.byte();
    room[at % sizeof query] = input.byte();
  }
  agent.exchange(room, input.byte() < 200 ? sizeof query : 1 + input.byte() % sizeof room);
  log::set_level(static_cast<unsigned>(report::LogLevel::kOff));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  log::open(log::Target::kFile, "/dev/null", "off");
  static Agent agent;
  agent.restore();
  Input input(data, size);
  for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) {
    switch (input.byte() % 10) {
      case 0: scribble(agent, input); break;
      case 1: fill(agent, input); break;
      case 2:
      case 3: change_vi(agent, input); break;
      case 4: change_history(agent, input); break;
      case 5: show_events(agent, input); break;
      case 6: show_counters(input); break;
      case 7: ask_anything(agent, input); break;
      case 8: show_status(agent, input); break;
      default: show_vis(agent, input); break;
    }
  }
  show_vis(agent, input);
  return 0;
}
