// Long messages by train over the simulated network: two paths that overtake each other, parts of trains
// that are lost, a path that dies and comes back, peers and networks that know no trains.
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "tests/sim/counter_tally.h"
#include "tests/sim/pair.h"

namespace viaduct::sim::trains_test {
namespace {

constexpr std::uint32_t kLargest = 60'000;
constexpr unsigned kPosted = 8;

std::uint64_t first_seed() {
  const char* const text = std::getenv("VIADUCT_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 1;
}

// Client to server; `answers`: a short message goes back for each.
struct Stream {
  Stream(std::uint64_t seed, std::uint16_t level, const SimOptions& options)
      : pair(seed, level, options), random(seed ^ 0x7ea1) {
    out.resize(std::size_t{kLargest} * kPosted);
    in.resize(std::size_t{kLargest} * kPosted);
    out_handle = pair.client->register_memory(out.data(), out.size());
    in_handle = pair.server->register_memory(in.data(), in.size());
  }

  // Long ones, and short ones behind and before them.
  std::uint32_t draw() {
    const std::uint64_t kind = random.below(4);
    return static_cast<std::uint32_t>(kind == 0 ? random.below(64)
                                      : kind == 1 ? random.below(3000)
                                                  : 8192 + random.below(kLargest - 8192));
  }

  void send_all(unsigned messages, bool may_lose = false) {
    const unsigned end = sent + messages;
    const auto logic = [&] {
      bool worked = change_pause();
      for (; offered - received < kPosted; ++offered, worked = true) {
        pair.server->post_receive(pair.server_vi, &in[offered % kPosted * kLargest], kLargest,
                                  in_handle, offered % kPosted);
      }
      // One message at a time has the receive it needs, also where nothing is sent again.
      while (sent < end && sent - received < kPosted && sent - done < kPosted && sent < offered) {
        std::byte* const data = &out[sent % kPosted * kLargest];
        const std::uint32_t size = draw();
        for (std::uint32_t i = 0; i < size; ++i) data[i] = pattern(sent, i);
        sizes.push_back(size);
        pair.client->post_send(pair.client_vi, data, size, out_handle, sent, sent);
        ++sent;
        worked = true;
      }
      while (auto completion = pair.client->done(pair.client_vi, false)) {
        EXPECT_EQ(completion->status, std::uint32_t{vip::kDone});
        ++done;
        worked = true;
      }
      while (auto completion = pair.server->done(pair.server_vi, true)) {
        EXPECT_EQ(completion->status & vip::kErrorMask, 0u);
        if (!may_lose) {
          EXPECT_EQ(completion->immediate, received);
        }
        EXPECT_EQ(completion->length, sizes[completion->immediate]);
        const std::byte* const data = &in[completion->tag * kLargest];
        std::uint32_t i = 0;
        while (i < completion->length && data[i] == pattern(completion->immediate, i)) ++i;
        EXPECT_EQ(i, completion->length) << "message " << completion->immediate;
        ++received;
        worked = true;
      }
      return worked;
    };
    const auto finished = [&] { return testing::Test::HasFailure() || (done == end && received == end); };
    ASSERT_TRUE(run(pair.network, pair.hosts, logic, finished, pair.network.now() + 60 * kSecond))
        << "sent " << sent << ", completed " << done << ", received " << received << " of " << end;
  }

  // Ten messages each time; the server's host stands still for so long before the first of them have arrived.
  void send_beside_pauses(unsigned pauses, std::uint64_t ns) {
    for (unsigned n = 0; n < pauses && !testing::Test::HasFatalFailure(); ++n) {
      pause_from = pair.network.now() + 4'000;
      pause_until = pause_from + ns;
      send_all(10);
    }
  }

  // True if the server's host has been paused, or resumed.
  bool change_pause() {
    const std::uint64_t now = pair.network.now();
    const bool pause = now >= pause_from && now < pause_until;
    if (pause == std::exchange(paused, pause)) return false;
    pause ? pair.network.pause(pair.b.port) : pair.network.resume(pair.b.port);
    return true;
  }

  const StackCounters& counters() const { return pair.a.stack->counters(); }

  // Everything is given back.
  void end() {
    pair.client.reset();
    pair.server.reset();
    run(pair.network, pair.hosts, {}, [] { return false; }, pair.network.now() + 5 * kSecond);
    expect_nothing_left(pair.a);
    expect_nothing_left(pair.b);
    add_to_tally(pair.a.stack->counters());
    pair.a.stack.reset();
    pair.b.stack.reset();
    EXPECT_EQ(pair.a.port.outstanding(), 0u);
    EXPECT_EQ(pair.b.port.outstanding(), 0u);
  }

  Pair pair;
  SimRandom random;
  std::vector<std::byte> out, in;
  std::vector<std::uint32_t> sizes;
  std::uint32_t out_handle, in_handle;
  unsigned sent = 0, done = 0, received = 0, offered = 0;
  std::uint64_t pause_from = 0, pause_until = 0;
  bool paused = false;
};

SimOptions with_trains(std::uint64_t express_ns, std::uint64_t train_ns) {
  SimOptions options;
  options.trains = true;
  options.latency_ns = express_ns;
  options.train_latency_ns = train_ns;
  return options;
}

class Trains : public testing::TestWithParam<std::uint16_t> {};

// Whichever path is the faster one: no frame is taken for lost, none arrives before those sent earlier.
TEST_P(Trains, OvertakingPathsLoseNothing) {
  struct Times {
    std::uint64_t express, train;
  };
  for (const Times times : {Times{5'000, 5'000}, Times{5'000, 60'000}, Times{40'000, 5'000}}) {
    for (std::uint64_t seed = first_seed(); seed < first_seed() + 5; ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " express " << times.express);
      Stream stream(seed, GetParam(), with_trains(times.express, times.train));
      ASSERT_TRUE(stream.pair.connect());
      // On Unreliable Delivery trains begin when nothing is on its way: after a pause.
      for (unsigned n = 0; n < 20; ++n) {
        stream.send_all(10);
        if (testing::Test::HasFatalFailure()) return;
        stream.pair.wait(100 * kMillisecond);
      }
      EXPECT_GT(stream.counters().train_frames_sent, 500u);
      EXPECT_EQ(stream.counters().train_frames_sent + 2 * stream.counters().trains_used,
                stream.pair.a.port.by_train());
      EXPECT_EQ(stream.counters().retransmissions, 0u);
      EXPECT_EQ(stream.counters().trains_set_aside, 0u);
      stream.end();
    }
  }
}

// A peer that is busy takes its time, for credit too.
TEST(UnreliableTrains, ASlowPeerLosesNothing) {
  for (const std::uint64_t latency : {2 * kMillisecond, 30 * kMillisecond, 70 * kMillisecond}) {
    Stream stream(first_seed(), vip::kUnreliable, with_trains(5'000, latency));
    ASSERT_TRUE(stream.pair.connect());
    for (unsigned n = 0; n < 10; ++n) {
      ASSERT_NO_FATAL_FAILURE(stream.send_all(10));
      stream.pair.wait(100 * kMillisecond);
    }
    EXPECT_GT(stream.counters().train_frames_sent, 200u);
    EXPECT_EQ(stream.counters().trains_set_aside, 0u);
  }
}

// The peer's address changes in the middle of messages, so the way has to be asked for anew.
TEST(UnreliableTrains, NothingOvertakesATrainWhenTheWayIsAskedForAnew) {
  constexpr std::size_t kBody = wire::kEthernetBytes + wire::kHeaderBytes;
  constexpr unsigned kChanges = 20;
  Stream stream(first_seed(), vip::kUnreliable, with_trains(5'000, kMillisecond));
  std::vector<std::byte> told;
  unsigned frames = 0, changes = kChanges;
  stream.pair.network.set_filter([&](const SimPort& from, std::span<std::byte> frame) {
    if (&from == &stream.pair.b.port) {
      if (frame[15] == static_cast<std::byte>(wire::Type::kPath)) told.assign(frame.begin(), frame.end());
    } else if (changes < kChanges && ++frames % 500 == 0) {
      told[kBody] = static_cast<std::byte>(wire::PathStep::kTell);
      told[kBody + 3] = static_cast<std::byte>(++changes);
      wire::seal(told);
      stream.pair.network.inject(stream.pair.a.port, told);
    }
    return true;
  });
  ASSERT_TRUE(stream.pair.connect());
  for (unsigned n = 0; n < 3; ++n) {
    ASSERT_NO_FATAL_FAILURE(stream.send_all(10));
    stream.pair.wait(100 * kMillisecond);
  }
  ASSERT_EQ(stream.counters().trains_used, 1u);
  changes = 0;
  for (unsigned n = 0; n < 50; ++n) {
    ASSERT_NO_FATAL_FAILURE(stream.send_all(20));
    stream.pair.wait(100 * kMillisecond);
  }
  EXPECT_EQ(changes, kChanges);
  EXPECT_GT(stream.counters().trains_used, 1u);
}

INSTANTIATE_TEST_SUITE_P(Levels, Trains,
                         testing::Values(vip::kUnreliable, vip::kReliableDelivery,
                                         vip::kReliableReception));

class ReliableTrains : public testing::TestWithParam<std::uint16_t> {};

TEST_P(ReliableTrains, PartsThatAreLostAreSentAgain) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimOptions options = with_trains(5'000, 9'000);
    options.train_faults.loss = 0.02;
    options.train_faults.duplication = 0.01;
    options.train_faults.reordering = 0.01;
    options.train_faults.corruption = 0.005;
    options.faults.loss = 0.005;
    Stream stream(seed, GetParam(), options);
    ASSERT_TRUE(stream.pair.connect());
    stream.send_all(200);
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_GT(stream.counters().train_frames_sent, 1000u);
    EXPECT_GT(stream.counters().retransmissions, 0u);
    EXPECT_EQ(stream.counters().connections_lost, 0u);
    stream.end();
  }
}

// Frames that came early and are kept are not to be passed over by those that are taken one behind the other, many at once where
// the host was away.
TEST_P(ReliableTrains, PartsThatComeEarlyAreTakenInTheirTurn) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimOptions options = with_trains(5'000, 9'000);
    options.train_faults.reordering = 0.1;
    Stream stream(seed, GetParam(), options);
    ASSERT_TRUE(stream.pair.connect());
    for (unsigned n = 0; n < 100; ++n) {
      stream.pause_from = stream.pair.network.now() + 10'000 + stream.random.below(30'000);
      stream.pause_until = stream.pause_from + 20'000 + stream.random.below(100'000);
      stream.send_all(4);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GT(stream.pair.b.stack->counters().frames_held, 100u);
    EXPECT_EQ(stream.counters().connections_lost, 0u);
    stream.end();
  }
}

TEST_P(ReliableTrains, APathThatDiesIsLeftAndTriedAgain) {
  SimFaults dead;
  dead.loss = 1;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Stream stream(seed, GetParam(), with_trains(5'000, 5'000));
    ASSERT_TRUE(stream.pair.connect());
    stream.send_all(50);
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_EQ(stream.counters().trains_used, 1u);
    stream.pair.network.set_train_faults(dead);
    const std::uint64_t before = stream.pair.network.now();
    stream.send_all(100);
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_EQ(stream.counters().trains_set_aside, 1u);
    EXPECT_EQ(stream.counters().connections_lost, 0u);
    // Two timeouts, and then what it takes by express.
    EXPECT_LT(stream.pair.network.now() - before, 100 * kMillisecond);
    const std::uint64_t by_then = stream.counters().train_frames_sent;
    stream.pair.network.set_train_faults({});
    stream.pair.wait(3 * kSecond);
    stream.send_all(100);
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_EQ(stream.counters().trains_used, 2u);
    EXPECT_GT(stream.counters().train_frames_sent, by_then);
    stream.end();
  }
}

