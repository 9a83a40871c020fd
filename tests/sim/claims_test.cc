// Claims: what an agent has vouched for is confirmed to other hosts, and nothing else is.
#include "tests/sim/granted_host.h"
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

using layout::CommandBody;
using layout::Op;

constexpr std::uint16_t kClientPort = 40'000, kServerPort = 80;

// As the client's host sees it.
Flow sample_flow() {
  return {Flow::kIpv4, kClientPort, kServerPort, 0, {10, 0, 0, 1}, {10, 0, 0, 2}};
}

// The server's program owns its end of the connection, and has claimed it.
struct Claimed : Pair {
  Claimed() {
    b.owned.insert({server->session(), kServerPort});
    token = claim(*server).token;
  }
  static CommandBody claim(Program& program, const Flow& flow = sample_flow().reversed()) {
    CommandBody body{};
    body.op = Op::kClaim;
    body.flow = flow;
    return program.now(body);
  }
  static CommandBody unclaim(Program& program, const ClaimToken& token) {
    CommandBody body{};
    body.op = Op::kUnclaim;
    body.token = token;
    return program.now(body);
  }
  CommandBody question(const MacAddress& host, const Flow& flow, const ClaimToken& which) const {
    CommandBody body{};
    body.op = Op::kVerify;
    std::memcpy(body.remote.host, host.data(), host.size());
    body.flow = flow;
    body.token = which;
    return body;
  }
  vip::Return ask(Program& program, const CommandBody& body) {
    std::optional<CommandBody> answer;
    program.command(body, [&](const CommandBody& x) { answer = x; });
    run(network, hosts, {}, [&] { return answer.has_value(); }, network.now() + 2 * kSecond);
    EXPECT_TRUE(answer.has_value()) << "the command never finished";
    return answer ? static_cast<vip::Return>(answer->result) : vip::kErrorResource;
  }
  vip::Return verify(const Flow& flow, const ClaimToken& which) {
    return ask(*client, question(b.port.address(), flow, which));
  }
  vip::Return verify() { return verify(sample_flow(), token); }

  ClaimToken token;
};

TEST(Claims, AreConfirmedToOtherHosts) {
  Claimed pair;
  EXPECT_EQ(pair.b.stack->usage().claims, 1u);
  EXPECT_EQ(pair.verify(), vip::kSuccess);
  EXPECT_EQ(pair.verify(), vip::kSuccess);
  EXPECT_EQ(pair.b.stack->counters().claims_confirmed, 2u);
  EXPECT_EQ(pair.b.stack->counters().claims_denied, 0u);
  EXPECT_EQ(pair.a.stack->counters().claim_queries_sent, 2u);
}

TEST(Claims, AreConfirmedOnTheOwnHost) {
  Claimed pair;
  Program other(pair.b);
  const MacAddress own = pair.b.port.address();
  EXPECT_EQ(pair.ask(other, pair.question(own, sample_flow(), pair.token)), vip::kSuccess);
  EXPECT_EQ(pair.ask(other, pair.question(own, sample_flow(), {})), vip::kErrorNameService);
  EXPECT_EQ(pair.b.stack->counters().claim_queries_sent, 0u);
}

TEST(Claims, AreForOwnersAlone) {
  Claimed pair;
  Program other(pair.b);
  EXPECT_EQ(Claimed::claim(other).result, std::uint32_t{vip::kErrorNameService});
  EXPECT_EQ(Claimed::unclaim(other, pair.token).result, std::uint32_t{vip::kInvalidParameter});
  EXPECT_EQ(pair.verify(), vip::kSuccess);
  pair.b.knows_owners = false;
  EXPECT_EQ(Claimed::claim(*pair.server).result, std::uint32_t{vip::kNotSupported});
  EXPECT_EQ(pair.verify(), vip::kErrorNameService) << "nobody knows whether it still is";
}

TEST(Claims, AreNotConfirmedWhenAnythingIsDifferent) {
  Claimed pair;
  for (std::size_t i = 0; i < pair.token.size(); ++i) {
    ClaimToken other = pair.token;
    other[i] ^= 1;
    EXPECT_EQ(pair.verify(sample_flow(), other), vip::kErrorNameService) << i;
  }
  EXPECT_EQ(pair.verify(sample_flow(), {}), vip::kErrorNameService);
  EXPECT_EQ(pair.verify(sample_flow().reversed(), pair.token), vip::kErrorNameService);
  Flow flow = sample_flow();
  ++flow.local_port;
  EXPECT_EQ(pair.verify(flow, pair.token), vip::kErrorNameService);
  flow = sample_flow();
  flow.family = Flow::kIpv6;
  EXPECT_EQ(pair.verify(flow, pair.token), vip::kErrorNameService);
  flow.family = 5;
  EXPECT_EQ(pair.verify(flow, pair.token), vip::kInvalidParameter);
  EXPECT_EQ(Claimed::claim(*pair.server, flow).result, std::uint32_t{vip::kInvalidParameter});
}

