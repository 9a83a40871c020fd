// Granted programs that are stopped for longer than a silent peer is waited for: their agents answer
// for them, up to a limit.
#include "tests/sim/forward.h"
#include "kagent/stack/remains.h"

namespace viaduct::sim {
namespace {

class Stopped : public testing::TestWithParam<Places> {};

std::vector<Places> servers_with_stacks() {
  std::vector<Places> out;
  for (const Places& places : all_places()) {
    if (places.server_granted && !places.same_program) out.push_back(places);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Programs, Stopped, testing::ValuesIn(servers_with_stacks()),
                         [](const auto& test) {
                           std::string name = name_of(test.param);
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

struct Connected : Two {
  explicit Connected(const Places& places, const SimFaults& faults = {}, std::uint64_t its_seed = 1)
      : Two(its_seed, places, faults) {
    EXPECT_TRUE(sim::connect(network, hosts, client, client_vi, server, server_vi, server_host));
  }
  void expect_alive() {
    EXPECT_EQ(client.state(client_vi), vip::kConnected);
    EXPECT_EQ(server.state(server_vi), vip::kConnected);
    talk(*this, client, client_vi, server, server_vi);
  }
};

TEST_P(Stopped, ProgramWithAnIdleConnectionKeepsIt) {
  Connected two(GetParam());
  two.stop(two.server);
  two.wait(10 * kSecond);
  two.resume(two.server);
  two.expect_alive();
  two.expect_clean_end();
}

// In either direction there is something that is not acknowledged.
TEST_P(Stopped, ProgramKeepsConnectionsWithDataUnderWay) {
  Connected two(GetParam());
  std::vector<std::byte> out(3000, std::byte{1}), there(3000), here(3000);
  const std::uint32_t from = two.client.register_memory(out.data(), out.size());
  const std::uint32_t to = two.server.register_memory(there.data(), there.size());
  const std::uint32_t back = two.client.register_memory(here.data(), here.size());
  two.server.post_receive(two.server_vi, there.data(), 3000, to);
  two.client.post_receive(two.client_vi, here.data(), 3000, back);
  two.wait(kMillisecond);
  // The stack of the server sends this, and then nothing drives it.
  two.server.post_send(two.server_vi, there.data(), 3000, to);
  two.granted_of(two.server)->step();
  two.stop(two.server);
  two.client.post_send(two.client_vi, out.data(), 3000, from);
  two.wait(10 * kSecond);
  EXPECT_FALSE(two.client.done(two.client_vi, false).has_value());
  two.resume(two.server);
  two.wait(kSecond);
  EXPECT_TRUE(two.client.done(two.client_vi, true).has_value());
  EXPECT_TRUE(two.server.done(two.server_vi, false).has_value());
  EXPECT_TRUE(two.client.done(two.client_vi, false).has_value());
  EXPECT_TRUE(two.server.done(two.server_vi, true).has_value());
  EXPECT_EQ(there, out);
  two.expect_alive();
  two.expect_clean_end();
}

TEST_P(Stopped, ProgramIsGivenUpAfterTheConfiguredTime) {
  Connected two(GetParam());
  two.stop(two.server);
  const std::uint64_t limit = two.agents[0]->limits.stopped_peer_ns;
  two.wait(limit - 10 * kSecond);
  EXPECT_EQ(two.client.state(two.client_vi), vip::kConnected);
  two.wait(20 * kSecond);
  EXPECT_EQ(two.client.state(two.client_vi), vip::kError);
  two.resume(two.server);
  two.wait(10 * kSecond);
  EXPECT_EQ(two.server.state(two.server_vi), vip::kError);
  two.expect_clean_end();
}

// A stack that was not driven for long has heard no peer, which is not its peers' fault: also if none of their frames
// have been kept for it.
TEST(StoppedStack, GivesNobodyUpForTheTimeThatItWasStopped) {
  Connected two({true, true, false, false});
  two.stop(two.server);
  SimPort& port = two.granted_of(two.server)->port;
  two.network.part(two.granted_of(two.client)->port, port);
  two.wait(10 * kSecond);
  two.network.mend_all();
  two.resume(two.server);
  two.expect_alive();
  two.expect_clean_end();
}

// A stopped program's queue is soon full, so what is sent to it then has to be sent once more when it goes on. Until
// then the connection is not given up, although the first copy is older than any peer's silence may last.
TEST(StoppedStack, IsSentToAgainWhenItGoesOn) {
  Connected two({true, true, false, false});
  std::vector<std::byte> data(64);
  const std::uint32_t from = two.client.register_memory(data.data(), data.size());
  const std::uint32_t to = two.server.register_memory(data.data(), data.size());
  two.server.post_receive(two.server_vi, data.data(), 64, to);
  two.wait(kMillisecond);
  two.network.set_filter([](const SimPort&, std::span<std::byte> frame) {
    wire::Decoded decoded;
    return wire::decode(frame, decoded) != wire::Malformed::kNone || decoded.header.type != wire::Type::kData;
  });
  two.stop(two.server);
  two.client.post_send(two.client_vi, data.data(), 64, from);
  two.wait(10 * kSecond);
  two.resume(two.server);
  two.wait(500 * kMillisecond);  // two timeouts
  two.network.set_filter({});
  two.wait(500 * kMillisecond);
  EXPECT_TRUE(two.server.done(two.server_vi, true).has_value());
  EXPECT_TRUE(two.client.done(two.client_vi, false).has_value());
  two.expect_alive();
  two.expect_clean_end();
}

// The client has its connection before the stopped server knows that it has one.
void stop_while_accepting(bool loses_confirm) {
  Two two(1, {true, true, false, false});
  bool stops = false;
  two.network.set_filter([&](const SimPort& from, std::span<std::byte> frame) {
    wire::Decoded decoded;
    if (stops || &from != &two.granted_of(two.client)->port || wire::decode(frame, decoded) != wire::Malformed::kNone ||
        decoded.header.type != wire::Type::kConnectConfirm) {
      return true;
    }
    stops = true;
    return !loses_confirm;
  });
  std::optional<std::uint32_t> asked, accepted;
  CommandBody wait{}, request{};
  wait.op = Op::kConnectWait;
  wait.timeout_ms = 60'000;
  wait.local.discriminator_length = 1;
  two.server.command(wait, [&](const CommandBody& body) {
    CommandBody accept = of_vi(Op::kConnectAccept, two.server_vi);
    accept.handle = body.handle;
    two.server.command(accept, [&](const CommandBody& answer) { accepted = answer.result; });
  });
  request = of_vi(Op::kConnectRequest, two.client_vi);
  request.timeout_ms = 60'000;
  std::memcpy(request.remote.host, two.server_host.data(), two.server_host.size());
  request.remote.discriminator_length = 1;
  two.client.command(request, [&](const CommandBody& body) { asked = body.result; });
  run(two.network, two.hosts, {}, [&] { return stops; }, two.network.now() + 10 * kSecond);
  ASSERT_TRUE(stops);
  two.stop(two.server);
  two.wait(10 * kSecond);
  EXPECT_EQ(asked, vip::kSuccess);
  EXPECT_EQ(two.client.state(two.client_vi), vip::kConnected);
  two.resume(two.server);
  two.wait(kSecond);
  EXPECT_EQ(accepted, vip::kSuccess);
  talk(two, two.client, two.client_vi, two.server, two.server_vi);
  two.expect_clean_end();
}

TEST(StoppedStack, KeepsAConnectionOfWhichItDoesNotKnowYet) { stop_while_accepting(false); }
TEST(StoppedStack, KeepsAConnectionOfWhichItWasToldInVain) { stop_while_accepting(true); }

// The agent answers for a stack that is not driven, not for a network that carries nothing.
TEST(StoppedStack, IsNotWhatALostPathIsTakenFor) {
  Connected two({true, true, false, false});
  two.network.part(two.granted_of(two.client)->port, two.granted_of(two.server)->port);
  two.wait(5 * kSecond);
  EXPECT_EQ(two.client.state(two.client_vi), vip::kError);
  EXPECT_EQ(two.server.state(two.server_vi), vip::kError);
  two.expect_clean_end();
}

TEST(StoppedStack, IsFoundOutInSpiteOfLosses) {
  SimFaults faults = rough();
  faults.loss = 0.05;
  for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
    Connected two({seed % 2 == 0, true, false, false}, faults, seed);
    two.stop(two.server);
    two.wait(10 * kSecond);
    two.resume(two.server);
    two.expect_alive();
    two.expect_clean_end();
  }
}

// Only the host that the connection was made with may answer, and it must know the key.
TEST(StoppedStack, NobodyElseAnswersFor) {
  Connected two({false, true, false, false});
  GrantedHost& server = *two.granted_of(two.server);
  Host& client = *two.agents[0];
  std::vector<Remains> left(1);
  ASSERT_EQ(remains(server.segment(), server.limits, left), 1u);
  two.stop(two.server);
  // The agent that could answer does not.
  two.network.part(client.port, two.agents[1]->port);
  struct Forged {
    MacAddress source;
    std::uint64_t key;
    MacAddress whose;
  };
  const MacAddress agent = two.agents[1]->port.address(), child = server.port.address();
  const Forged forged[] = {{child, left[0].key, child},
                           {{0x02, 0, 0, 0, 0, 9}, left[0].key, child},
                           {agent, left[0].key + 1, child},
                           {agent, left[0].key, agent}};
  for (unsigned tenth = 0; tenth < 50; ++tenth) {
    two.wait(kSecond / 10);
    for (const Forged& one : forged) {
      wire::Header header{};
      header.type = wire::Type::kStoppedReply;
      header.vi = left[0].vi;
      header.key = one.key;
      header.payload_length = 6;
      std::byte frame[wire::kMinFrameBytes];
      std::memcpy(frame + wire::kEthernetBytes + wire::kHeaderBytes, one.whose.data(), 6);
      wire::encode(header, client.port.address(), one.source, wire::kDefaultEtherType, frame);
      two.network.inject(client.port, frame);
    }
  }
  EXPECT_EQ(two.client.state(two.client_vi), vip::kError);
}

}  // namespace
}  // namespace viaduct::sim
