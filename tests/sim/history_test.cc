// A stack's notes of connections, losses and commands, and reading them.
#include <gtest/gtest.h>

#include "kagent/stack/history.h"
#include "kagent/stack/history_reader.h"
#include "tests/sim/commands.h"
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

using state::Happened;
using state::kEventsKept;
using state::kNone;

std::vector<state::Event> events(const Host& host, HistoryOf which = HistoryOf::kConnections) {
  return read_history(host.segment(), host.stack->limits(), which, 0, kEventsKept, ~0ull).events;
}

std::vector<Happened> kinds(const std::vector<state::Event>& all) {
  std::vector<Happened> out;
  for (const state::Event& event : all) out.push_back(event.what);
  return out;
}

std::vector<state::Event> losses(const Host& host) {
  std::vector<state::Event> out = events(host);
  std::erase_if(out, [](const state::Event& event) { return event.what != Happened::kLoss; });
  return out;
}

TEST(HistoryTest, TellsOfAConnectionAtBothEnds) {
  Pair pair;
  ASSERT_TRUE(pair.connect());
  EXPECT_EQ(pair.client->now(with_handle(Op::kDisconnect, 0, pair.client_vi)).result, vip::kSuccess);
  pair.wait(kMillisecond);
  const auto here = events(pair.a), there = events(pair.b);
  ASSERT_EQ(kinds(here), (std::vector{Happened::kConnected, Happened::kDisconnected}));
  ASSERT_EQ(kinds(there), (std::vector{Happened::kConnected, Happened::kPeerDisconnected}));
  EXPECT_EQ(here[0].vi, pair.client_vi);
  EXPECT_EQ(here[0].code, vip::kReliableDelivery);
  for (const state::Event& event : here) EXPECT_EQ(event.peer, pair.b.port.address());
  for (const state::Event& event : there) EXPECT_EQ(event.peer, pair.a.port.address());
  EXPECT_LE(here[0].time, here[1].time);
}

TEST(HistoryTest, TellsOfALostConnection) {
  Pair pair;
  ASSERT_TRUE(pair.connect());
  SimFaults faults;
  faults.loss = 1;
  pair.network.set_faults(faults);
  std::vector<std::byte> data(64);
  const std::uint32_t handle = pair.client->register_memory(data.data(), data.size());
  pair.client->post_send(pair.client_vi, data.data(), 64, handle);
  pair.wait(60 * kSecond);
  const auto all = events(pair.a);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back().what, Happened::kConnectionLost);
  EXPECT_EQ(all.back().code, static_cast<std::uint32_t>(vip::kConnectionLost));
  EXPECT_EQ(all.back().peer, pair.b.port.address());
  ASSERT_GT(all.size(), 3u);
  EXPECT_EQ(all[1].what, Happened::kTimeout);
  EXPECT_EQ(all[1].count, 2u);
  EXPECT_GT(all[all.size() - 2].count, all[1].count);
}

// An operator may have more patience with hosts that are busy than timeouts in a row take.
TEST(HistoryTest, AConnectionIsNotLostBeforeItsPeerMayBeGivenUp) {
  StackLimits limits = small_limits();
  limits.peer_timeout_ns = 20 * kSecond;
  Pair pair(1, vip::kReliableDelivery, {}, limits);
  ASSERT_TRUE(pair.connect());
  SimFaults faults;
  faults.loss = 1;
  pair.network.set_faults(faults);
  std::vector<std::byte> data(64);
  const std::uint32_t handle = pair.client->register_memory(data.data(), data.size());
  pair.client->post_send(pair.client_vi, data.data(), 64, handle);
  pair.wait(15 * kSecond);
  EXPECT_EQ(pair.client->state(pair.client_vi), vip::kConnected);
  pair.wait(30 * kSecond);
  EXPECT_EQ(pair.client->state(pair.client_vi), vip::kError);
}

// However many there are, few are told of, and none is left out of the sum.
TEST(HistoryTest, LossesDoNotPushOutTheRest) {
  Pair pair;
  ASSERT_TRUE(pair.connect());
  SimFaults faults;
  faults.loss = 0.02;
  pair.network.set_faults(faults);
  std::vector<std::byte> data(1400);
  const std::uint32_t out = pair.client->register_memory(data.data(), data.size());
  const std::uint32_t in = pair.server->register_memory(data.data(), data.size());
  const std::uint64_t begin = pair.network.now();
  for (int round = 0; round < 600; ++round) {
    for (int i = 0; i < 16; ++i) pair.server->post_receive(pair.server_vi, data.data(), 1400, in);
    for (int i = 0; i < 16; ++i) pair.client->post_send(pair.client_vi, data.data(), 1400, out);
    pair.wait(kMillisecond);
    while (pair.client->done(pair.client_vi, false)) continue;
    while (pair.server->done(pair.server_vi, true)) continue;
  }
  const std::uint64_t passed = pair.network.now() - begin;
  const auto told = losses(pair.a);
  ASSERT_FALSE(told.empty());
  EXPECT_LE(told.size(), passed / History::kLossesEveryNs + 1);
  std::uint64_t sum = 0;
  for (const state::Event& event : told) sum += event.count;
  EXPECT_GT(sum, told.size());
  EXPECT_LE(sum, pair.a.stack->counters().retransmissions);
  EXPECT_EQ(events(pair.a).front().what, Happened::kConnected);
}