TEST(Claims, EndWithTheirConnectionTheirProgramAndByRequest) {
  Claimed pair;
  pair.b.owned.clear();
  EXPECT_EQ(pair.verify(), vip::kErrorNameService) << "the connection is gone";
  pair.b.owned.insert({pair.server->session(), kServerPort});
  EXPECT_EQ(pair.verify(), vip::kSuccess);

  EXPECT_EQ(Claimed::unclaim(*pair.server, pair.token).result, std::uint32_t{vip::kSuccess});
  EXPECT_EQ(Claimed::unclaim(*pair.server, pair.token).result,
            std::uint32_t{vip::kInvalidParameter});
  EXPECT_EQ(pair.verify(), vip::kErrorNameService);

  const ClaimToken before = pair.token;
  pair.token = Claimed::claim(*pair.server).token;
  EXPECT_NE(pair.token, before);
  EXPECT_EQ(pair.verify(sample_flow(), before), vip::kErrorNameService);
  EXPECT_EQ(pair.verify(), vip::kSuccess);
  pair.server.reset();
  EXPECT_EQ(pair.verify(), vip::kErrorNameService);
  EXPECT_EQ(pair.b.stack->usage().claims, 0u);
}

TEST(Claims, AreLimitedForEachProgram) {
  Claimed pair;
  std::vector<ClaimToken> tokens = {pair.token};
  while (tokens.size() < StackLimits().claims) {
    const CommandBody claimed = Claimed::claim(*pair.server);
    ASSERT_EQ(claimed.result, std::uint32_t{vip::kSuccess});
    tokens.push_back(claimed.token);
  }
  EXPECT_EQ(Claimed::claim(*pair.server).result, std::uint32_t{vip::kErrorResource});
  for (const ClaimToken& token : tokens) {
    ASSERT_EQ(pair.verify(sample_flow(), token), vip::kSuccess);
  }
  Program other(pair.b);
  pair.b.owned.insert({other.session(), kServerPort});
  EXPECT_EQ(Claimed::claim(other).result, std::uint32_t{vip::kSuccess});
  EXPECT_EQ(Claimed::unclaim(*pair.server, tokens[7]).result, std::uint32_t{vip::kSuccess});
  EXPECT_EQ(Claimed::claim(*pair.server).result, std::uint32_t{vip::kSuccess});
}

TEST(Claims, AreAskedForAgainWhenFramesAreLost) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Claimed pair;
    SimFaults faults;
    faults.loss = 0.3;
    faults.duplication = 0.3;
    pair.network.set_faults(faults);
    for (int i = 0; i < 5; ++i) {
      const vip::Return result = pair.verify();
      EXPECT_TRUE(result == vip::kSuccess || result == vip::kTimeout) << static_cast<int>(result);
      EXPECT_NE(pair.verify(sample_flow(), {}), vip::kSuccess);
    }
  }
}

TEST(Claims, AreNotConfirmedBySilence) {
  Claimed pair;
  SimFaults faults;
  faults.loss = 1;
  pair.network.set_faults(faults);
  EXPECT_EQ(pair.verify(), vip::kTimeout);
  EXPECT_EQ(pair.ask(*pair.client, pair.question({1, 0, 0, 0, 0, 0}, sample_flow(), pair.token)),
            vip::kNotReachable);
}

