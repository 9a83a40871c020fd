// Forged frames and hostile hosts can do nothing to requests on their way.
#include <gtest/gtest.h>

#include <span>

#include "tests/sim/forward.h"

namespace viaduct::sim {
namespace {

void inject_moved(World& world, SimPort& to, const MacAddress& source, std::uint32_t vi,
                  std::uint64_t key, std::uint32_t number, std::span<const std::byte> payload) {
  wire::Header header{};
  header.type = wire::Type::kConnectMoved;
  header.vi = vi;
  header.key = key;
  header.psn = number;
  header.payload_length = static_cast<std::uint16_t>(payload.size());
  std::byte frame[200] = {};
  std::memcpy(frame + wire::kEthernetBytes + wire::kHeaderBytes, payload.data(), payload.size());
  const std::size_t length =
      wire::encode(header, to.address(), source, wire::kDefaultEtherType, frame);
  world.network.inject(to, {frame, length});
}

TEST(Forward, MovedFramesWithoutKeyOrNumberAreIgnored) {
  World world(1);
  Program& client = world.open(0, false);
  const std::uint32_t vi = client.create_vi(vip::kReliableDelivery);
  wire::ConnectBody sent{};
  std::set<MacAddress> asked_of;
  world.network.set_filter([&](const SimPort&, std::span<std::byte> frame) {
    wire::Decoded d;
    if (wire::decode(frame, d) == wire::Malformed::kNone &&
        d.header.type == wire::Type::kConnectRequest) {
      wire::decode(d.payload, sent);
      asked_of.insert(d.destination);
    }
    return true;
  });
  std::optional<CommandBody> asked;
  client.command(request(vi, world.address(1), 7, 60'000),
                 [&](const CommandBody& b) { asked = b; });
  world.wait(kMillisecond);
  SimPort& to = world.agents[0]->port;
  const MacAddress from = world.address(1);
  const std::byte elsewhere[7] = {std::byte{2}, {}, {}, {}, {}, std::byte{77}, {}};
  const auto six = std::span(elsewhere).first(6);
  inject_moved(world, to, from, vi, sent.key + 1, sent.request, six);
  inject_moved(world, to, from, vi, sent.key, sent.request + 1, six);
  inject_moved(world, to, from, vi + 1, sent.key, sent.request, six);
  inject_moved(world, to, from, 0x00ffffff, sent.key, sent.request, six);
  inject_moved(world, to, from, vi, sent.key, sent.request, std::span(elsewhere).first(5));
  inject_moved(world, to, from, vi, sent.key, sent.request, std::span(elsewhere).first(7));
  std::byte group[6] = {std::byte{1}};
  inject_moved(world, to, from, vi, sent.key, sent.request, group);
  std::byte none[6] = {};
  inject_moved(world, to, from, vi, sent.key, sent.request, none);
  world.wait(kSecond);
  EXPECT_EQ(asked_of, (std::set<MacAddress>{from}));
  EXPECT_GE(world.agents[0]->stack->counters().drop_stale_answer, 6u);
  EXPECT_EQ(world.agents[0]->stack->counters().drop_bad_body, 2u);
  // The same with all that is needed is believed.
  inject_moved(world, to, from, vi, sent.key, sent.request, six);
  world.wait(kMillisecond);
  EXPECT_EQ(asked_of.size(), 2u);
  EXPECT_FALSE(asked.has_value());
}

// An attacker that knows key and number sends the requester round in circles, and to ever new places.
TEST(Forward, SendingARequesterInCirclesDoesNotMakeItBusy) {
  for (const bool new_places : {false, true}) {
    World world(1);
    Program& client = world.open(0, true);
    const std::uint32_t vi = client.create_vi(vip::kReliableDelivery);
    unsigned requests = 0;
    std::uint8_t next = 0;
    GrantedHost& stack = *world.granted_of(client);
    wire::ConnectBody sent{};
    MacAddress last{};
    bool answer = false;
    world.network.set_filter([&](const SimPort&, std::span<std::byte> frame) {
      wire::Decoded d;
      if (wire::decode(frame, d) != wire::Malformed::kNone ||
          d.header.type != wire::Type::kConnectRequest) {
        return true;
      }
      wire::decode(d.payload, sent);
      last = d.destination;
      ++requests;
      answer = true;
      return false;
    });
    client.command(request(vi, world.address(1), 7, 60'000), {});
    const auto liar = [&] {
      if (!answer) return false;
      answer = false;
      ++next;
      const std::byte place[6] = {std::byte{2}, {}, {}, {}, std::byte{9},
                                  static_cast<std::byte>(new_places ? next : next % 2)};
      inject_moved(world, stack.port, last, vi, sent.key, sent.request, place);
      return true;
    };
    run(world.network, world.hosts, liar, [] { return false; }, world.network.now() + kSecond);
    EXPECT_GT(requests, 5u);
    EXPECT_LT(requests, 400u) << new_places;
  }
}

TEST(Forward, ListenersOfNonsenseHarmNobodyElse) {
  for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    Program& bad = world.open(1, true);
    layout::View& view = world.granted_of(bad)->control_view;
    SimRandom random(seed);
    std::uint64_t last = 0;
    const auto scribble = [&] {
      if (world.network.now() == last) return false;
      last = world.network.now();
      auto* bytes = reinterpret_cast<std::byte*>(&view.listeners());
      for (int i = 0; i < 200; ++i) {
        bytes[random.below(sizeof(layout::Listeners))] = static_cast<std::byte>(random.next());
      }
      for (auto& word : view.listeners().active) word.store(random.next() | random.next());
      layout::Listener& listener = view.listeners().listener[random.below(layout::kListeners)];
      listener.state.store(1 + static_cast<std::uint32_t>(random.below(2)));
      listener.local.discriminator_length = static_cast<std::uint16_t>(random.below(70'000));
      view.header().doorbells.ring(layout::kListenerBit);
      return false;
    };
    for (int round = 0; round < 10; ++round) {
      Program& client = world.open(0, false);
      Program& server = world.open(1, false);
      const std::uint32_t client_vi = client.create_vi(vip::kReliableDelivery);
      const std::uint32_t server_vi = server.create_vi(vip::kReliableDelivery);
      std::optional<CommandBody> waited, accepted, asked;
      client.command(request(client_vi, world.address(1), 7, 60'000),
                     [&](const CommandBody& b) { asked = b; });
      run(world.network, world.hosts, scribble, [] { return false; },
          world.network.now() + random.below(20) * kMillisecond);
      server.command(wait_for(7, 60'000), [&](const CommandBody& b) {
        server.command(with_handle(Op::kConnectAccept, b.handle, server_vi),
                       [&](const CommandBody& c) { accepted = c; });
      });
      run(world.network, world.hosts, scribble, [&] { return asked && accepted; },
          world.network.now() + 20 * kSecond);
      ASSERT_TRUE(asked && accepted);
      EXPECT_EQ(asked->result, vip::kSuccess);
      world.programs.pop_back();
      world.programs.pop_back();
    }
  }
}

}  // namespace
}  // namespace viaduct::sim
