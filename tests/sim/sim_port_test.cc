// The simulated network's treatment of frames.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/sim/sim_port_fixture.h"

namespace viaduct {
namespace {

// ---------------------------------------------------------------------------- random source

TEST(SimRandom, DrawsTheSameNumbersOnEveryMachine) {
  SimRandom random(42);
  EXPECT_EQ(random.next(), 1546998764402558742u);
  EXPECT_EQ(random.next(), 6990951692964543102u);
}

TEST(SimRandom, StaysBelowItsBoundAndReachesEveryValue) {
  SimRandom random(7);
  std::vector<unsigned> seen(10);
  for (int i = 0; i < 10000; ++i) ++seen.at(random.below(10));
  for (const unsigned count : seen) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(random.below(1), 0u);
}

// ---------------------------------------------------------------------------- carrying frames

TEST(SimNetwork, CarriesFramesWholeAndInOrder) {
  Pair p;
  EXPECT_EQ(stream(p, 5000), first_numbers(5000));
  EXPECT_EQ(p.net.counters().delivered, 5000u);
  expect_all_accounted_for(p.net);

  const Bytes longest = numbered(p.b.address(), p.a.address(), 9, 1514);
  ASSERT_TRUE(send(p.a, longest));
  p.net.advance_to(p.net.next_event());
  Frame frame;
  ASSERT_EQ(p.b.receive({&frame, 1}), 1u);
  EXPECT_EQ(Bytes(frame.data, frame.data + frame.length), longest);
  p.b.release({&frame, 1});
}

TEST(SimNetwork, DeliversAfterTheLatencyAndNotBefore) {
  Pair p({.latency_ns = 5000});
  const std::uint64_t start = p.net.now();
  send(p.a, p.b, 1);
  EXPECT_EQ(p.net.next_event(), start + 5000);
  p.net.advance_to(start + 4999);
  EXPECT_EQ(p.b.waiting(), 0u);
  p.net.advance_to(start + 5000);
  EXPECT_EQ(p.b.waiting(), 1u);
  EXPECT_EQ(p.net.next_event(), SimNetwork::kNever);
  p.net.advance_to(start);
  EXPECT_EQ(p.net.now(), start + 5000);
}

TEST(SimNetwork, SendsNothingBeforeFlush) {
  Pair p;
  Frame frame;
  ASSERT_EQ(p.a.reserve({&frame, 1}), 1u);
  const Bytes bytes = numbered(p.b.address(), p.a.address(), 1);
  std::memcpy(frame.data, bytes.data(), bytes.size());
  frame.length = 64;
  p.a.submit({&frame, 1});
  EXPECT_EQ(p.net.next_event(), SimNetwork::kNever);
  p.a.flush();
  EXPECT_NE(p.net.next_event(), SimNetwork::kNever);
}

TEST(SimNetwork, SwitchesByAddress) {
  SimNetwork net({}, 1);
  SimPort& a = net.add_host(mac(1), 1500);
  SimPort& b = net.add_host(mac(2), 1500);
  SimPort& c = net.add_host(mac(3), 1500);
  send(a, c, 1);
  net.advance_to(net.now() + 100000);
  EXPECT_EQ(a.waiting() + b.waiting(), 0u);
  EXPECT_EQ(take(c), std::vector<std::uint32_t>{1});

  send(a, numbered(kBroadcast, a.address(), 2));
  net.advance_to(net.now() + 100000);
  EXPECT_EQ(a.waiting(), 0u);
  EXPECT_EQ(take(b), std::vector<std::uint32_t>{2});
  EXPECT_EQ(take(c), std::vector<std::uint32_t>{2});

  send(a, numbered(mac(99), a.address(), 3));
  send(a, a, 4);
  net.advance_to(net.now() + 100000);
  EXPECT_EQ(a.waiting() + b.waiting() + c.waiting(), 0u);
  EXPECT_EQ(net.counters().lost_no_host, 2u);
}

TEST(SimNetwork, HasRoomForManyHosts) {
  SimNetwork net({.receive_frames = 8, .transmit_frames = 8}, 1);
  std::vector<SimPort*> hosts;
  for (unsigned i = 0; i < 100; ++i) {
    hosts.push_back(&net.add_host(mac(i), 1500));
    if (i == 5) net.cut(*hosts[1], *hosts[2]);
  }
  send(*hosts[1], numbered(kBroadcast, hosts[1]->address(), 2));
  net.advance_to(net.now() + 100000);
  for (unsigned i = 0; i < 100; ++i) EXPECT_EQ(hosts[i]->waiting(), i != 1 && i != 2 ? 1u : 0u);
}

TEST(SimNetwork, DropsWhatIsLongerThanTheReceiversMtu) {
  SimNetwork net({}, 1);
  SimPort& a = net.add_host(mac(1), 9000);
  SimPort& b = net.add_host(mac(2), 1500);
  send(a, b, 1, 1514);
  send(a, b, 2, 1515);
  EXPECT_EQ(run(net, b), std::vector<std::uint32_t>{1});
  EXPECT_EQ(net.counters().lost_too_long, 1u);
}

// ---------------------------------------------------------------------------- rate and queues

TEST(SimNetwork, TakesTheTimeOfTheLinkRate) {
  // 1514 + 24 bytes at 1 Gb/s are 12.304 us, on either link.
  Pair p({.latency_ns = 0, .bits_per_second = 1'000'000'000});
  const std::uint64_t start = p.net.now();
  for (std::uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(send(p.a, p.b, i, 1514));
  EXPECT_EQ(run(p.net, p.b), first_numbers(100));
  EXPECT_EQ(p.net.now() - start, 101 * 12304u);
}

TEST(SimNetwork, KeepsTransmitBuffersUntilTheyAreSentAndSaysWhenOneIsBack) {
  Pair p({.latency_ns = 1'000'000'000, .bits_per_second = 1'000'000'000, .transmit_frames = 4});
  const std::uint64_t start = p.net.now();
  for (std::uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(send(p.a, p.b, i, 1514));
  EXPECT_FALSE(send(p.a, p.b, 4, 1514));
  EXPECT_EQ(p.a.counters().tx_no_buffer, 1u);
  EXPECT_EQ(p.net.next_event(), start + 12304);
  p.net.advance_to(p.net.next_event());
  EXPECT_TRUE(send(p.a, p.b, 4, 1514));
  EXPECT_EQ(run(p.net, p.b), first_numbers(5));
}

TEST(SimNetwork, SaysThatBuffersAreBackAlsoWhenTheLinkTakesNoTime) {
  Pair p({.transmit_frames = 2});
  Frame frames[3];
  ASSERT_EQ(p.a.reserve(frames), 2u);
  for (Frame& frame : frames) frame.length = 60;
  p.a.submit({frames, 2});
  p.a.flush();
  EXPECT_EQ(p.net.next_event(), p.net.now());
  p.net.advance_to(p.net.now());
  EXPECT_GT(p.net.next_event(), p.net.now());
  EXPECT_EQ(p.a.reserve({frames, 2}), 2u);
  p.a.cancel({frames, 2});
}

TEST(SimNetwork, DropsAtTheTailOfTheSwitchsQueueAndCounts) {
  SimNetwork net({.bits_per_second = 1'000'000'000, .queue_frames = 10}, 1);
  SimPort& a = net.add_host(mac(1), 1500);
  SimPort& b = net.add_host(mac(2), 1500);
  SimPort& c = net.add_host(mac(3), 1500);
  for (std::uint32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(send(a, c, i, 1514));
    ASSERT_TRUE(send(b, c, i, 1514));
  }
  const std::size_t arrived = run(net, c).size();
  EXPECT_GT(net.counters().lost_queue_full, 80u);
  EXPECT_EQ(arrived + net.counters().lost_queue_full, 200u);
  expect_all_accounted_for(net);
}

TEST(SimNetwork, DropsWhenTheReceiveQueueIsFullAndCounts) {
  Pair p({.receive_frames = 100, .receive_queue = 8});
  for (std::uint32_t i = 0; i < 20; ++i) send(p.a, p.b, i);
  p.net.advance_to(p.net.now() + 100000);
  EXPECT_EQ(p.b.waiting(), 8u);
  EXPECT_EQ(p.b.counters().rx_dropped_ring_full, 12u);
  EXPECT_EQ(p.net.counters().lost_receive, 12u);
  EXPECT_EQ(take(p.b), first_numbers(8));
  expect_all_accounted_for(p.net);
}

TEST(SimNetwork, DropsWhenAllReceiveBuffersAreLentAndCounts) {
  Pair p({.receive_frames = 4, .receive_queue = 100});
  Frame kept[4];
  for (std::uint32_t i = 0; i < 4; ++i) send(p.a, p.b, i);
  p.net.advance_to(p.net.now() + 100000);
  ASSERT_EQ(p.b.receive(kept), 4u);
  send(p.a, p.b, 4);
  p.net.advance_to(p.net.now() + 100000);
  EXPECT_EQ(p.b.counters().rx_dropped_no_fill, 1u);
  p.b.release({kept + 2, 1});
  send(p.a, p.b, 5);
  p.net.advance_to(p.net.now() + 100000);
  EXPECT_EQ(take(p.b), std::vector<std::uint32_t>{5});
  p.b.release({kept, 2});
  p.b.release({kept + 3, 1});
  EXPECT_EQ(p.b.outstanding(), 0u);
}

// ---------------------------------------------------------------------------- faults

TEST(SimNetwork, LosesTheFractionAskedFor) {
  Pair p({.faults = {.loss = 0.1}});
  const std::size_t arrived = stream(p, 50000).size();
  EXPECT_NEAR(static_cast<double>(arrived), 45000, 300);
  EXPECT_EQ(p.net.counters().lost_fault, 50000 - arrived);
  expect_all_accounted_for(p.net);
}

TEST(SimNetwork, LosesEverythingOrNothingWhenAskedTo) {
  Pair all({.faults = {.loss = 1}});
  EXPECT_TRUE(stream(all, 1000).empty());
  Pair nothing({.faults = {.loss = 0}});
  EXPECT_EQ(stream(nothing, 1000).size(), 1000u);
}

TEST(SimNetwork, DuplicatesTheFractionAskedFor) {
  Pair p({.faults = {.duplication = 0.2}});
  const std::vector<std::uint32_t> numbers = stream(p, 10000);
  EXPECT_NEAR(static_cast<double>(numbers.size()), 12000, 200);
  EXPECT_EQ(numbers.size(), 10000 + p.net.counters().duplicated);
  std::vector<unsigned> copies(10000);
  for (const std::uint32_t n : numbers) ++copies.at(n);
  for (const unsigned count : copies) EXPECT_TRUE(count == 1 || count == 2);
  expect_all_accounted_for(p.net);
}

TEST(SimNetwork, ReordersTheFractionAskedForAndLosesNothing) {
  Pair p({.faults = {.reordering = 0.05, .reorder_ns = 10'000}});
  std::vector<std::uint32_t> numbers = stream(p, 10000);
  EXPECT_NEAR(static_cast<double>(p.net.counters().reordered), 500, 100);
  unsigned overtaken = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) overtaken += numbers[i] < numbers[i - 1];
  EXPECT_GT(overtaken, 200u);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(numbers, first_numbers(10000));
}

TEST(SimNetwork, KeepsTheOrderUnderJitter) {
  Pair p({.latency_ns = 5000, .faults = {.jitter_ns = 50'000}});
  EXPECT_EQ(stream(p, 5000), first_numbers(5000));
}

TEST(SimNetwork, FlipsBitsOnlyWhereItMay) {
  Pair p({.faults = {.corruption = 0.5, .corrupt_bits = 3, .corrupt_from = 20, .corrupt_to = 30}});
  unsigned changed = 0;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const Bytes sent = numbered(p.b.address(), p.a.address(), 7);
    send(p.a, sent);
    p.net.advance_to(p.net.next_event());
    Frame frame;
    ASSERT_EQ(p.b.receive({&frame, 1}), 1u);
    ASSERT_EQ(frame.length, sent.size());
    for (std::size_t at = 0; at < sent.size(); ++at) {
      if (at < 20 || at >= 30) {
        ASSERT_EQ(frame.data[at], sent[at]) << at;
      }
    }
    changed += std::memcmp(frame.data, sent.data(), sent.size()) != 0;
    p.b.release({&frame, 1});
  }
  EXPECT_NEAR(changed, 1000, 100);
  EXPECT_NEAR(static_cast<double>(p.net.counters().corrupted), 1000, 100);
}

TEST(SimNetwork, CorruptsOneCopyAndNotTheOther) {
  Pair p({.faults = {.duplication = 1, .corruption = 0.5}});
  const Bytes sent = numbered(p.b.address(), p.a.address(), 7);
  unsigned whole = 0;
  for (int i = 0; i < 1000; ++i) {
    send(p.a, sent);
    while (p.net.next_event() != SimNetwork::kNever) p.net.advance_to(p.net.next_event());
    Frame frames[2];
    ASSERT_EQ(p.b.receive(frames), 2u);
    for (const Frame& f : frames) whole += std::memcmp(f.data, sent.data(), sent.size()) == 0;
    p.b.release(frames);
  }
  EXPECT_NEAR(whole, 1000, 100);
}

TEST(SimNetwork, ChangesFaultsUnderWay) {
  Pair p({.faults = {.loss = 1}});
  EXPECT_TRUE(stream(p, 10).empty());
  p.net.set_faults({});
  EXPECT_EQ(stream(p, 10).size(), 10u);
}

TEST(SimNetwork, AsksTheFilterAboutEachFrame) {
  Pair p;
  unsigned asked = 0;
  p.net.set_filter([&asked](const SimPort& from, std::span<std::byte> frame) {
    EXPECT_EQ(from.address(), mac(1));
    frame[14] ^= std::byte{1};
    return ++asked % 2 == 0;
  });
  EXPECT_EQ(stream(p, 4), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(p.net.counters().lost_filter, 2u);
  p.net.set_filter(nullptr);
  EXPECT_EQ(stream(p, 4), first_numbers(4));
}

// ---------------------------------------------------------------------------- partitions, hosts

TEST(SimNetwork, CutsOneDirectionAndLeavesTheOther) {
  Pair p;
  p.net.cut(p.a, p.b);
  send(p.a, p.b, 1);
  send(p.b, p.a, 2);
  p.net.advance_to(p.net.now() + 100000);
  EXPECT_EQ(p.b.waiting(), 0u);
  EXPECT_EQ(take(p.a), std::vector<std::uint32_t>{2});
  EXPECT_EQ(p.net.counters().lost_cut, 1u);
  p.net.mend(p.a, p.b);
  send(p.a, p.b, 3);
  EXPECT_EQ(run(p.net, p.b), std::vector<std::uint32_t>{3});
}

TEST(SimNetwork, PartsAndJoinsTwoHosts) {
  Pair p;
  p.net.part(p.a, p.b);
  send(p.a, p.b, 1);
  send(p.b, p.a, 2);
  p.net.advance_to(p.net.now() + 100000);
  EXPECT_EQ(p.a.waiting() + p.b.waiting(), 0u);
  p.net.mend_all();
  send(p.a, p.b, 3);
  send(p.b, p.a, 4);
  p.net.advance_to(p.net.now() + 100000);
  EXPECT_EQ(p.a.waiting() + p.b.waiting(), 2u);
}

TEST(SimNetwork, LosesWhatIsUnderWayWhenALinkIsCut) {
  Pair p;
  send(p.a, p.b, 1);
  p.net.cut(p.a, p.b);
  EXPECT_TRUE(run(p.net, p.b).empty());
  EXPECT_EQ(p.net.counters().lost_cut, 1u);
  expect_all_accounted_for(p.net);
}

TEST(SimNetwork, PausesAHost) {
  Pair p;
  p.net.pause(p.b);
  send(p.a, p.b, 1);
  send(p.b, p.a, 2);
  p.net.advance_to(p.net.now() + 100000);
  EXPECT_TRUE(take(p.b).empty());
  EXPECT_TRUE(take(p.a).empty());
  p.net.resume(p.b);
  EXPECT_EQ(take(p.b), std::vector<std::uint32_t>{1});
  p.net.advance_to(p.net.now() + 100000);
  EXPECT_EQ(take(p.a), std::vector<std::uint32_t>{2});
}

TEST(SimNetwork, KillsAHostForGood) {
  Pair p;
  EXPECT_TRUE(p.b.alive());
  send(p.a, p.b, 1);
  p.net.advance_to(p.net.now() + 100000);
  p.net.kill(p.b);
  EXPECT_FALSE(p.b.alive());
  send(p.a, p.b, 2);
  send(p.b, p.a, 3);
  p.net.advance_to(p.net.now() + 100000);
  EXPECT_TRUE(take(p.b).empty());
  EXPECT_TRUE(take(p.a).empty());
  EXPECT_EQ(p.net.counters().lost_cut, 2u);
}

TEST(SimNetwork, InjectsAFrameThatNobodySent) {
  Pair p;
  EXPECT_TRUE(p.net.inject(p.b, numbered(p.b.address(), mac(99), 5)));
  EXPECT_EQ(take(p.b), std::vector<std::uint32_t>{5});
  EXPECT_TRUE(p.net.inject(p.b, Bytes(3)));
  Frame frame;
  ASSERT_EQ(p.b.receive({&frame, 1}), 1u);
  EXPECT_EQ(frame.length, 3u);
  p.b.release({&frame, 1});
  EXPECT_FALSE(p.net.inject(p.b, Bytes(1515)));
  expect_all_accounted_for(p.net);
}

// ---------------------------------------------------------------------------- repeatability

std::uint64_t hash_of_a_rough_run(std::uint64_t seed) {
  const SimFaults faults{.loss = 0.05,
                         .duplication = 0.05,
                         .reordering = 0.1,
                         .corruption = 0.05,
                         .jitter_ns = 3000,
                         .reorder_ns = 20'000};
  SimNetwork net({.bits_per_second = 1'000'000'000, .queue_frames = 20, .faults = faults}, seed);
  SimPort* hosts[4];
  for (unsigned i = 0; i < 4; ++i) hosts[i] = &net.add_host(mac(i), 1500);
  SimRandom random(5);
  for (std::uint32_t i = 0; i < 3000; ++i) {
    SimPort& from = *hosts[random.below(4)];
    const MacAddress to = random.below(10) == 0 ? kBroadcast : mac(i % 4);
    send(from, numbered(to, from.address(), i, 60 + random.below(1400)));
    net.advance_to(net.now() + random.below(5000));
    take(*hosts[random.below(4)]);
  }
  while (net.next_event() != SimNetwork::kNever) net.advance_to(net.next_event());
  for (SimPort* host : hosts) {
    take(*host);
    EXPECT_EQ(host->outstanding(), 0u);
  }
  return net.trace_hash();
}

TEST(SimNetwork, RepeatsARunWithTheSameSeed) {
  EXPECT_EQ(hash_of_a_rough_run(1), hash_of_a_rough_run(1));
}

TEST(SimNetwork, RunsOtherwiseWithAnotherSeed) {
  EXPECT_NE(hash_of_a_rough_run(1), hash_of_a_rough_run(2));
}

}  // namespace
}  // namespace viaduct
