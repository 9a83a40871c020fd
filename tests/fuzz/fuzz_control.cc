// Fuzz target of the control socket and of what programs do to their segments and granted segments:
// up to four programs connect, say anything, scribble over those and close, in any order. When all
// have gone nothing may be held any more.
//
// The input is a byte for the configuration and a list of steps: a byte with the step in the low half
// and the program in bits 4 and 5, then what the step needs.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "kagent/agent/process/log.h"
#include "kagent/contract/report.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/unit/agent/agent_fixture.h"

using namespace viaduct;  // NOLINT: one translation unit
using fuzz::Input;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kPrograms = 4;
constexpr std::size_t kCrowd = 12;  // more programs than there may be sessions
constexpr std::size_t kMostSteps = 500;

struct Program {
  std::unique_ptr<TestProgram> socket;
  void* segment = nullptr;
  std::size_t bytes = 0;
  layout::Capacity capacity{};
  Descriptor granted_segment, umem;
  std::size_t granted_segment_bytes = 0;
  MacAddress port{};
  control::FamilySecret family{};

  void look(TestAgent& agent) {
    agent.run();
    auto answer = socket->answer();
    if (!answer || answer->fds.size() < 2 || segment != nullptr) return;
    bytes = answer->hello.segment_bytes;
    capacity = answer->hello.capacity;
    family = answer->hello.family;
    segment = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, answer->fds[0].get(), 0);
    require(segment != MAP_FAILED, "mmap");
    if (answer->fds.size() < control::kGrantedDescriptors) return;
    granted_segment = std::move(answer->fds[4]);
    umem = std::move(answer->fds[3]);
    port = answer->hello.port.address;
    granted_segment_bytes = answer->hello.granted_segment_bytes;
  }
  void close() {
    if (segment != nullptr) munmap(segment, bytes);
    segment = nullptr;
    granted_segment.close();
    umem.close();
    socket.reset();
  }
  layout::View view() const { return layout::View(segment, capacity); }
};

void say(Program& program, TestAgent& agent, std::span<const std::uint8_t> message, bool fds) {
  if (program.socket == nullptr || message.empty()) return;
  const int some[] = {0, 1, 2};
  program.socket->say(message.data(), message.size(),
                      fds ? std::span<const int>(some) : std::span<const int>());
  program.look(agent);
}

void say_hello(Program& program, TestAgent& agent, Input& input) {
  const unsigned changes = input.byte();
  control::Hello hello =
      TestProgram::hello("nic0", static_cast<control::Placement>(changes / 32 % 3));
  std::uint8_t room[sizeof hello + 256] = {};
  for (unsigned i = 0; i < changes % 8; ++i) {
    const std::size_t at = input.byte();
    reinterpret_cast<std::uint8_t*>(&hello)[at % sizeof hello] = input.byte();
  }
  std::memcpy(room, &hello, sizeof hello);
  const std::size_t length = changes < 128 ? sizeof hello : 1 + input.byte();
  say(program, agent, {room, length}, changes % 32 >= 16);
}

// Another process of a family, on a connection of its own.
void say_attach(Program& program, const Program& other, TestAgent& agent, Input& input) {
  control::Attach attach{};
  attach.head.kind = static_cast<std::uint16_t>(control::Kind::kAttach);
  attach.head.bytes = sizeof attach;
  const std::uint8_t what = input.byte();
  attach.family = other.family;
  attach.family.bytes[what % sizeof attach.family.bytes] ^= what / 128;
  attach.parent = what % 8;
  attach.forks = what / 8 % 4;
  program.close();
  program.socket = std::make_unique<TestProgram>(agent.socket());
  std::uint8_t room[sizeof attach];
  std::memcpy(room, &attach, sizeof attach);
  say(program, agent, {room, sizeof room}, false);
}

// The queries of an operator's tool, about sessions of any sort.
void say_query(Program& program, TestAgent& agent, Input& input) {
  const std::uint8_t what = input.byte();
  report::Query query{};
  query.head = control::MessageHead{};
  query.head.kind = report::kKind;
  query.head.bytes = sizeof query;
  query.what = what % 8;
  query.nic = what / 8 % 4;
  query.session = what / 32;
  query.from = (what & 1) != 0 ? input.number() : 0;
  program.close();
  program.socket = std::make_unique<TestProgram>(agent.socket());
  std::uint8_t room[sizeof query];
  std::memcpy(room, &query, sizeof query);
  say(program, agent, {room, sizeof room}, false);
}

