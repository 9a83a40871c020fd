// Fuzz target of runs: frames of a train that the stack takes in a loop, as each goes on where the one before ended, and not
// by the way of a frame by itself (Receiver::take_run). The same frames come to two worlds of one seed, in one turn of the
// stack to one and each in a turn of its own to the other: both must end in the same state.
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kagent/contract/wire.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/sim/sim_host.h"

using namespace viaduct;  // NOLINT: one translation unit

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using fuzz::Input;
using fuzz::require;

constexpr std::uint32_t kRoom = 40'000;   // of a receive
constexpr unsigned kReceives = 3;
constexpr std::size_t kMostFrames = 64;   // a burst of the stack at most
constexpr std::size_t kMostSteps = 40;
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint16_t kLevels[] = {vip::kReliableDelivery, vip::kReliableReception, vip::kUnreliable};

SimOptions with_trains() {
  SimOptions out = fuzz::small_network();
  out.trains = true;
  return out;
}

// All that a world's receiver has after a train, but for its acknowledgements, which go by turns, and for the peer's, which the
// frames of a run have in common and of which one is looked at.
struct State {
  std::vector<std::byte> memory;
  std::vector<sim::Completion> completions;
  std::map<std::string, std::uint64_t> counters;
  std::uint32_t held = 0, state = 0;
};

struct World {
  SimNetwork network{with_trains(), 1};
  sim::Host a{network, 1, sim::small_limits(), 1}, b{network, 2, sim::small_limits(), 1};
  sim::Host* hosts[2] = {&a, &b};
  std::unique_ptr<sim::Program> client = std::make_unique<sim::Program>(a), server = std::make_unique<sim::Program>(b);
  std::uint32_t from, to;
  std::vector<std::byte> out, in;
  std::uint32_t out_handle, in_handle;
  std::vector<std::vector<std::byte>> train;
  std::uint32_t full = 0;  // data of a frame at most