TEST(HistoryTest, TellsOfCommandsAndTheirResults) {
  Pair pair;
  const std::uint64_t begin = pair.network.now();
  std::optional<std::uint32_t> result;
  pair.client->command(wait_for(5, 20), [&](const CommandBody& body) { result = body.result; });
  pair.wait(30 * kMillisecond);
  EXPECT_EQ(result, static_cast<std::uint32_t>(vip::kTimeout));
  EXPECT_EQ(pair.client->now(with_handle(Op::kDestroyVi, 0, 77)).result, vip::kInvalidParameter);
  const auto all = events(pair.a, HistoryOf::kCommands);
  ASSERT_GE(all.size(), 3u);
  const state::Event& made = all[all.size() - 3];
  EXPECT_EQ(made.op, static_cast<std::uint16_t>(Op::kCreateVi));
  EXPECT_EQ(made.vi, pair.client_vi);
  const state::Event& waited = all[all.size() - 2];
  EXPECT_EQ(waited.op, static_cast<std::uint16_t>(Op::kConnectWait));
  EXPECT_EQ(waited.code, static_cast<std::uint32_t>(vip::kTimeout));
  EXPECT_EQ(waited.vi, kNone);
  EXPECT_GE(waited.waited, 20 * kMillisecond);
  EXPECT_GE(waited.time, begin + waited.waited);
  EXPECT_EQ(waited.session, pair.client->session());
  EXPECT_EQ(all.back().op, static_cast<std::uint16_t>(Op::kDestroyVi));
  EXPECT_EQ(all.back().vi, 77u);
  EXPECT_EQ(all.back().code, static_cast<std::uint32_t>(vip::kInvalidParameter));
}

// The rings as a reader sees them, without a stack.
class HistoryReaderTest : public testing::Test {
 protected:
  HistoryReaderTest() : memory_(Tables::footprint(limits_)) {}
  state::EventRing& ring() {
    return reinterpret_cast<state::History*>(memory_.data() + Tables::parts(limits_).history)->connections;
  }
  // Event n is of VI n.
  void write(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ring().events[ring().count % kEventsKept].vi = static_cast<std::uint32_t>(ring().count);
      ++ring().count;
    }
  }
  HistoryPage read(std::uint64_t from, std::size_t most = kEventsKept, std::uint64_t now = ~0ull) {
    return read_history(memory_.data(), limits_, HistoryOf::kConnections, from, most, now);
  }

  StackLimits limits_ = small_limits();
  std::vector<std::byte> memory_;
};

TEST_F(HistoryReaderTest, ReadsEachEventOnce) {
  write(10);
  HistoryPage page = read(0, 4);
  EXPECT_EQ(page.events.size(), 4u);
  EXPECT_EQ(page.next, 4u);
  page = read(page.next);
  ASSERT_EQ(page.events.size(), 6u);
  EXPECT_EQ(page.events[0].vi, 4u);
  EXPECT_EQ(page.missed, 0u);
  EXPECT_TRUE(read(page.next).events.empty());
}

TEST_F(HistoryReaderTest, WhoReadsTooSlowlyIsToldHowManyAreGone) {
  write(10);
  write(kEventsKept + 100);
  const HistoryPage page = read(10);
  // One place may be being written to.
  ASSERT_EQ(page.events.size(), kEventsKept - 1);
  EXPECT_EQ(page.missed, 101u);
  EXPECT_EQ(page.events.front().vi, 111u);
  EXPECT_EQ(page.events.back().vi, kEventsKept + 109);
}

TEST_F(HistoryReaderTest, AnotherStackIsReadFromItsBeginning) {
  write(3);
  const HistoryPage page = read(50);
  EXPECT_EQ(page.events.size(), 3u);
  EXPECT_EQ(page.missed, 0u);
}

TEST_F(HistoryReaderTest, NonsenseLeadsNowhere) {
  std::memset(static_cast<void*>(&ring()), 0xa5, sizeof ring());
  const HistoryPage page = read(7, 100, 1000);
  EXPECT_LE(page.events.size(), 100u);
  for (const state::Event& event : page.events) EXPECT_LE(event.time, 1000u);
}

}  // namespace
}  // namespace viaduct::sim