// The peer's processor is busy: frames arrive late, and nothing is wrong with the way.
TEST_P(ReliableTrains, ALatePeerIsNoDeadPath) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Stream stream(seed, GetParam(), with_trains(5'000, 5'000));
    ASSERT_TRUE(stream.pair.connect());
    stream.send_all(50);
    if (testing::Test::HasFatalFailure()) return;
    constexpr unsigned kPauses = 20;
    const std::uint64_t before = stream.counters().train_frames_sent;
    stream.send_beside_pauses(kPauses, 3 * kMillisecond);
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_GT(stream.counters().trains_set_aside, 0u);
    EXPECT_EQ(stream.counters().trains_taken_up, stream.counters().trains_set_aside);
    EXPECT_EQ(stream.counters().trains_used, 1u);
    // Late frames are not sent again: for each timeout but the oldest and the newest frame.
    EXPECT_LE(stream.counters().retransmissions, 2 * stream.counters().retransmission_timeouts);
    // Of ten messages half are long, of some 24 frames each.
    EXPECT_GT(stream.counters().train_frames_sent - before, kPauses * 40);
    stream.end();
  }
}

// What has been sent again by express is read before the trains that wait.
TEST_P(ReliableTrains, ALatePeerReportsNoGapBeforeTrainsThatWait) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimOptions options = with_trains(5'000, 5'000);
    options.express_first = true;
    options.faults.jitter_ns = 2'000;  // so that the sender sees each acknowledgement by itself
    Stream stream(seed, GetParam(), options);
    ASSERT_TRUE(stream.pair.connect());
    stream.send_all(50);
    if (testing::Test::HasFatalFailure()) return;
    const std::uint64_t before = stream.counters().train_frames_sent;
    stream.send_beside_pauses(20, 3 * kMillisecond);
    if (testing::Test::HasFatalFailure()) return;
    EXPECT_GT(stream.counters().retransmission_timeouts, 0u);
    EXPECT_GT(stream.counters().train_frames_sent, before);
    EXPECT_LE(stream.counters().retransmissions, 2 * stream.counters().retransmission_timeouts);
    stream.end();
  }
}