// Answers from elsewhere, to other questions or in other words.
TEST(Claims, AreNotConfirmedByOthers) {
  Claimed pair;
  const MacAddress elsewhere{2, 0, 0, 0, 0, 99};
  ClaimToken wrong = pair.token;
  wrong[5] ^= 1;
  unsigned forged = 0;
  pair.network.set_filter([&](const SimPort& port, std::span<std::byte> frame) {
    wire::Decoded decoded;
    wire::ClaimBody body;
    if (&port != &pair.a.port || wire::decode(frame, decoded) != wire::Malformed::kNone ||
        decoded.header.type != wire::Type::kClaimQuery || !wire::decode(decoded.payload, body)) {
      return true;
    }
    const auto answer = [&](const MacAddress& from, const wire::ClaimBody& what) {
      std::byte room[256];
      wire::Header header{wire::Type::kClaimReply};
      header.payload_length = static_cast<std::uint16_t>(
          wire::encode(what, room + wire::kEthernetBytes + wire::kHeaderBytes));
      const std::size_t bytes = wire::encode(header, pair.a.port.address(), from,
                                             wire::kDefaultEtherType, room);
      pair.network.inject(pair.a.port, {room, bytes});
      ++forged;
    };
    wire::ClaimBody good = body;
    good.answer = wire::ClaimAnswer::kGood;
    answer(elsewhere, good);
    for (const std::uint32_t request : {body.request + 1, body.request + 1'000'000, ~0u}) {
      wire::ClaimBody other = good;
      other.request = request;
      answer(pair.b.port.address(), other);
    }
    wire::ClaimBody other = good;
    other.token[9] ^= 1;
    answer(pair.b.port.address(), other);
    other = good;
    ++other.flow.remote_port;
    answer(pair.b.port.address(), other);
    answer(pair.b.port.address(), body);  // which is a question
    return true;
  });
  EXPECT_EQ(pair.verify(sample_flow(), wrong), vip::kErrorNameService);
  EXPECT_GE(forged, 7u);
  EXPECT_GE(pair.a.stack->counters().drop_stale_answer, 6u);
  EXPECT_EQ(pair.a.stack->counters().drop_bad_body, 1u);
}

TEST(Claims, MayBeAskedForByAProgramThatEnds) {
  Claimed pair;
  SimFaults faults;
  faults.loss = 1;
  pair.network.set_faults(faults);
  std::optional<CommandBody> answer;
  pair.client->command(pair.question(pair.b.port.address(), sample_flow(), pair.token),
                       [&](const CommandBody& x) { answer = x; });
  pair.wait(5 * kMillisecond);
  ASSERT_FALSE(answer);
  pair.client.reset();  // its program ends
  pair.network.set_faults({});
  pair.wait(2 * kSecond);
  EXPECT_EQ(pair.a.stack->usage().sessions, 0u);
}

// A program's own stack says nothing about claims: the agent of its host is to be asked.
TEST(Claims, AreNotTheBusinessOfAProgramsOwnStack) {
  SimNetwork network(SimOptions{}, 1);
  AgentHost agent(network, 1, 1);
  GrantedHost granted(agent, 0, 1);
  wire::ClaimBody body{0, wire::ClaimAnswer::kNone, sample_flow(), {}};
  std::byte room[256];
  wire::Header header{wire::Type::kClaimQuery};
  header.payload_length = static_cast<std::uint16_t>(
      wire::encode(body, room + wire::kEthernetBytes + wire::kHeaderBytes));
  const std::size_t bytes = wire::encode(header, granted.port.address(), agent.port.address(),
                                         wire::kDefaultEtherType, room);
  network.inject(granted.port, {room, bytes});
  Host* hosts[] = {&agent, &granted};
  run(network, hosts, {}, [] { return false; }, network.now() + 10 * kMillisecond);
  EXPECT_EQ(granted.stack->counters().drop_not_supported, 1u);
  EXPECT_EQ(granted.stack->counters().claims_denied, 0u);
}

// ---------------------------------------------------------------------------- poll wakes

TEST(PollWake, RingsForThoseWhoPoll) {
  Pair pair;
  CommandBody body{};
  body.op = Op::kCreateCq;
  body.entries = 8;
  body = pair.client->now(body);
  ASSERT_EQ(body.result, std::uint32_t{vip::kSuccess});
  auto& sleepers = pair.client->view().cq(body.handle).sleepers;
  const std::uint32_t before = sleepers.fetch_or(layout::kPoller) | layout::kPoller;
  EXPECT_FALSE(layout::was_taken(sleepers.load(), before));
  body.op = Op::kDestroyCq;
  ASSERT_EQ(pair.client->now(body).result, std::uint32_t{vip::kSuccess});
  EXPECT_EQ(pair.a.poll_wakes, 1u);
  EXPECT_EQ(sleepers.load() & layout::kWaiting, 0u);
  EXPECT_TRUE(layout::was_taken(sleepers.load(), before));
}

}  // namespace
}  // namespace viaduct::sim
