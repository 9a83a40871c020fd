// Connections over the simulated network: set-up, refusal, loss, the end, and what a death does.
#include "tests/sim/commands.h"
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

using layout::CommandBody;
using layout::Op;

// Runs a command that takes its time.
CommandBody finish(Pair& pair, Program& program, const CommandBody& body,
                   std::uint64_t limit = 100 * kSecond) {
  std::optional<CommandBody> answer;
  program.command(body, [&](const CommandBody& b) { answer = b; });
  run(pair.network, pair.hosts, {}, [&] { return answer.has_value(); },
      pair.network.now() + limit);
  EXPECT_TRUE(answer.has_value()) << "the command never finished";
  return answer.value_or(CommandBody{});
}

TEST(Connection, IsSetUpAndEndedBothWays) {
  Pair pair;
  ASSERT_TRUE(pair.connect());
  EXPECT_EQ(pair.client->state(pair.client_vi), vip::kConnected);
  EXPECT_EQ(pair.server->state(pair.server_vi), vip::kConnected);
  CommandBody bye{};
  bye.op = Op::kDisconnect;
  bye.vi = pair.client_vi;
  EXPECT_EQ(pair.client->now(bye).result, vip::kSuccess);
  EXPECT_EQ(pair.client->state(pair.client_vi), vip::kIdle);
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(pair.server->state(pair.server_vi), vip::kError);
  // Twice, and after the peer has gone: both fine.
  EXPECT_EQ(pair.client->now(bye).result, vip::kSuccess);
  bye.vi = pair.server_vi;
  EXPECT_EQ(pair.server->now(bye).result, vip::kSuccess);
  EXPECT_EQ(pair.server->state(pair.server_vi), vip::kIdle);
  EXPECT_EQ(pair.a.stack->usage().peers, 0u);
  // And the same VIs can be connected again.
  EXPECT_TRUE(pair.connect());
}

TEST(Connection, IsSetUpUnderHeavyLoss) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Pair pair(seed);
    SimFaults faults;
    faults.loss = 0.3;
    faults.duplication = 0.2;
    faults.reordering = 0.2;
    pair.network.set_faults(faults);
    // The accepting side may give up when every CONFIRM is lost; with this loss it must not.
    ASSERT_TRUE(pair.connect()) << "seed " << seed;
    ASSERT_EQ(pair.server->state(pair.server_vi), vip::kConnected) << "seed " << seed;
    pair.client.reset();
    pair.wait(10 * kSecond);
    EXPECT_EQ(pair.server->state(pair.server_vi), vip::kError) << "seed " << seed;
    pair.server.reset();
    pair.wait(10 * kSecond);
    expect_nothing_left(pair.a);
    expect_nothing_left(pair.b);
  }
}

TEST(Connection, RequestThatNobodyWaitsForEndsWithNoMatch) {
  Pair pair;
  const CommandBody answer = finish(pair, *pair.client, request(pair.client_vi,
                                    pair.b.port.address(), 7, 500));
  EXPECT_EQ(answer.result, vip::kNoMatch);
  EXPECT_EQ(pair.client->state(pair.client_vi), vip::kIdle);
}

TEST(Connection, RequestToNobodyTimesOut) {
  Pair pair;
  const CommandBody answer =
      finish(pair, *pair.client, request(pair.client_vi, {2, 0, 0, 0, 0, 99}, 7, 500));
  EXPECT_EQ(answer.result, vip::kTimeout);
}

