// Redirected receives: a message goes where its program waits for it, wholly or not at all, and
// nothing is written there afterwards.
#include <algorithm>

#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

using layout::CommandBody;
using layout::Op;

constexpr std::uint32_t kBytes = 100'000;
constexpr std::byte kUntouched{0xee};

// The server's program receives; `own` is where its receives say, `other` where they are redirected.
struct Redirected : Pair {
  explicit Redirected(std::uint64_t seed = 1, std::uint16_t level = vip::kReliableDelivery)
      : Pair(seed, level, gigabit()),
        from(kBytes),
        own(kBytes, kUntouched),
        other(kBytes, kUntouched),
        from_handle(client->register_memory(from.data(), kBytes)),
        own_handle(server->register_memory(own.data(), kBytes)),
        other_handle(server->register_memory(other.data(), kBytes)) {
    set_transfer(*client, client_vi, level);
    set_transfer(*server, server_vi, level);
    EXPECT_TRUE(connect());
    for (std::uint32_t i = 0; i < kBytes; ++i) from[i] = pattern(7, i);
  }
  // So slow that a long message is seen in its middle.
  static SimOptions gigabit() {
    SimOptions options;
    options.bits_per_second = 1'000'000'000;
    return options;
  }
  static void set_transfer(Program& program, std::uint32_t vi, std::uint16_t level) {
    CommandBody body{};
    body.op = Op::kSetVi;
    body.vi = vi;
    body.vi_attributes = {level, kBytes, 0, 0, 0};
    EXPECT_EQ(program.now(body).result, std::uint32_t{vip::kSuccess});
  }

  void receive(std::uint32_t length = kBytes) {
    server->post_receive(server_vi, own.data(), length, own_handle);
  }
  void send(std::uint32_t length) { client->post_send(client_vi, from.data(), length, from_handle); }
  vip::Return redirect(std::uint32_t length = kBytes) {
    return b.stack->redirect(
        server_vi, 0, {reinterpret_cast<std::uint64_t>(other.data()), other_handle, length});
  }
  vip::Return unredirect() { return b.stack->unredirect(server_vi, 0); }

  // Takes the completion off the queue.
  Completion received() {
    std::optional<Completion> done;
    run(network, hosts, {}, [&] { return (done = server->done(server_vi, true)).has_value(); },
        network.now() + 20 * kSecond);
    EXPECT_TRUE(done.has_value());
    // As libvipl tells the stack, by way of the segment.
    server->view().vi(server_vi).receive.dequeued.fetch_add(1);
    return done.value_or(Completion{});
  }
  static bool untouched(const std::vector<std::byte>& memory, std::uint32_t begin = 0) {
    return std::all_of(memory.begin() + begin, memory.end(),
                       [](std::byte b) { return b == kUntouched; });
  }
  bool holds(const std::vector<std::byte>& memory, std::uint32_t length) const {
    return std::equal(from.begin(), from.begin() + length, memory.begin()) &&
           untouched(memory, length);
  }
  void clear() {
    std::fill(own.begin(), own.end(), kUntouched);
    std::fill(other.begin(), other.end(), kUntouched);
  }

  std::vector<std::byte> from, own, other;
  std::uint32_t from_handle, own_handle, other_handle;
};