// A good request of another kind, version or length.
void say_other(Program& program, Program& other, TestAgent& agent, Input& input) {
  control::Hello hello = TestProgram::hello("nic0");
  const std::uint8_t what = input.byte();
  if (what >= 208 && what < 224) return say_query(program, agent, input);
  if (what >= 224) return say_attach(program, other, agent, input);
  if (what & 1) hello.head.kind = static_cast<std::uint16_t>(what & 32 ? control::Kind::kNic : control::Kind::kCounters);
  if (what & 2) hello.head.version = static_cast<std::uint16_t>(input.number());
  if (what & 4) hello.layout_version = input.number();
  if (what & 8) std::memset(hello.device, 'x', sizeof hello.device);
  const bool short_one = (what & 16) != 0;
  hello.head.bytes = short_one ? sizeof hello.head : sizeof hello;
  std::uint8_t room[sizeof hello];
  std::memcpy(room, &hello, sizeof hello);
  say(program, agent, {room, hello.head.bytes}, false);
}

// A program that has had a port comes to the next agent, perhaps with another program's.
void say_adopt(Program& program, Program& other, TestAgent& agent, Input& input) {
  const std::uint8_t what = input.byte();
  const Program& whose = (what & 1) != 0 ? other : program;
  control::Adopt adopt{};
  adopt.head.kind = static_cast<std::uint16_t>(control::Kind::kAdopt);
  adopt.head.bytes = sizeof adopt;
  std::strcpy(adopt.device, (what & 2) != 0 ? "nic1" : "nic0");
  std::copy(whose.port.begin(), whose.port.end(), adopt.port);
  adopt.granted_segment = (what & 4) != 0 ? static_cast<std::int32_t>(input.number()) : whose.granted_segment.get();
  adopt.umem = (what & 8) != 0 ? other.umem.get() : program.umem.get();
  std::uint8_t room[sizeof adopt + 16] = {};
  for (unsigned i = 0; i < what / 64u; ++i) {
    const std::size_t at = input.byte();
    reinterpret_cast<std::uint8_t*>(&adopt)[at % sizeof adopt] = input.byte();
  }
  std::memcpy(room, &adopt, sizeof adopt);
  if (program.segment != nullptr) munmap(program.segment, program.bytes);
  program.segment = nullptr;
  program.socket = std::make_unique<TestProgram>(agent.socket());
  say(program, agent, {room, (what & 16) != 0 ? sizeof room : sizeof adopt}, (what & 32) != 0);
}

// Many programs that come at once: silent ones, or one too many of those that speak.
void crowd(TestAgent& agent, bool silent) {
  std::vector<std::unique_ptr<TestProgram>> programs;
  for (std::size_t i = 0; i < (silent ? RequestListener::kMostWaiting + 2 : kCrowd); ++i) {
    programs.push_back(std::make_unique<TestProgram>(agent.socket()));
    if (!silent) programs.back()->say(TestProgram::hello());
    if (i % 32 == 31) agent.run();
  }
  agent.run();
}

void scribble(Program& program, Input& input) {
  if (program.segment == nullptr) return;
  const std::size_t at = (std::size_t{input.number()} * 64 + input.byte() % 64) % program.bytes;
  const auto bytes = input.bytes(1 + input.byte() % 64);
  std::memcpy(static_cast<std::uint8_t*>(program.segment) + at, bytes.data(),
              std::min(bytes.size(), program.bytes - at));
}

void scribble_granted_segment(Program& program, Input& input) {
  if (!program.granted_segment) return;
  const auto at = static_cast<off_t>(
      (std::size_t{input.number()} * 64 + input.byte() % 64) % program.granted_segment_bytes);
  const auto bytes = input.bytes(1 + input.byte() % 64);
  require(pwrite(program.granted_segment.get(), bytes.data(), bytes.size(), at) >= 0 || bytes.empty(),
          "pwrite");
}

// One word again and again looks more like a stack's memory than single bytes do.
void fill_granted_segment(Program& program, Input& input) {
  if (!program.granted_segment) return;
  const std::uint32_t word = input.byte();
  const std::size_t at = std::size_t{input.number()} * 64 % program.granted_segment_bytes;
  const std::vector<std::uint32_t> words(1 + input.byte() * 16, word);
  require(pwrite(program.granted_segment.get(), words.data(), words.size() * sizeof word,
                 static_cast<off_t>(at)) >= 0, "pwrite");
}

