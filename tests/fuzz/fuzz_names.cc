// Fuzz target of the name service: a program asks for names and addresses, any host answers and
// asks, with any bodies. Every question must come to an end, in time, and every answer must be the
// table's or a host's that was asked.
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kagent/agent/programs/program_environment.h"
#include "kagent/stack/hosted_stack.h"
#include "kagent/contract/wire.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/sim/sim_port.h"

using namespace viaduct;  // NOLINT: one translation unit

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using fuzz::Input;
using fuzz::require;

constexpr std::size_t kMostSteps = 200;
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kLongestAnswer = 2000 * kMs;  // after it no question may be open

StackLimits limits() {
  StackLimits out;
  out.sessions = 2;
  out.vis = out.cqs = out.regions = out.ptags = out.peers = 4;
  out.requests = out.goodbyes = 4;
  out.held = 16;
  out.slots = 1024;
  return out;
}

struct Memory {
  explicit Memory(std::size_t size)
      : bytes(size), at(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    require(at != MAP_FAILED, "mmap");
  }
  ~Memory() { munmap(at, bytes); }
  std::size_t bytes;
  void* at;
};

// A host whose names are those of the real agent.
struct NameHost {
  NameHost(SimNetwork& network, std::uint8_t number, const char* name,
           const std::map<std::string, MacAddress>& table)
      : port(network.add_host({2, 0, 0, 0, 0, number}, 1500)),
        environment(limits().sessions, name, table,
                    [number] { return std::vector<std::string>{"10.0.0." + std::to_string(number),
                                                               "fe80::" + std::to_string(number)}; }),
        memory(Stack::footprint(limits())),
        stack(memory.at, limits(), wire::kDefaultEtherType, port, environment,
              {port.address(), port.address()}, network.now()),
        segment(layout::Offsets(stack.capacity()).total),
        view(segment.at, stack.capacity()) {
    environment.names().set_address(port.address());
    session = stack.open_session(segment.at).value();
  }

  SimPort& port;
  ProgramEnvironment environment;
  Memory memory;
  Stack stack;
  Memory segment;
  layout::View view;
  std::uint32_t session = 0;
};

struct Names {
  std::map<std::string, MacAddress> table{{"alpha", {2, 0, 0, 0, 0, 7}},
                                          {"beta.example.org", {2, 0, 0, 0, 0, 8}},
                                          {"10.0.0.9", {2, 0, 0, 0, 0, 9}}};
  SimNetwork network{fuzz::small_network(), 1};
  NameHost a{network, 1, "host-a.example.org", table};
  NameHost b{network, 2, "host-b", table};

