// Two programs of one host, with stacks of their own and real rings (xdp/local/local_ring.h) beside the simulated
// network: changes from one path to the other, and peers that take nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <deque>

#include "tests/sim/borrowed_port.h"
#include "tests/sim/pair.h"
#include "tests/sim/sim_paths.h"

namespace viaduct::sim {
namespace {

constexpr MacAddress kTheHost{2, 0, 0, 0, 0, 0x70}, kItsAgent{2, 0, 0, 0, 0, 0x71};

struct OfOneHost {
  explicit OfOneHost(std::uint16_t level, const SimOptions& options = {})
      : reliability(level), network(options, 1), port_a(network.add_host({2, 0, 0, 0, 0, 1}, 1500)),
        port_b(network.add_host({2, 0, 0, 0, 0, 2}, 1500)), through_a(paths(port_a)),
        through_b(paths(port_b)), a(host(port_a, through_a)), b(host(port_b, through_b)),
        client(*a), server(*b), client_vi(client.create_vi(level)), server_vi(server.create_vi(level)),
        hosts{a.get(), b.get()} {
    EXPECT_TRUE(sim::connect(network, hosts, client, client_vi, server, server_vi, port_b.address()));
  }

  static SimPaths* paths(SimPort& port) { return new SimPaths(std::make_unique<BorrowedPort>(port), port, false); }

  std::unique_ptr<Host> host(SimPort& port, SimPaths* through) {
    return std::make_unique<Host>(network, port, std::unique_ptr<Port>(through), StackAddresses{kTheHost, kItsAgent},
                                  small_limits(), "g", 1);
  }

  void give_rings() {
    const int file = memfd_create("local", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(ftruncate(file, local::kFileBytes), 0);
    ASSERT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    ASSERT_EQ(through_a->add_local(port_b.address(), 1, dup(file), 0), nullptr);
    ASSERT_EQ(through_b->add_local(port_a.address(), 2, file, 1), nullptr);
  }

  void wait(std::uint64_t ns, std::span<Host* const> whom) {
    const std::uint64_t end = network.now() + ns;
    run(network, whom, {}, [] { return false; }, end);
    network.advance_to(end);
  }
  void wait(std::uint64_t ns) { wait(ns, hosts); }

  std::uint16_t reliability;
  SimNetwork network;
  SimPort &port_a, &port_b;
  SimPaths *through_a, *through_b;
  std::unique_ptr<Host> a, b;
  Program client, server;
  std::uint32_t client_vi, server_vi;
  std::vector<Host*> hosts;
};

// A stream in one direction, with so many messages under way.
struct OneWay {
  static constexpr std::uint32_t kLongest = 100'000;

  OneWay(OfOneHost& two, std::uint32_t under_way) : at(two), out(under_way * kLongest), in(under_way * kLongest) {
    from = at.client.register_memory(out.data(), out.size());
    to = at.server.register_memory(in.data(), in.size());
    places = under_way;
  }