// Also what would travel in the slot, and what has no bytes.
TEST(Redirect, TakesMessagesOfAllSizes) {
  for (const std::uint16_t level :
       {vip::kUnreliable, vip::kReliableDelivery, vip::kReliableReception}) {
    Redirected pair(1, level);
    for (const std::uint32_t length : {1u, 100u, 496u, 497u, 1400u, 5000u, 60'000u, 0u}) {
      pair.clear();
      pair.receive();
      ASSERT_EQ(pair.redirect(), vip::kSuccess);
      pair.send(length);
      const Completion done = pair.received();
      EXPECT_EQ(done.status & vip::kErrorMask, 0u);
      EXPECT_EQ(done.length, length);
      EXPECT_EQ(pair.unredirect(), vip::kSuccess);
      EXPECT_TRUE(pair.holds(pair.other, length)) << length;
      EXPECT_TRUE(pair.untouched(pair.own)) << length;
      EXPECT_EQ(pair.unredirect(), vip::kNotDone) << "only once";
    }
  }
}

TEST(Redirect, IsForOneMessage) {
  Redirected pair;
  pair.receive();
  pair.receive();
  ASSERT_EQ(pair.redirect(), vip::kSuccess);
  EXPECT_EQ(pair.redirect(), vip::kNotDone) << "it is";
  pair.send(200);
  pair.send(300);
  pair.received();
  pair.received();
  EXPECT_EQ(pair.redirect(), vip::kNotDone) << "how it went has not been asked";
  EXPECT_EQ(pair.unredirect(), vip::kSuccess);
  EXPECT_TRUE(pair.holds(pair.other, 200));
  EXPECT_TRUE(pair.holds(pair.own, 300));
}

TEST(Redirect, CanBeTakenBackBeforeAnythingHasCome) {
  Redirected pair;
  pair.receive();
  ASSERT_EQ(pair.redirect(), vip::kSuccess);
  EXPECT_EQ(pair.unredirect(), vip::kNotDone);
  pair.send(5000);
  pair.received();
  EXPECT_TRUE(pair.holds(pair.own, 5000));
  EXPECT_TRUE(pair.untouched(pair.other));
}

TEST(Redirect, IsRefusedWhenThereIsNothingToWaitFor) {
  Redirected pair;
  EXPECT_EQ(pair.redirect(), vip::kNotDone) << "no receive is posted";
  pair.receive();
  pair.receive();
  pair.send(300);
  pair.wait(kMillisecond);
  EXPECT_EQ(pair.redirect(), vip::kNotDone) << "a message has come";
  pair.received();
  EXPECT_EQ(pair.redirect(), vip::kSuccess);
  EXPECT_EQ(pair.unredirect(), vip::kNotDone);
  EXPECT_EQ(pair.b.stack->redirect(99, 0, {}), vip::kInvalidParameter);
  EXPECT_EQ(pair.b.stack->unredirect(99, 0), vip::kInvalidParameter);
  EXPECT_EQ(pair.b.stack->unredirect(pair.server_vi, 77), vip::kInvalidParameter);
}

TEST(Redirect, IsRefusedForMemoryThatTheViMayNotUse) {
  Redirected pair;
  pair.receive();
  EXPECT_EQ(pair.redirect(0), vip::kInvalidParameter);
  EXPECT_EQ(pair.redirect(kBytes + 1), vip::kInvalidParameter);
  ++pair.other_handle;
  EXPECT_EQ(pair.redirect(), vip::kInvalidParameter);
}

TEST(Redirect, LeavesLongerMessagesWhereTheyBelong) {
  Redirected pair;
  for (const std::uint32_t length : {400u, 60'000u}) {
    pair.clear();
    pair.receive();
    ASSERT_EQ(pair.redirect(length - 1), vip::kSuccess);
    pair.send(length);
    EXPECT_EQ(pair.received().status & vip::kErrorMask, 0u);
    EXPECT_EQ(pair.unredirect(), vip::kNotDone);
    EXPECT_TRUE(pair.holds(pair.own, length));
    EXPECT_TRUE(pair.untouched(pair.other));
  }
}

TEST(Redirect, IsForgottenWhenTheMemoryIsNotRegisteredAnyMore) {
  Redirected pair;
  pair.receive();
  ASSERT_EQ(pair.redirect(), vip::kSuccess);
  CommandBody body{};
  body.op = Op::kDeregisterMemory;
  body.handle = pair.other_handle;
  body.memory.address = reinterpret_cast<std::uint64_t>(pair.other.data());
  ASSERT_EQ(pair.server->now(body).result, std::uint32_t{vip::kSuccess});
  pair.send(5000);
  EXPECT_EQ(pair.received().status & vip::kErrorMask, 0u);
  EXPECT_EQ(pair.unredirect(), vip::kNotDone);
  EXPECT_TRUE(pair.holds(pair.own, 5000));
}

TEST(Redirect, EndsWithTheConnection) {
  Redirected pair;
  pair.receive();
  ASSERT_EQ(pair.redirect(), vip::kSuccess);
  pair.send(kBytes);
  pair.wait(200'000);  // some of it has come
  CommandBody body{};
  body.op = Op::kDisconnect;
  body.vi = pair.server_vi;
  ASSERT_EQ(pair.server->now(body).result, std::uint32_t{vip::kSuccess});
  EXPECT_EQ(pair.redirect(), vip::kNotDone);
  EXPECT_EQ(pair.unredirect(), vip::kNotDone);
  EXPECT_NE(pair.received().status & vip::kErrorMask, 0u);
  const std::vector<std::byte> before = pair.other;
  pair.wait(kSecond);
  EXPECT_EQ(pair.other, before);
}

// One message, redirected and not, back and forth while it comes.
TEST(Redirect, MovesWhatHasComeAlready) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Redirected pair(seed);
    SimFaults faults;
    faults.loss = seed % 3 == 0 ? 0.05 : 0;
    faults.reordering = seed % 3 == 1 ? 0.1 : 0;
    pair.network.set_faults(faults);
    SimRandom random(seed);
    const auto length = static_cast<std::uint32_t>(20'000 + random.below(kBytes - 20'000));
    pair.receive();
    pair.send(length);
    bool redirected = false, completed = false;
    unsigned moves = 0;
    for (int i = 0; i < 40 && !completed; ++i) {
      pair.wait(random.below(60'000));
      if (redirected) {
        completed = pair.unredirect() == vip::kSuccess;
        if (completed) break;
        // Nothing is written there from now on.
        std::fill(pair.other.begin(), pair.other.end(), kUntouched);
        redirected = false;
      } else {
        redirected = pair.redirect() == vip::kSuccess;
      }
      ++moves;
    }
    EXPECT_EQ(pair.received().length, length);
    if (redirected && !completed) completed = pair.unredirect() == vip::kSuccess;
    EXPECT_GT(moves, 2u);
    const std::vector<std::byte>& where = completed ? pair.other : pair.own;
    EXPECT_TRUE(std::equal(pair.from.begin(), pair.from.begin() + length, where.begin()))
        << "seed " << seed;
    if (!completed) {
      EXPECT_TRUE(pair.untouched(pair.other)) << "seed " << seed;
    }
  }
}

// A stream of messages of all sizes, packed ones among them, with a reader that redirects when it
// likes.
TEST(Redirect, KeepsAStreamInOrder) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Redirected pair(seed);
    SimRandom random(seed);
    std::uint32_t posted = 0, sent = 0, taken = 0;
    std::vector<std::uint32_t> lengths;
    bool redirected = false;
    unsigned used = 0;
    // Each receive has memory of its own, and each message bytes of its own.
    constexpr std::uint32_t kRoom = 9000;
    const auto room = [&](std::uint32_t n) { return pair.own.data() + n % 8 * kRoom; };
    const auto bytes = [&](std::uint32_t n) { return pair.from.data() + n * 13 % 5000; };
    const auto logic = [&] {
      for (; posted < taken + 8; ++posted) {
        pair.server->post_receive(pair.server_vi, room(posted), kRoom, pair.own_handle);
      }
      for (; sent < 400 && sent < posted; ++sent) {
        lengths.push_back(static_cast<std::uint32_t>(random.below(4) == 0 ? random.below(kRoom)
                                                                          : random.below(600)));
        pair.client->post_send(pair.client_vi, bytes(sent), lengths.back(), pair.from_handle);
      }
      while (pair.client->done(pair.client_vi, false)) continue;
      if (!redirected && random.below(3) == 0) redirected = pair.redirect() == vip::kSuccess;
      const auto done = pair.server->done(pair.server_vi, true);
      if (!done) {
        if (redirected && random.below(4) == 0) {
          // Gives up waiting.
          const vip::Return result = pair.unredirect();
          redirected = false;
          EXPECT_EQ(result, vip::kNotDone);
        }
        return false;
      }
      pair.server->view().vi(pair.server_vi).receive.dequeued.fetch_add(1);
      const std::uint32_t length = lengths[taken];
      EXPECT_EQ(done->length, length);
      const bool there = redirected && pair.unredirect() == vip::kSuccess;
      redirected = false;
      used += there;
      const std::byte* const where = there ? pair.other.data() : room(taken);
      EXPECT_EQ(std::memcmp(where, bytes(taken), length), 0) << taken;
      ++taken;
      return true;
    };
    run(pair.network, pair.hosts, logic, [&] { return taken == 400; },
        pair.network.now() + 20 * kSecond);
    EXPECT_EQ(taken, 400u);
    EXPECT_GT(used, 10u);
  }
}

