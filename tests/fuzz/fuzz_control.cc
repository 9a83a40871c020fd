// Fuzz target of the control socket and of what programs do to their segments and homes: up to four
// programs connect, say anything, scribble over those and close, in any order. When all have gone
// nothing may be held any more.
//
// The input is a list of steps: a byte with the step in the low half and the program in bits 4 and
// 5, then what the step needs.
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/unit/agent_fixture.h"

using namespace viaduct;  // NOLINT: one translation unit

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kPrograms = 4;
constexpr std::size_t kMostSteps = 500;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz_control: %s\n", what);
  std::abort();
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t out = rest_.front();
    rest_ = rest_.subspan(1);
    return out;
  }
  std::uint16_t number() {
    const unsigned low = byte();
    return static_cast<std::uint16_t>(low | byte() << 8);
  }
  // Up to `most` bytes.
  std::span<const std::uint8_t> bytes(std::size_t most) {
    const auto out = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(out.size());
    return out;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

struct Program {
  std::unique_ptr<TestProgram> socket;
  void* segment = nullptr;
  std::size_t bytes = 0;
  layout::Capacity capacity{};
  Descriptor home;
  std::size_t home_bytes = 0;

  void look(TestAgent& agent) {
    agent.run();
    auto answer = socket->answer();
    if (!answer || answer->fds.size() < 2 || segment != nullptr) return;
    bytes = answer->hello.segment_bytes;
    capacity = answer->hello.capacity;
    segment = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, answer->fds[0].get(), 0);
    require(segment != MAP_FAILED, "mmap");
    if (answer->fds.size() < control::kGrantedDescriptors) return;
    home = std::move(answer->fds[4]);
    home_bytes = answer->hello.home_bytes;
  }
  void close() {
    if (segment != nullptr) munmap(segment, bytes);
    segment = nullptr;
    home.close();
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

void scribble(Program& program, Input& input) {
  if (program.segment == nullptr) return;
  const std::size_t at = (std::size_t{input.number()} * 64 + input.byte() % 64) % program.bytes;
  const auto bytes = input.bytes(1 + input.byte() % 64);
  std::memcpy(static_cast<std::uint8_t*>(program.segment) + at, bytes.data(),
              std::min(bytes.size(), program.bytes - at));
}

void scribble_home(Program& program, Input& input) {
  if (!program.home) return;
  const auto at = static_cast<off_t>(
      (std::size_t{input.number()} * 64 + input.byte() % 64) % program.home_bytes);
  const auto bytes = input.bytes(1 + input.byte() % 64);
  require(pwrite(program.home.get(), bytes.data(), bytes.size(), at) >= 0 || bytes.empty(),
          "pwrite");
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

void step(TestAgent& agent, Program& program, unsigned what, Input& input) {
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
    case 6: agent.server->tick(monotonic_ns() + SessionServer::kPatienceNs); break;
    case 7: scribble(program, input); break;
    case 8: scribble_home(program, input); break;
    case 9:
    case 10: command(program, input); break;
    case 11:
      if (program.segment != nullptr) {
        program.view().header().doorbells.ring(input.number() % layout::Doorbells::kBits);
      }
      break;
    case 12: {
      Nic& nic = *agent.nics[input.byte() % agent.nics.size()];
      agent.server->end_sessions(nic);
      nic.close();
      nic.open(monotonic_ns());
      break;
    }
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
  spdlog::set_level(spdlog::level::off);
  const std::size_t before = open_descriptors();
  {
    TestAgent agent;
    Program programs[kPrograms];
    Input input(data, size);
    for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) {
      const unsigned what = input.byte();
      step(agent, programs[what / 16 % kPrograms], what % 16, input);
    }
    for (Program& program : programs) program.close();
    agent.run();
    // Farewells are said one turn at a time.
    for (std::size_t i = 0; i <= std::size(Grants::kFarewellsNs); ++i) agent.server->tick(~0ull);
    agent.run();
    require(agent.server->grants().ports() == 0 && agent.ports.gone == agent.ports.made,
            "a port is left");
    require(agent.server->sessions() == 0 && agent.server->waiting() == 0, "a session is left");
    for (const auto& nic : agent.nics) {
      const Stack::Usage usage = nic->stack().usage();
      require(usage.sessions == 0 && usage.vis == 0 && usage.cqs == 0 && usage.regions == 0 &&
                  usage.ptags == 0,
              "something of a session is left");
    }
  }
  require(open_descriptors() == before, "a descriptor is left");
  return 0;
}