  void run_for(std::uint64_t ns) {
    const std::uint64_t until = network.now() + ns;
    for (unsigned rounds = 0;; ++rounds) {
      require(rounds < 100'000, "a stack never comes to rest");
      const bool worked =
          a.stack.progress(network.now()) + b.stack.progress(network.now()) != 0;
      if (worked && rounds % 64 != 63) continue;
      if (network.now() >= until) return;
      const std::uint64_t next = std::min({network.next_event(), a.stack.next_deadline(),
                                           b.stack.next_deadline(), until});
      network.advance_to(std::max(next, network.now() + 1));
    }
  }

  void submit(const layout::CommandBody& body) {
    for (std::uint32_t i = 0; i < layout::kCommands; ++i) {
      layout::Command& slot = a.view.command(i);
      if (slot.state.load() == layout::kSubmitted) continue;
      slot.body = body;
      slot.state.store(layout::kSubmitted);
      a.view.header().doorbells.ring(layout::command_bit(i));
      return;
    }
  }

  void inject(wire::Type type, const MacAddress& source, std::span<const std::byte> payload) {
    constexpr std::size_t before = wire::kEthernetBytes + wire::kHeaderBytes;
    std::vector<std::byte> frame(
        std::max(before + payload.size() + wire::kChecksumBytes, wire::kMinFrameBytes));
    if (!payload.empty()) std::memcpy(frame.data() + before, payload.data(), payload.size());
    wire::Header header{type};
    header.payload_length = static_cast<std::uint16_t>(payload.size());
    frame.resize(wire::encode(header, a.port.address(), source, wire::kDefaultEtherType,
                              frame.data()));
    network.inject(a.port, frame);
  }
};

constexpr const char* kNames[] = {"alpha",      "ALPHA.example.org", "beta",     "host-b",
                                  "host-a",     "localhost",         "10.0.0.1", "10.0.0.2",
                                  "10.0.0.9",   "fe80::1",           "FE80::2",  "nobody",
                                  "host-b.x.y", ".",                 "::",       "10.0.0"};

std::string name(Input& input) {
  const std::uint8_t which = input.byte();
  if (which < 128) return kNames[which % std::size(kNames)];
  const auto bytes = input.bytes(which - 128u);
  return {bytes.begin(), bytes.end()};
}

MacAddress address(Input& input) {
  const std::uint8_t which = input.byte();
  if (which == 255) return {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  return {2, 0, 0, 0, 0, static_cast<std::uint8_t>(1 + which % 12)};
}

void ask(Names& names, Input& input) {
  static constexpr layout::Op kOps[] = {layout::Op::kHostByName, layout::Op::kHostByAddress,
                                        layout::Op::kDiscover, layout::Op::kDiscovered,
                                        layout::Op::kCancel};
  layout::CommandBody body{};
  const std::uint8_t what = input.byte();
  body.op = kOps[what % std::size(kOps)];
  body.entries = what >= 128 ? input.byte() : 0;
  body.handle = input.byte() % layout::kCommands;
  const std::string text = name(input);
  text.copy(body.name, sizeof body.name);
  const MacAddress host = address(input);
  std::memcpy(body.remote.host, host.data(), host.size());
  names.submit(body);
}

void say(Names& names, Input& input) {
  const bool reply = input.byte() % 4 != 0;
  wire::NameBody body{};
  // Questions are numbered by the command that asks, and few are under way.
  const std::uint8_t number = input.byte();
  body.request = number < 250 ? number % 8u : input.word();
  const std::string text = name(input);
  body.name_length = static_cast<std::uint8_t>(std::min(text.size(), wire::kMaxNameBytes));
  std::memcpy(body.name.data(), text.data(), body.name_length);
  std::byte room[256];
  const std::size_t bytes = wire::encode(body, room);
  const auto type = reply ? wire::Type::kNameReply : wire::Type::kNameQuery;
  names.inject(type, address(input), {room, bytes});
}

void say_raw(Names& names, Input& input) {
  const auto bytes = input.bytes(input.byte());
  const auto type = input.byte() % 2 ? wire::Type::kNameReply : wire::Type::kNameQuery;
  names.inject(type, address(input), std::as_bytes(bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Names names;
  Input input(data, size);
  static constexpr std::uint64_t kTimes[] = {0, 1, 20, 50, 100, 300, 700, 1500};
  for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) {
    const std::uint8_t what = input.byte();
    switch (what % 8) {
      case 0:
      case 1:
      case 2: ask(names, input); break;
      case 3:
      case 4: say(names, input); break;
      case 5: say_raw(names, input); break;
      default: names.run_for(kTimes[what / 8 % std::size(kTimes)] * kMs); break;
    }
  }
  names.run_for(kLongestAnswer);
  for (std::uint32_t i = 0; i < layout::kCommands; ++i) {
    require(names.a.view.command(i).state.load() != layout::kSubmitted,
            "a question has not come to an end");
  }
  for (NameHost* host : {&names.a, &names.b}) {
    host->stack.close_session(host->session, names.network.now());
    names.run_for(0);
    require(host->port.outstanding() == 0, "frames of the port are left");
  }
  return 0;
}