TEST(Redirect, IsNotForMessagesThatOnlyAnnounceAnRdmaWrite) {
  Redirected pair;
  CommandBody body{};
  body.op = Op::kSetMemory;
  body.handle = pair.own_handle;
  body.memory = {reinterpret_cast<std::uint64_t>(pair.own.data()), kBytes, 0, 1, 0, 0};
  ASSERT_EQ(pair.server->now(body).result, std::uint32_t{vip::kSuccess});
  // The VI must allow it as well, which can be said only while it is idle.
  const std::uint32_t writable =
      pair.server->create_vi(vip::kReliableDelivery, 0, 0, true);
  const std::uint32_t writer = pair.client->create_vi(vip::kReliableDelivery, 0, 0, true);
  ASSERT_TRUE(sim::connect(pair.network, pair.hosts, *pair.client, writer, *pair.server, writable,
                           pair.b.port.address(), 9));
  pair.server->post_receive(writable, pair.own.data(), 64, pair.own_handle);
  ASSERT_EQ(pair.b.stack->redirect(writable, 0,
                                 {reinterpret_cast<std::uint64_t>(pair.other.data()),
                                  pair.other_handle, kBytes}),
            vip::kSuccess);
  pair.client->post_rdma(writer, layout::kOpRdmaWrite,
                         {reinterpret_cast<std::uint64_t>(pair.from.data()), pair.from_handle, 100},
                         pair.own.data() + 1000, pair.own_handle, 0, 5);
  std::optional<Completion> done;
  run(pair.network, pair.hosts, {},
      [&] { return (done = pair.server->done(writable, true)).has_value(); },
      pair.network.now() + kSecond);
  ASSERT_TRUE(done);
  EXPECT_EQ(pair.b.stack->unredirect(writable, 0), vip::kNotDone);
  EXPECT_TRUE(pair.untouched(pair.other));
}

}  // namespace
}  // namespace viaduct::sim