TEST(Connection, RequestThatIsNeitherAcceptedNorRejectedTimesOut) {
  Pair pair;
  std::optional<CommandBody> waited;
  pair.server->command(wait_for(7, 10'000), [&](const CommandBody& b) { waited = b; });
  const CommandBody answer =
      finish(pair, *pair.client, request(pair.client_vi, pair.b.port.address(), 7, 500));
  ASSERT_TRUE(waited.has_value());
  EXPECT_EQ(waited->result, vip::kSuccess);
  EXPECT_EQ(answer.result, vip::kTimeout);
  // Accepting it now is too late, and says so.
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(finish(pair, *pair.server,
                   with_handle(Op::kConnectAccept, waited->handle, pair.server_vi)).result,
            vip::kTimeout);
  EXPECT_EQ(pair.server->state(pair.server_vi), vip::kIdle);
}

TEST(Connection, HandleOfARequestThatIsOverIsGoodForOneAnswerHoweverLate) {
  for (const Op op : {Op::kConnectAccept, Op::kConnectReject}) {
    Pair pair;
    std::optional<CommandBody> waited;
    pair.server->command(wait_for(7, 10'000), [&](const CommandBody& b) { waited = b; });
    EXPECT_EQ(finish(pair, *pair.client, request(pair.client_vi, pair.b.port.address(), 7, 500))
                  .result,
              vip::kTimeout);
    ASSERT_TRUE(waited.has_value());
    pair.wait(60 * kSecond);
    const CommandBody late = with_handle(op, waited->handle, pair.server_vi);
    EXPECT_EQ(finish(pair, *pair.server, late).result, vip::kTimeout);
    EXPECT_EQ(finish(pair, *pair.server, late).result, vip::kInvalidParameter);
  }
}

TEST(Connection, HandleThatWasAcceptedIsUsedUp) {
  Pair pair;
  std::optional<CommandBody> asked;
  pair.client->command(request(pair.client_vi, pair.b.port.address(), 7, 10'000),
                       [&](const CommandBody& b) { asked = b; });
  const CommandBody waited = finish(pair, *pair.server, wait_for(7, 1000));
  ASSERT_EQ(waited.result, vip::kSuccess);
  for (const vip::Return expected : {vip::kSuccess, vip::kInvalidParameter}) {
    EXPECT_EQ(finish(pair, *pair.server,
                     with_handle(Op::kConnectAccept, waited.handle, pair.server_vi)).result,
              expected);
  }
}

TEST(Connection, HandlesThatNobodyUsedGoWithTheirSession) {
  Pair pair;
  for (int i = 0; i < 20; ++i) {
    std::optional<CommandBody> waited;
    pair.server->command(wait_for(7, 10'000), [&](const CommandBody& b) { waited = b; });
    finish(pair, *pair.client, request(pair.client_vi, pair.b.port.address(), 7, 100));
    EXPECT_TRUE(waited.has_value());
  }
  pair.wait(10 * kSecond);
  pair.server.reset();
  pair.client.reset();
  pair.wait(10 * kSecond);
  expect_nothing_left(pair.a);
  expect_nothing_left(pair.b);
}

TEST(Connection, RequestIsHeldUntilSomebodyWaits) {
  Pair pair;
  std::optional<CommandBody> asked;
  pair.client->command(request(pair.client_vi, pair.b.port.address(), 7, 10'000),
                       [&](const CommandBody& b) { asked = b; });
  pair.wait(3 * kSecond);
  EXPECT_FALSE(asked.has_value());
  const CommandBody waited = finish(pair, *pair.server, wait_for(7, 0));
  ASSERT_EQ(waited.result, vip::kSuccess);
  EXPECT_EQ(finish(pair, *pair.server,
                   with_handle(Op::kConnectAccept, waited.handle, pair.server_vi)).result,
            vip::kSuccess);
  EXPECT_TRUE(asked.has_value());
}

TEST(Connection, WaitForOneDiscriminatorLeavesRequestsForAnotherAlone) {
  Pair pair;
  std::optional<CommandBody> asked;
  pair.client->command(request(pair.client_vi, pair.b.port.address(), 7, 10'000),
                       [&](const CommandBody& b) { asked = b; });
  EXPECT_EQ(finish(pair, *pair.server, wait_for(8, 200)).result, vip::kTimeout);
  EXPECT_EQ(finish(pair, *pair.server, wait_for(7, 200)).result, vip::kSuccess);
}

TEST(Connection, RejectIsToldToTheRequester) {
  Pair pair;
  std::optional<CommandBody> asked;
  pair.client->command(request(pair.client_vi, pair.b.port.address(), 7, 10'000),
                       [&](const CommandBody& b) { asked = b; });
  const CommandBody waited = finish(pair, *pair.server, wait_for(7, 1000));
  ASSERT_EQ(waited.result, vip::kSuccess);
  EXPECT_EQ(pair.server->now(with_handle(Op::kConnectReject, waited.handle)).result,
            vip::kSuccess);
  pair.wait(10 * kMillisecond);
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->result, vip::kReject);
  EXPECT_EQ(pair.server->now(with_handle(Op::kConnectReject, 12345)).result,
            vip::kInvalidParameter);
}

TEST(Connection, AttributesThatDoNotMatchLeaveTheRequestOpen) {
  Pair pair;
  const std::uint32_t other = pair.server->create_vi(vip::kUnreliable);
  std::optional<CommandBody> asked;
  pair.client->command(request(pair.client_vi, pair.b.port.address(), 7, 10'000),
                       [&](const CommandBody& b) { asked = b; });
  const CommandBody waited = finish(pair, *pair.server, wait_for(7, 1000));
  EXPECT_EQ(finish(pair, *pair.server, with_handle(Op::kConnectAccept, waited.handle, other)).result,
            vip::kInvalidReliabilityLevel);
  EXPECT_FALSE(asked.has_value());
  EXPECT_EQ(finish(pair, *pair.server,
                   with_handle(Op::kConnectAccept, waited.handle, pair.server_vi)).result,
            vip::kSuccess);
}

TEST(Connection, ReceivesPostedBeforeSurviveFailedAttempts) {
  Pair pair;
  std::vector<std::byte> buffer(100);
  const std::uint32_t handle = pair.client->register_memory(buffer.data(), buffer.size());
  pair.client->post_receive(pair.client_vi, buffer.data(), 100, handle);
  EXPECT_EQ(finish(pair, *pair.client,
                   request(pair.client_vi, pair.b.port.address(), 7, 50)).result,
            vip::kNoMatch);
  EXPECT_FALSE(pair.client->done(pair.client_vi, true).has_value());
  pair.wait(kMillisecond);  // the other host learns that the first attempt is over
  ASSERT_TRUE(pair.connect());
  const std::uint32_t out = pair.server->register_memory(buffer.data(), buffer.size());
  pair.server->post_send(pair.server_vi, buffer.data(), 100, out);
  pair.wait(10 * kMillisecond);
  ASSERT_TRUE(pair.client->done(pair.client_vi, true).has_value());
}

TEST(Connection, DisconnectFlushesBothSides) {
  Pair pair;
  std::vector<std::byte> buffer(100);
  const std::uint32_t here = pair.client->register_memory(buffer.data(), buffer.size());
  const std::uint32_t there = pair.server->register_memory(buffer.data(), buffer.size());
  ASSERT_TRUE(pair.connect());
  for (int i = 0; i < 3; ++i) {
    pair.client->post_receive(pair.client_vi, buffer.data(), 100, here);
    pair.server->post_receive(pair.server_vi, buffer.data(), 100, there);
  }
  CommandBody bye{};
  bye.op = Op::kDisconnect;
  bye.vi = pair.client_vi;
  pair.client->now(bye);
  pair.wait(10 * kMillisecond);
  for (int i = 0; i < 3; ++i) {
    for (const auto& done : {pair.client->done(pair.client_vi, true),
                             pair.server->done(pair.server_vi, true)}) {
      ASSERT_TRUE(done.has_value());
      EXPECT_TRUE(done->status & vip::kFlushedError);
    }
  }
  // In the error state what is posted completes flushed, in Idle a receive stays.
  pair.server->post_receive(pair.server_vi, buffer.data(), 100, there);
  pair.server->post_send(pair.server_vi, buffer.data(), 100, there);
  pair.client->post_receive(pair.client_vi, buffer.data(), 100, here);
  pair.client->post_send(pair.client_vi, buffer.data(), 100, here);
  pair.wait(kMillisecond);
  EXPECT_TRUE(pair.server->done(pair.server_vi, true)->status & vip::kFlushedError);
  EXPECT_TRUE(pair.server->done(pair.server_vi, false)->status & vip::kFlushedError);
  EXPECT_TRUE(pair.client->done(pair.client_vi, false)->status & vip::kFlushedError);
  EXPECT_FALSE(pair.client->done(pair.client_vi, true).has_value());
}

TEST(Connection, SendWithoutAPostedReceiveBreaksAReliableConnection) {
  for (const std::uint16_t level : {vip::kReliableDelivery, vip::kReliableReception}) {
    Pair pair(1, level);
    std::vector<std::byte> buffer(100);
    const std::uint32_t here = pair.client->register_memory(buffer.data(), buffer.size());
    ASSERT_TRUE(pair.connect());
    pair.client->post_send(pair.client_vi, buffer.data(), 100, here);
    pair.wait(10 * kMillisecond);
    EXPECT_EQ(pair.client->state(pair.client_vi), vip::kError);
    EXPECT_EQ(pair.server->state(pair.server_vi), vip::kError);
    const auto done = pair.client->done(pair.client_vi, false);
    ASSERT_TRUE(done.has_value());
    EXPECT_TRUE(done->status & (level == vip::kReliableReception ? vip::kRemoteDescriptorError
                                                                 : vip::kTransportError));
    EXPECT_EQ(pair.b.stack->counters().drop_no_descriptor, 1u);
  }
}

TEST(Connection, SendWithoutAPostedReceiveIsDroppedOnUnreliableDelivery) {
  Pair pair(1, vip::kUnreliable);
  std::vector<std::byte> buffer(100);
  const std::uint32_t here = pair.client->register_memory(buffer.data(), buffer.size());
  ASSERT_TRUE(pair.connect());
  pair.client->post_send(pair.client_vi, buffer.data(), 100, here);
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(pair.client->done(pair.client_vi, false)->status, std::uint32_t{vip::kDone});
  EXPECT_EQ(pair.server->state(pair.server_vi), vip::kConnected);
}

TEST(Connection, DescriptorErrorsAreReportedInTheDescriptor) {
  for (const std::uint16_t level : {vip::kUnreliable, vip::kReliableDelivery}) {
    struct Case {
      layout::Segment segment;
      std::uint32_t length;
      std::uint32_t status;
    };
    std::vector<std::byte> buffer(100);
    const auto at = reinterpret_cast<std::uint64_t>(buffer.data());
    for (int which = 0; which < 4; ++which) {
      Pair pair(1, level);
      const std::uint32_t here = pair.client->register_memory(buffer.data(), buffer.size());
      const Case cases[] = {
          {{at, here + 1, 100}, 100, vip::kProtectionError},
          {{at + 1, here, 100}, 100, vip::kProtectionError},
          {{at, here, 100}, 99, vip::kLengthError},
          {{at, here, 70'000}, 70'000, vip::kLengthError},
      };
      ASSERT_TRUE(pair.connect());
      pair.client->post(pair.client_vi, false, {cases[which].segment}, cases[which].length, 0, {});
      pair.wait(10 * kMillisecond);
      const auto done = pair.client->done(pair.client_vi, false);
      ASSERT_TRUE(done.has_value()) << which;
      EXPECT_TRUE(done->status & cases[which].status) << which;
      EXPECT_EQ(pair.client->state(pair.client_vi),
                level == vip::kUnreliable ? vip::kConnected : vip::kError);
    }
  }
}

TEST(Connection, MessageLongerThanTheReceiveIsALengthError) {
  for (const std::uint16_t level : {vip::kUnreliable, vip::kReliableDelivery}) {
    Pair pair(1, level);
    std::vector<std::byte> buffer(9000);
    const std::uint32_t here = pair.client->register_memory(buffer.data(), buffer.size());
    const std::uint32_t there = pair.server->register_memory(buffer.data(), buffer.size());
    ASSERT_TRUE(pair.connect());
    pair.server->post_receive(pair.server_vi, buffer.data(), 8999, there);
    pair.client->post_send(pair.client_vi, buffer.data(), 9000, here);
    pair.wait(10 * kMillisecond);
    EXPECT_TRUE(pair.server->done(pair.server_vi, true)->status & vip::kLengthError);
    EXPECT_EQ(pair.server->state(pair.server_vi),
              level == vip::kUnreliable ? vip::kConnected : vip::kError);
  }
}

TEST(Connection, TagsThatDifferDoNotMatchAndTheNullTagMatchesAll) {
  Pair pair;
  CommandBody ptag{};
  ptag.op = Op::kCreatePtag;
  const std::uint32_t one = pair.client->now(ptag).handle;
  const std::uint32_t two = pair.client->now(ptag).handle;
  ASSERT_NE(one, two);
  std::vector<std::byte> buffer(100);
  // Pair's VI has the null tag: memory of any tag will do.
  const std::uint32_t tagged = pair.client->register_memory(buffer.data(), 100, one);
  const std::uint32_t there = pair.server->register_memory(buffer.data(), buffer.size());
  ASSERT_TRUE(pair.connect());
  pair.server->post_receive(pair.server_vi, buffer.data(), 100, there);
  pair.client->post_send(pair.client_vi, buffer.data(), 100, tagged);
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(pair.client->done(pair.client_vi, false)->status, std::uint32_t{vip::kDone});
  // A tag in use can't be destroyed.
  CommandBody destroy = with_handle(Op::kDestroyPtag, one);
  EXPECT_EQ(pair.client->now(destroy).result, vip::kErrorResource);
  destroy.handle = two;
  EXPECT_EQ(pair.client->now(destroy).result, vip::kSuccess);
  EXPECT_EQ(pair.client->now(destroy).result, vip::kInvalidParameter);
}

TEST(Connection, DeathOfAProgramIsToldToThePeer) {
  Pair pair;
  ASSERT_TRUE(pair.connect());
  pair.client.reset();
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(pair.server->state(pair.server_vi), vip::kError);
}

TEST(Connection, SilenceOfAHostEndsItsConnections) {
  Pair pair;
  ASSERT_TRUE(pair.connect());
  pair.wait(10 * kSecond);
  EXPECT_EQ(pair.client->state(pair.client_vi), vip::kConnected);
  pair.network.part(pair.a.port, pair.b.port);
  pair.wait(4 * kSecond);
  EXPECT_EQ(pair.client->state(pair.client_vi), vip::kError);
  EXPECT_EQ(pair.server->state(pair.server_vi), vip::kError);
}

TEST(Connection, RestartOfAnAgentEndsItsConnectionsSoon) {
  Pair pair;
  ASSERT_TRUE(pair.connect());
  std::vector<std::uint32_t> more;
  for (int i = 0; i < 20; ++i) {
    more.push_back(pair.client->create_vi(vip::kReliableDelivery));
    const std::uint32_t there = pair.server->create_vi(vip::kReliableDelivery);
    ASSERT_TRUE(sim::connect(pair.network, pair.hosts, *pair.client, more.back(), *pair.server,
                             there, pair.b.port.address()));
  }
  // A new stack on b's port that knows nothing.
  Host& b = pair.b;
  void* segment = std::calloc(1, Stack::footprint(b.limits) + 64);
  auto* aligned = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(segment) + 63) & ~63ul);
  b.programs.clear();
  const auto old = std::move(b.stack);
  b.stack = std::make_unique<Stack>(aligned, b.limits, wire::kDefaultEtherType, b.port, b,
                                    StackAddresses{b.port.address(), b.port.address()},
                                    pair.network.now());
  pair.wait(2 * kSecond);
  EXPECT_EQ(pair.client->state(pair.client_vi), vip::kError);
  for (const std::uint32_t vi : more) EXPECT_EQ(pair.client->state(vi), vip::kError);
  EXPECT_GT(b.stack->counters().resets_sent, 0u);
  b.stack = nullptr;
  std::free(segment);
  // The program of the old stack has no peer to say goodbye to.
  b.stack = std::move(const_cast<std::unique_ptr<Stack>&>(old));
}

TEST(Connection, ForgedFramesAreDroppedAndCounted) {
  Pair pair;
  ASSERT_TRUE(pair.connect());
  std::vector<std::byte> frame(200);
  wire::Header header{};
  header.type = wire::Type::kDisconnect;
  header.vi = pair.server_vi;
  header.key = 0x1234;
  std::size_t length = wire::encode(header, pair.b.port.address(), pair.a.port.address(),
                                    wire::kDefaultEtherType, frame.data());
  ASSERT_TRUE(pair.network.inject(pair.b.port, {frame.data(), length}));
  header.vi = 60;
  length = wire::encode(header, pair.b.port.address(), pair.a.port.address(),
                        wire::kDefaultEtherType, frame.data());
  ASSERT_TRUE(pair.network.inject(pair.b.port, {frame.data(), length}));
  header.type = wire::Type::kReset;
  length = wire::encode(header, pair.b.port.address(), pair.a.port.address(),
                        wire::kDefaultEtherType, frame.data());
  ASSERT_TRUE(pair.network.inject(pair.b.port, {frame.data(), length}));
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(pair.server->state(pair.server_vi), vip::kConnected);
  EXPECT_EQ(pair.b.stack->counters().drop_wrong_key, 1u);
  EXPECT_EQ(pair.b.stack->counters().drop_unknown_vi, 1u);
  EXPECT_EQ(pair.b.stack->counters().drop_bad_reset, 1u);
}

TEST(Connection, FloodOfRequestsDoesNotExhaustTheHost) {
  Pair pair;
  std::vector<std::byte> frame(300);
  for (std::uint64_t i = 0; i < 5000; ++i) {
    wire::ConnectBody body{};
    body.request = static_cast<std::uint32_t>(i);
    body.key = i * 0x9e3779b97f4a7c15ull;
    body.remote_length = 4;
    wire::Header header{};
    header.type = wire::Type::kConnectRequest;
    header.vi = 0xffffffff;
    header.payload_length = static_cast<std::uint16_t>(
        wire::encode(body, frame.data() + wire::kEthernetBytes + wire::kHeaderBytes));
    const std::size_t length =
        wire::encode(header, pair.b.port.address(), {2, 0, 0, 0, 9, 9}, wire::kDefaultEtherType,
                     frame.data());
    pair.network.inject(pair.b.port, {frame.data(), length});
    pair.b.step();
  }
  EXPECT_GT(pair.b.stack->counters().proofs_asked, 0u);
  pair.wait(2 * kSecond);
  EXPECT_EQ(pair.b.stack->usage().requests, 0u);
  EXPECT_TRUE(pair.connect());
}

// A program with many connections ends, while another one keeps both hosts busy: the peers of all
// of them hear of it, though far fewer goodbyes than that fit in the table or in the port's ring.
TEST(Connection, OfManyThatEndAtOnceNoneIsForgotten) {
  constexpr std::uint32_t kMany = 3000;
  StackLimits limits = small_limits();
  limits.vis = kMany + 64;
  Pair pair(1, vip::kReliableDelivery, {}, limits);
  ASSERT_TRUE(pair.connect());
  auto ends = std::make_unique<Program>(pair.a);
  std::vector<std::uint32_t> vis;
  for (std::uint32_t i = 0; i < kMany; ++i) {
    vis.push_back(pair.server->create_vi(vip::kReliableDelivery));
    ASSERT_TRUE(connect(pair.network, pair.hosts, *ends, ends->create_vi(vip::kReliableDelivery),
                        *pair.server, vis.back(), pair.b.port.address()));
  }
  std::byte byte{};
  const std::uint32_t here = pair.client->register_memory(&byte, 1);
  const std::uint32_t there = pair.server->register_memory(&byte, 1);
  ends.reset();
  std::size_t left = kMany;
  for (int ms = 0; left != 0 && ms < 5000; ms += 10) {
    pair.server->post_receive(pair.server_vi, &byte, 1, there);
    pair.client->post_send(pair.client_vi, &byte, 1, here);
    pair.wait(10 * kMillisecond);
    ASSERT_TRUE(pair.client->done(pair.client_vi, false).has_value());
    ASSERT_TRUE(pair.server->done(pair.server_vi, true).has_value());
    left = 0;
    for (const std::uint32_t vi : vis) left += pair.server->state(vi) == vip::kConnected;
  }
  EXPECT_EQ(left, 0u);
  pair.wait(2 * kSecond);
  EXPECT_EQ(pair.a.stack->usage().goodbyes, 0u);
}

TEST(CompletionQueue, HasEveryCompletionOnceAndInOrder) {
  Pair pair;
  CommandBody create{};
  create.op = Op::kCreateCq;
  create.entries = 16;
  const std::uint32_t cq = pair.server->now(create).handle;
  const std::uint32_t vi = pair.server->create_vi(vip::kReliableDelivery, cq + 1, cq + 1);
  std::vector<std::byte> buffer(100);
  const std::uint32_t there = pair.server->register_memory(buffer.data(), buffer.size());
  // Far more completions than the ring shows at once: every one of them flushed at once.
  constexpr unsigned kRounds = 12;
  for (unsigned round = 0; round < kRounds; ++round) {
    for (unsigned i = 0; i < layout::kRingEntries; ++i) {
      pair.server->post_send(vi, buffer.data(), 100, there);
    }
    pair.wait(kMillisecond);
    // Dequeued without a look at the CQ, which must not forget the others for it.
    for (unsigned i = 0; i < layout::kRingEntries; ++i) ASSERT_TRUE(pair.server->done(vi, false));
  }
  EXPECT_GT(pair.b.stack->counters().cq_overflows, 0u);
  unsigned entries = 0;
  for (int quiet = 0; quiet < 3;) {
    if (const auto entry = pair.server->cq_entry(cq)) {
      EXPECT_EQ(entry->first, vi);
      EXPECT_FALSE(entry->second);
      ++entries;
      quiet = 0;
    } else {
      pair.wait(kMillisecond);
      ++quiet;
    }
  }
  EXPECT_EQ(entries, kRounds * layout::kRingEntries);
  CommandBody destroy = with_handle(Op::kDestroyCq, cq);
  EXPECT_EQ(pair.server->now(destroy).result, vip::kErrorResource);
  CommandBody destroy_vi{};
  destroy_vi.op = Op::kDestroyVi;
  destroy_vi.vi = vi;
  EXPECT_EQ(pair.server->now(destroy_vi).result, vip::kSuccess);
  EXPECT_EQ(pair.server->now(destroy).result, vip::kSuccess);
}

TEST(Names, AreFoundOnTheLinkOrReportedAsUnknown) {
  Pair pair;
  CommandBody ask{};
  ask.op = Op::kHostByName;
  std::strcpy(ask.name, "b");
  const CommandBody answer = finish(pair, *pair.client, ask);
  EXPECT_EQ(answer.result, vip::kSuccess);
  EXPECT_EQ(std::memcmp(answer.remote.host, pair.b.port.address().data(), 6), 0);
  std::strcpy(ask.name, "nobody");
  EXPECT_EQ(finish(pair, *pair.client, ask).result, vip::kErrorNameService);
  ask.name[0] = '\0';
  EXPECT_EQ(finish(pair, *pair.client, ask).result, vip::kInvalidParameter);
}

TEST(Names, AreFoundUnderHeavyLoss) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Pair pair(seed);
    SimFaults faults;
    faults.loss = 0.2;
    pair.network.set_faults(faults);
    CommandBody ask{};
    ask.op = Op::kHostByName;
    std::strcpy(ask.name, "b");
    EXPECT_EQ(finish(pair, *pair.client, ask).result, vip::kSuccess) << "seed " << seed;
    // An unknown name is not worth more than a second.
    std::strcpy(ask.name, "nobody");
    EXPECT_EQ(finish(pair, *pair.client, ask, 1001 * kMillisecond).result, vip::kErrorNameService);
  }
}

TEST(Names, OfTwoHostsThatAnswerToOneAreReported) {
  Pair pair;
  Host third(pair.network, 3, small_limits(), 3);
  third.set_name("b");
  pair.hosts.push_back(&third);
  CommandBody ask{};
  ask.op = Op::kHostByName;
  std::strcpy(ask.name, "b");
  const CommandBody answer = finish(pair, *pair.client, ask);
  EXPECT_EQ(answer.result, vip::kSuccess);
  pair.wait(kMillisecond);
  EXPECT_EQ(pair.a.stack->counters().name_conflicts, 1u);
  const NameConflict& conflict = pair.a.stack->name_conflict();
  EXPECT_STREQ(conflict.name, "b");
  EXPECT_NE(conflict.first, conflict.second);
  EXPECT_EQ(std::memcmp(conflict.first.data(), answer.remote.host, 6), 0);
  // One that answers twice is no two hosts.
  third.set_name("c");
  finish(pair, *pair.client, ask);
  pair.wait(kMillisecond);
  EXPECT_EQ(pair.a.stack->counters().name_conflicts, 1u);
}

TEST(Commands, AboutAnEarlierViDontMeetItsSuccessor) {
  Pair pair;
  layout::CommandBody body{};
  body.op = layout::Op::kDestroyVi;
  body.vi = pair.client_vi;
  ASSERT_EQ(pair.client->now(body).result, vip::kSuccess);
  const std::uint32_t next = pair.client->create_vi(vip::kReliableDelivery);
  ASSERT_EQ(next, pair.client_vi) << "the place is used again";
  const std::uint32_t generation = pair.client->view().vi(next).status.generation.load();
  for (const layout::Op op : {layout::Op::kDisconnect, layout::Op::kDestroyVi}) {
    body.op = op;
    body.generation = generation - 2;
    EXPECT_EQ(pair.client->now(body).result, vip::kInvalidParameter);
    body.generation = generation;
    EXPECT_EQ(pair.client->now(body).result, vip::kSuccess);
  }
}

// The oldest request without a waiter gives its place to a new one, and asks again.
TEST(Requests, FindAPlaceInAFullTable) {
  StackLimits limits = small_limits();
  limits.requests = 2;
  Pair pair(1, vip::kReliableDelivery, {}, limits);
  std::vector<std::uint32_t> vis{pair.client_vi};
  while (vis.size() < 6) vis.push_back(pair.client->create_vi(vip::kReliableDelivery));
  for (std::uint32_t i = 0; i < vis.size(); ++i) {
    pair.client->command(request(vis[i], pair.b.port.address(), 100 + i, 60'000), [](const CommandBody&) {});
  }
  pair.wait(100 * kMillisecond);
  EXPECT_GT(pair.b.stack->counters().drop_request_table_full, 0u);
  EXPECT_LE(pair.b.stack->usage().requests, 2u);
  // Whose server comes is connected all the same.
  bool connected = false;
  pair.server->command(wait_for(100, 30'000), [&](const CommandBody& asked) {
    ASSERT_EQ(asked.result, vip::kSuccess);
    pair.server->command(with_handle(Op::kConnectAccept, asked.handle, pair.server_vi),
                         [&](const CommandBody& done) { connected = done.result == vip::kSuccess; });
  });
  run(pair.network, pair.hosts, {}, [&] { return connected; }, pair.network.now() + 30 * kSecond);
  EXPECT_TRUE(connected);
}

// A program that was stopped for long learns that the requester gave up, however many others asked since.
TEST(Requests, OfWhichAProgramHasTheHandleKeepTheirPlaceInAFullTable) {
  StackLimits limits = small_limits();
  limits.requests = 2;
  Pair pair(1, vip::kReliableDelivery, {}, limits);
  std::optional<CommandBody> waited;
  pair.server->command(wait_for(7, 10'000), [&](const CommandBody& b) { waited = b; });
  for (std::uint32_t n = 7; n < 17; ++n) {
    finish(pair, *pair.client, request(pair.client_vi, pair.b.port.address(), n, 100));
  }
  ASSERT_TRUE(waited.has_value());
  const CommandBody late = with_handle(Op::kConnectAccept, waited->handle, pair.server_vi);
  EXPECT_EQ(finish(pair, *pair.server, late).result, vip::kTimeout);
  EXPECT_EQ(finish(pair, *pair.server, late).result, vip::kInvalidParameter);
}

// Handles that the program never answers for don't keep others out.
TEST(Requests, OfWhichAProgramHasTheHandlesMakeRoomInTheEnd) {
  StackLimits limits = small_limits();
  limits.requests = 2;
  Pair pair(1, vip::kReliableDelivery, {}, limits);
  for (std::uint32_t n = 7; n < 17; ++n) {
    std::optional<CommandBody> waited;
    pair.server->command(wait_for(n, 10'000), [&](const CommandBody& b) { waited = b; });
    finish(pair, *pair.client, request(pair.client_vi, pair.b.port.address(), n, 100));
    ASSERT_TRUE(waited.has_value()) << n;
    EXPECT_EQ(waited->result, vip::kSuccess) << n;
  }
  EXPECT_TRUE(pair.connect());
}

}  // namespace
}  // namespace viaduct::sim