// One timeout, again and again, and each time the frames have come after all.
TEST_P(ReliableTrains, APeerThatIsLateForOneTimeoutKeepsItsTrains) {
  std::uint64_t timeouts = 0;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Stream stream(seed, GetParam(), with_trains(5'000, 5'000));
    ASSERT_TRUE(stream.pair.connect());
    stream.send_all(50);
    if (testing::Test::HasFatalFailure()) return;
    const std::uint64_t before = stream.counters().retransmission_timeouts;
    stream.send_beside_pauses(20, 650'000);  // shorter than any timeout; the peer goes on with the next event
    if (testing::Test::HasFatalFailure()) return;
    timeouts += stream.counters().retransmission_timeouts - before;
    EXPECT_EQ(stream.counters().trains_set_aside, 0u);
    stream.end();
  }
  EXPECT_GT(timeouts, 0u);
}

// Trains that wait while the express is read: retransmissions must not arrive before them.
TEST_P(ReliableTrains, LateTrainsAreNotTakenForLost) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Stream stream(seed, GetParam(), with_trains(5'000, 5'000));
    ASSERT_TRUE(stream.pair.connect());
    stream.send_all(50);
    if (testing::Test::HasFatalFailure()) return;
    SimFaults late;
    late.jitter_ns = 1'100'000;  // longer than the timer waits at first, not than it waits then
    for (unsigned n = 0; n < 20; ++n) {
      stream.pair.network.set_train_faults(n % 4 == 0 ? late : SimFaults{});
      stream.send_all(5);
      if (testing::Test::HasFatalFailure()) return;
      stream.pair.wait(10 * kMillisecond);
    }
    EXPECT_GT(stream.counters().retransmission_timeouts, 0u);
    EXPECT_LE(stream.counters().retransmissions, 2 * stream.counters().retransmission_timeouts);
    stream.end();
  }
}