  explicit World(std::uint8_t shape)
      : from(client->create_vi(kLevels[shape % 3])),
        to(server->create_vi(kLevels[shape % 3], 0, 0, true)),
        out(kRoom),
        in(kRoom * std::size_t{kReceives}, std::byte{0xee}),
        out_handle(client->register_memory(out.data(), out.size())),
        in_handle(server->register_memory(in.data(), in.size(), 0, true)) {
    require(sim::connect(network, hosts, *client, from, *server, to, b.port.address()), "the programs can't connect");
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i * 7 + (i >> 8));
    network.set_filter([this](const SimPort& port, std::span<std::byte> frame) {
      wire::Decoded decoded;
      if (&port == &a.port && wire::decode(frame, decoded) == wire::Malformed::kNone) {
        full = std::max<std::uint32_t>(full, decoded.header.payload_length);
      }
      return true;
    });
    // Trains are tried for the first long message.
    server->post_receive(to, in.data(), kRoom, in_handle);
    client->post_send(from, out.data(), kRoom, out_handle);
    run_for(kSecond / 10);
    require(a.stack->counters().trains_used == 1 && server->done(to, true) && client->done(from, false), "there are no trains");
    std::fill(in.begin(), in.end(), std::byte{0xee});
    for (unsigned i = 0; i < kReceives; ++i) {
      // The last one is too short for most messages.
      server->post_receive(to, &in[i * std::size_t{kRoom}], i + 1 == kReceives ? kRoom / 3 : kRoom, in_handle, i);
    }
    run_for(kSecond / 100);
  }

  void run_for(std::uint64_t ns) {
    sim::run(network, hosts, {}, [] { return false; }, network.now() + ns);
  }

  // The frames of messages from the client, which do not arrive.
  void make_train(Input& input) {
    network.set_filter([this](const SimPort& port, std::span<std::byte> frame) {
      if (&port == &a.port && train.size() < kMostFrames) train.emplace_back(frame.begin(), frame.end());
      return false;
    });
    const unsigned messages = 1 + input.byte() % 2;
    for (unsigned i = 0; i < messages; ++i) {
      std::uint32_t bytes = 1 + input.number() % (kRoom - full);
      const std::uint8_t kind = input.byte();
      if (kind / 4 % 4 == 0) bytes += full - bytes % full;  // the last frame is as long as the others
      if (kind % 4 == 0) {
        client->post_rdma(from, layout::kOpRdmaWrite, {reinterpret_cast<std::uint64_t>(out.data()), out_handle, bytes},
                          in.data(), in_handle);
      } else {
        client->post_send(from, out.data(), bytes, out_handle, i, i);
      }
    }
    // No timer runs out meanwhile.
    for (unsigned i = 0; i < 8; ++i) a.step();
  }

  void change(Input& input) {
    if (train.empty()) return;
    const std::uint8_t what = input.byte();
    std::vector<std::byte>& frame = train[input.byte() % train.size()];
    switch (what % 8) {
      case 0: std::swap(frame, train[input.byte() % train.size()]); return;
      case 1:
        if (train.size() < kMostFrames) train.insert(train.begin() + input.byte() % static_cast<int>(train.size()), frame);
        return;
      case 2: train.erase(train.begin() + input.byte() % static_cast<int>(train.size())); return;
      case 3: frame.resize(std::max<std::size_t>(15, frame.size() - std::min<std::size_t>(frame.size(), input.byte() % 64))); return;
      case 4: frame.resize(frame.size() + input.byte() % 8); return;
      case 5: frame[input.number() % frame.size()] ^= static_cast<std::byte>(input.byte()); return;
      default: change_header(frame, what, input);
    }
  }

  static void change_header(std::vector<std::byte>& frame, std::uint8_t what, Input& input) {
    wire::Decoded decoded;
    if (wire::decode(frame, decoded) != wire::Malformed::kNone) return;
    wire::Header header = decoded.header;
    switch (what / 8 % 8) {
      case 0: header.psn += static_cast<std::uint32_t>(static_cast<std::int8_t>(input.byte())); break;
      case 1: header.offset += static_cast<std::uint32_t>(static_cast<std::int8_t>(input.byte())); break;
      case 2: header.flags ^= input.byte() % 2 != 0 ? wire::kFlagLast : input.byte(); break;
      case 3: header.message_length = input.number(); break;
      case 4: header.ack += static_cast<std::uint32_t>(static_cast<std::int8_t>(input.byte())); break;
      case 5: header.immediate ^= input.byte(); break;
      case 6: header.window = input.number(); break;
      default: header.offset = input.number(); break;
    }
    // wire::encode() would set a checksum's place too.
    std::vector<std::byte> again(frame.size() + wire::kChecksumBytes + wire::kMinFrameBytes);
    std::memcpy(again.data(), frame.data(), frame.size());
    wire::encode(header, decoded.destination, decoded.source, wire::load16(frame.data() + 12), again.data());
    std::memcpy(frame.data(), again.data(), std::min(frame.size(), wire::kEthernetBytes + wire::kHeaderBytes));
  }

  void deliver(bool at_once) {
    for (const auto& frame : train) {
      network.inject(b.port, frame, true);
      if (!at_once) rest();
    }
    rest();
  }
  void rest() {
    for (unsigned i = 0; i < 16; ++i) b.step();
  }

  State state() {
    State now;
    now.memory = in;
    while (const auto done = server->done(to, true)) now.completions.push_back(*done);
    for_each(b.stack->counters(), [&](const char* name, const char*, std::uint64_t value) {
      const std::string_view one = name;
      if (one.starts_with("drop_") || one.ends_with("_received") || one == "frames_held") now.counters[name] = value;
      if (one == "drop_bad_ack" || one == "acks_received") now.counters.erase(name);
    });
    now.held = static_cast<std::uint32_t>(b.stack->usage().held);
    now.state = server->state(to);
    return now;
  }
};

void require_same(const State& one, const State& other) {
  for (const auto& [name, value] : one.counters) {
    if (other.counters.at(name) == value) continue;
    std::fprintf(stderr, "%s: %llu and %llu\n", name.c_str(), static_cast<unsigned long long>(value),
                 static_cast<unsigned long long>(other.counters.at(name)));
    require(false, "frames of a run are counted otherwise");
  }
  require(one.memory == other.memory, "a run brings other data");
  require(one.completions.size() == other.completions.size(), "a run completes another number of receives");
  for (std::size_t i = 0; i < one.completions.size(); ++i) {
    const sim::Completion &x = one.completions[i], &y = other.completions[i];
    require(x.status == y.status && x.length == y.length && x.immediate == y.immediate && x.tag == y.tag,
            "a receive completes otherwise");
  }
  require(one.held == other.held, "a run keeps other frames");
  require(one.state == other.state, "a run leaves the connection otherwise");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  State states[2], ends[2];
  for (const bool at_once : {false, true}) {
    Input input(data, size);
    World world(input.byte());
    world.make_train(input);
    for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) world.change(input);
    world.deliver(at_once);
    states[at_once] = world.state();
    // What is missing is sent again.
    world.network.set_filter({});
    world.run_for(kSecond);
    ends[at_once] = world.state();
    ends[at_once].counters.clear();
  }
  require_same(states[0], states[1]);
  require_same(ends[0], ends[1]);
  return 0;
}