void command(Program& program, Input& input) {
  if (program.segment == nullptr) return;
  const std::uint32_t number = input.byte() % layout::kCommands;
  layout::Command& slot = program.view().command(number);
  slot.body.op = static_cast<layout::Op>(input.byte());
  const std::size_t at = input.number() % sizeof slot.body;
  const auto bytes = input.bytes(input.byte());
  std::memcpy(reinterpret_cast<std::uint8_t*>(&slot.body) + at, bytes.data(),
              std::min(bytes.size(), sizeof slot.body - at));
  slot.state.store(layout::kSubmitted);
  program.view().header().doorbells.ring(layout::command_bit(number));
}

void step(TestAgent& agent, Program& program, Program& other, unsigned what, Input& input) {
  switch (what) {
    case 0:
      program.close();
      program.socket = std::make_unique<TestProgram>(agent.socket());
      break;
    case 1: say(program, agent, input.bytes(4 * input.byte()), false); break;
    case 2: say(program, agent, input.bytes(input.byte()), true); break;
    case 3:
    case 4: say_hello(program, agent, input); break;
    case 5: program.close(); break;
    case 6: agent.server->tick(monotonic_ns() + RequestListener::kPatienceNs); break;
    case 7: scribble(program, input); break;
    case 8: scribble_granted_segment(program, input); break;
    case 9:
    case 10: command(program, input); break;
    case 11:
      if (program.segment != nullptr) {
        program.view().header().doorbells.ring(input.number() % layout::Doorbells::kBits);
      }
      break;
    case 12: {
      AgentNic& nic = *agent.nics[input.byte() % agent.nics.size()];
      agent.server->end_sessions(nic);
      nic.close();
      nic.open(monotonic_ns());
      break;
    }
    case 13:
      switch (input.byte() % 8) {
        case 0: agent.ports.why = agent.ports.why.empty() ? "no port today" : ""; break;
        case 1: agent.ports.kept = !agent.ports.kept; break;
        case 2: crowd(agent, true); break;
        case 3: crowd(agent, false); break;
        case 5: say_adopt(program, other, agent, input); break;
        case 6:
          // The next agent is this one.
          agent.server->hand_over();
          agent.server->inherit(*agent.nics[0]);
          break;
        case 4:
          agent.server->end_sessions(*agent.nics[0]);
          agent.nics[0]->close();
          agent.server->tick(monotonic_ns());
          break;
        default: fill_granted_segment(program, input); break;
      }
      if (!agent.nics[0]->is_open()) {
        say_other(program, other, agent, input);
        agent.nics[0]->open(monotonic_ns());
      }
      break;
    case 14: say_other(program, other, agent, input); break;
    default: agent.run(); break;
  }
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 256; ++fd) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  log::open(log::Target::kStandardError, "", "off");
  const std::size_t before = open_descriptors();
  {
    Input input(data, size);
    Config config = TestAgent::small_config();
    const std::uint8_t shape = input.byte();
    config.granted.ports = shape % 4 == 1 ? 1 : 16;
    config.placement = static_cast<control::Placement>(shape / 4 % 4 % 3);
    TestAgent agent(config);
    Program programs[kPrograms];
    for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) {
      const unsigned what = input.byte();
      step(agent, programs[what / 16 % kPrograms], programs[what / 64], what % 16, input);
    }
    for (Program& program : programs) program.close();
    agent.ports.kept = false;
    agent.run();
    // LastDisconnects are said one turn at a time.
    for (std::size_t i = 0; i <= std::size(Grants::kDisconnectTimesNs); ++i) agent.server->tick(~0ull);
    agent.run();
    require(agent.server->grants().ports() == 0 && agent.ports.gone == agent.ports.made,
            "a port is left");
    require(agent.server->sessions() == 0 && agent.server->waiting() == 0, "a session is left");
    for (const auto& nic : agent.nics) {
      const Stack::Usage usage = nic->stack().usage();
      require(usage.sessions == 0 && usage.vis == 0 && usage.cqs == 0 && usage.regions == 0 &&
                  usage.ptags == 0 && usage.members == 0,
              "something of a session is left");
    }
  }
  // Threads of the agent's close what may take long, also when it has gone.
  for (int i = 0; i < 10'000 && open_descriptors() != before; ++i) usleep(1000);
  require(open_descriptors() == before, "a descriptor is left");
  return 0;
}