TEST_P(ReliableTrains, ReadsAndWritesGoByTrain) {
  Pair pair(first_seed(), GetParam(), with_trains(5'000, 20'000));
  pair.client_vi = pair.client->create_vi(GetParam(), 0, 0, true, true);
  pair.server_vi = pair.server->create_vi(GetParam(), 0, 0, true, true);
  ASSERT_TRUE(pair.connect());
  constexpr std::uint32_t kBytes = 60'000;
  std::vector<std::byte> ours(kBytes), theirs(kBytes), back(kBytes);
  const auto own = pair.client->register_memory(ours.data(), kBytes, 0, true, true);
  const auto own_back = pair.client->register_memory(back.data(), kBytes, 0, true, true);
  const auto remote = pair.server->register_memory(theirs.data(), kBytes, 0, true, true);
  constexpr unsigned kTimes = 5;  // the first ones begin before trains are known to arrive
  for (unsigned n = 0; n < kTimes; ++n) {
    for (std::uint32_t i = 0; i < kBytes; ++i) ours[i] = pattern(n, i);
    unsigned done = 0;
    pair.client->post_rdma(pair.client_vi, layout::kOpRdmaWrite,
                           {reinterpret_cast<std::uint64_t>(ours.data()), own, kBytes}, theirs.data(), remote);
    pair.client->post_rdma(pair.client_vi, layout::kOpRdmaRead,
                           {reinterpret_cast<std::uint64_t>(back.data()), own_back, kBytes}, theirs.data(), remote);
    const auto logic = [&] {
      const auto completion = pair.client->done(pair.client_vi, false);
      if (!completion) return false;
      EXPECT_EQ(completion->status & vip::kErrorMask, 0u);
      ++done;
      return true;
    };
    ASSERT_TRUE(run(pair.network, pair.hosts, logic, [&] { return done == 2; }, pair.network.now() + kSecond));
    EXPECT_EQ(theirs, ours);
    EXPECT_EQ(back, ours);
    pair.wait(10 * kMillisecond);
  }
  EXPECT_GT(pair.a.stack->counters().train_frames_sent, 100u);
  EXPECT_GT(pair.b.stack->counters().train_frames_sent, 100u);
  EXPECT_EQ(pair.a.stack->counters().retransmissions, 0u);
  EXPECT_EQ(pair.b.stack->counters().retransmissions, 0u);
}