  std::uint32_t length(std::uint32_t message) const {
    if (all_short) return 4;
    constexpr std::uint32_t kLengths[] = {4, 100, 1456, 1457, 32'768, 65'536, 60'001, 0, 7};
    return kLengths[message % std::size(kLengths)];
  }
  // Posts receives and sends for which there is a place; takes what has completed.
  bool step(std::uint32_t messages) {
    bool did = false;
    for (; receives < messages && receives - received < places; ++receives, did = true) {
      at.server.post_receive(at.server_vi, &in[receives % places * kLongest], kLongest, to);
    }
    for (; sent < std::min(receives, messages) && sent - completed < places; ++sent, did = true) {
      std::byte* const data = &out[sent % places * kLongest];
      for (std::uint32_t i = 0; i < length(sent); ++i) data[i] = pattern(sent, i);
      at.client.post_send(at.client_vi, data, length(sent), from);
    }
    while (const auto done = at.client.done(at.client_vi, false)) {
      EXPECT_EQ(done->status & 0xe, 0u);
      ++completed, did = true;
    }
    while (const auto done = at.server.done(at.server_vi, true)) {
      EXPECT_EQ(done->length, length(received)) << received;
      const std::byte* const data = &in[received % places * kLongest];
      std::uint32_t wrong = 0;
      for (std::uint32_t i = 0; i < done->length; ++i) wrong += data[i] != pattern(received, i);
      EXPECT_EQ(wrong, 0u) << received;
      ++received, did = true;
    }
    return did;
  }
  void run_to(std::uint32_t messages) {
    EXPECT_TRUE(run(at.network, at.hosts, [&] { return step(messages); },
                    [&] { return received == messages && completed == messages; }, at.network.now() + 10 * kSecond))
        << received << " of " << messages;
  }

  OfOneHost& at;
  std::vector<std::byte> out, in;
  bool all_short = false;
  std::uint32_t from, to, places;
  std::uint32_t receives = 0, sent = 0, completed = 0, received = 0;
};

class Local : public testing::TestWithParam<std::uint16_t> {};
INSTANTIATE_TEST_SUITE_P(Levels, Local,
                         testing::Values(vip::kUnreliable, vip::kReliableDelivery, vip::kReliableReception));

// Rings that come in the middle: nothing is lost, sent twice or kept for a gap.
TEST_P(Local, AConnectionChangesItsPathBetweenTwoMessages) {
  OfOneHost two(GetParam());
  OneWay stream(two, 8);
  stream.run_to(40);
  EXPECT_EQ(two.through_a->local(), nullptr);
  // Some of these are under way when the rings come.
  for (int i = 0; i < 3; ++i) stream.step(400), two.a->step();
  two.give_rings();
  stream.run_to(400);
  EXPECT_GT(two.through_a->local()->counters().tx_frames, 300u);
  const std::uint64_t least = two.reliability == vip::kUnreliable ? 0 : 10;
  EXPECT_GE(two.through_b->local()->counters().tx_frames, least);
  for (const Host* const host : two.hosts) {
    EXPECT_EQ(host->stack->counters().retransmissions, 0u);
    EXPECT_EQ(host->stack->counters().frames_held, 0u);
    EXPECT_EQ(host->stack->counters().drop_out_of_sequence, 0u);
  }
}

// A peer that does not say what it has seen: nothing may overtake what is on its way to it.
TEST(UnreliableLocal, WithoutAnAnswerTheConnectionStaysOnItsPath) {
  OfOneHost two(vip::kUnreliable);
  OneWay stream(two, 8);
  stream.all_short = true;
  stream.run_to(40);
  const std::uint64_t end = two.network.now() + 60 * kMillisecond;
  two.network.set_filter([&](const SimPort&, std::span<std::byte> frame) {
    return frame[15] != static_cast<std::byte>(wire::Type::kAck) || two.network.now() > end;
  });
  for (int i = 0; i < 3; ++i) stream.step(400), two.a->step();
  two.give_rings();
  stream.run_to(400);
  EXPECT_EQ(two.through_a->local()->counters().tx_frames, 0u);
}

// The network loses and reorders meanwhile; lost frames are sent again before the path changes.
TEST_P(Local, AConnectionChangesItsPathOnALossyNetwork) {
  if (GetParam() == vip::kUnreliable) GTEST_SKIP() << "it loses what the network loses";
  SimOptions options;
  options.faults.loss = 0.05;
  options.faults.reordering = 0.1;
  OfOneHost two(GetParam(), options);
  OneWay stream(two, 8);
  stream.run_to(30);
  for (int i = 0; i < 3; ++i) stream.step(300), two.a->step();
  two.give_rings();
  stream.run_to(300);
  EXPECT_GT(two.through_a->local()->counters().tx_frames, 200u);
}

// Its ring fills up. On the reliable levels all of it arrives later; on Unreliable Delivery the sender gives up.
TEST_P(Local, APeerThatTakesNothingIsWaitedFor) {
  OfOneHost two(GetParam());
  two.give_rings();
  OneWay stream(two, 64);
  stream.run_to(10);
  Host* const alone[] = {two.a.get()};
  const std::uint64_t patience = GetParam() == vip::kUnreliable ? 4 * kSecond : 50 * kMillisecond;
  // A stack that could send, had it room, asks again and again.
  const auto step = [&] {
    two.network.advance_to(two.network.now() + 1000);
    return stream.step(74);
  };
  run(two.network, alone, step, [&] { return stream.completed == 74; }, two.network.now() + patience);
  EXPECT_GT(two.through_a->local()->counters().full, 0u);
  EXPECT_EQ(two.client.state(two.client_vi), vip::kConnected);
  const std::uint64_t given_up = two.a->stack->counters().local_given_up;
  if (GetParam() != vip::kUnreliable) {
    EXPECT_EQ(given_up, 0u);
    return stream.run_to(74);
  }
  EXPECT_GT(given_up, 0u);
  EXPECT_EQ(stream.completed, 74u);
}

// An end is said behind the data.
TEST_P(Local, ADisconnectComesAfterWhatWasSentBefore) {
  OfOneHost two(GetParam());
  two.give_rings();
  OneWay stream(two, 16);
  stream.run_to(20);
  Host* const alone[] = {two.a.get()};
  run(two.network, alone, [&] { return stream.step(30); }, [&] { return stream.sent == 30; },
      two.network.now() + kMillisecond);
  two.wait(100'000, alone);
  layout::CommandBody bye{};
  bye.op = layout::Op::kDisconnect;
  bye.vi = two.client_vi;
  two.client.now(bye);
  two.wait(kSecond);
  stream.step(30);
  EXPECT_EQ(stream.received, 30u);
  EXPECT_NE(two.server.state(two.server_vi), vip::kConnected);
}

}  // namespace
}  // namespace viaduct::sim