INSTANTIATE_TEST_SUITE_P(Levels, ReliableTrains,
                         testing::Values(vip::kReliableDelivery, vip::kReliableReception));

void expect_no_trains(Stream& stream) {
  for (unsigned n = 0; n < 5; ++n) {
    ASSERT_NO_FATAL_FAILURE(stream.send_all(20));
    stream.pair.wait(3 * kSecond);
  }
  EXPECT_EQ(stream.counters().train_frames_sent, 0u);
  EXPECT_EQ(stream.counters().trains_used, 0u);
  EXPECT_EQ(stream.counters().retransmissions, 0u);
}

// Everything goes by express, and the counters say why.
TEST(TrainsElsewhere, AFirewallIsFound) {
  SimOptions options = with_trains(5'000, 5'000);
  options.train_faults.loss = 1;
  Stream stream(first_seed(), vip::kReliableDelivery, options);
  ASSERT_TRUE(stream.pair.connect());
  ASSERT_NO_FATAL_FAILURE(expect_no_trains(stream));
  EXPECT_GT(stream.counters().trains_not_heard, 1u);
  EXPECT_EQ(stream.counters().trains_not_told, 0u);
}

TEST(TrainsElsewhere, AnOlderPeerIsFound) {
  Stream stream(first_seed(), vip::kReliableDelivery, with_trains(5'000, 5'000));
  stream.pair.network.set_filter([](const SimPort&, std::span<std::byte> frame) {
    return frame[15] != static_cast<std::byte>(wire::Type::kPath);
  });
  ASSERT_TRUE(stream.pair.connect());
  ASSERT_NO_FATAL_FAILURE(expect_no_trains(stream));
  EXPECT_GT(stream.counters().trains_not_told, 1u);
}

TEST(TrainsElsewhere, APeerWithoutTrainsIsFound) {
  Stream stream(first_seed(), vip::kReliableDelivery, with_trains(5'000, 5'000));
  stream.pair.network.set_filter([&](const SimPort& from, std::span<std::byte> frame) {
    constexpr std::size_t kPort = wire::kEthernetBytes + wire::kHeaderBytes + 2;
    if (&from == &stream.pair.b.port && frame[15] == static_cast<std::byte>(wire::Type::kPath)) {
      frame[kPort] = frame[kPort + 1] = std::byte{0};
      wire::seal(frame);
    }
    return true;
  });
  ASSERT_TRUE(stream.pair.connect());
  ASSERT_NO_FATAL_FAILURE(expect_no_trains(stream));
  EXPECT_GT(stream.counters().trains_no_way, 1u);
  EXPECT_EQ(stream.counters().trains_not_told, 0u);
}

// Only the peer of a connection is believed, and an answer must match the last question.
TEST(TrainsElsewhere, PathsThatStrangersTellAreNotTaken) {
  SimOptions options = with_trains(5'000, 5'000);
  options.train_faults.loss = 1;  // so that only what is forged would say that they arrive
  Stream stream(first_seed(), vip::kReliableDelivery, options);
  std::vector<std::byte> told;
  stream.pair.network.set_filter([&](const SimPort&, std::span<std::byte> frame) {
    if (frame[15] == static_cast<std::byte>(wire::Type::kPath)) {
      wire::Decoded decoded;
      wire::PathBody body;
      EXPECT_EQ(wire::decode(frame, decoded), wire::Malformed::kNone);
      EXPECT_TRUE(wire::decode(decoded.payload, body));
      if (body.step == wire::PathStep::kTold) told.assign(frame.begin(), frame.end());
    }
    return true;
  });
  ASSERT_TRUE(stream.pair.connect());
  ASSERT_NO_FATAL_FAILURE(stream.send_all(20));
  ASSERT_FALSE(told.empty());
  const auto forge = [&](std::size_t at, std::byte value) {
    std::vector<std::byte> frame = told;
    frame[wire::kEthernetBytes + wire::kHeaderBytes] = static_cast<std::byte>(wire::PathStep::kTried);
    frame[at] = value;
    wire::seal(frame);
    stream.pair.network.inject(stream.pair.a.port, frame);
    stream.pair.wait(kMillisecond);
  };
  forge(6, std::byte{0x77});                                          // another source
  forge(wire::kEthernetBytes + 8, ~told[wire::kEthernetBytes + 8]);   // another key
  const std::size_t token = wire::kEthernetBytes + wire::kHeaderBytes + 4;
  forge(token, ~told[token]);                                         // another token
  EXPECT_EQ(stream.counters().trains_used, 0u);
}

}  // namespace
}  // namespace viaduct::sim::trains_test
