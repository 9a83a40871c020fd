// Two lanes whose programs, link and completions do everything in random order. The invariants are
// checked after each step: by LaneSide (bytes equal and in order), by FakeTransport (receives and places,
// packets sent at most once) and here (credits).
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/unit/sovia/lane_pair.h"

namespace viaduct::sovia {
namespace {

class RandomLanes {
 public:
  explicit RandomLanes(std::uint64_t seed)
      : random_(seed),
        options_a_(options()),
        options_b_(one_of(2) ? options_a_ : options()),
        pair_(options_a_, options_b_),
        // How often each kind of step is taken differs from run to run.
        link_(1 + one_of(20)),
        completions_(1 + one_of(20)),
        reads_(one_of(20)),
        writes_(1 + one_of(20)),
        most_(1u << one_of(18)) {}

  void run() {
    pair_.a.lane.greet(LanePair::kTokenA);
    pair_.b.lane.greet(LanePair::kTokenB);
    const unsigned steps = 50 + one_of(500);
    for (unsigned i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      step();
      check(pair_.a, pair_.b, options_b_, deaf_[1]);
      check(pair_.b, pair_.a, options_a_, deaf_[0]);
    }
    end();
  }

  // The link fails at the end of some runs, in whatever state the lanes are.
  void run_and_break() {
    pair_.a.lane.greet(LanePair::kTokenA);
    pair_.b.lane.greet(LanePair::kTokenB);
    for (unsigned i = one_of(200); i > 0; --i) step();
    for (LaneSide* const side : {&pair_.a, &pair_.b}) {
      side->transport.break_down();
      if (one_of(2)) side->put(100);
      while (side->transport.take_in(side->lane)) {
      }
      side->lane.cut();
    }
    expect_to_go_on(pair_.a, pair_.b);
    expect_to_go_on(pair_.b, pair_.a);
    for (unsigned i = 0; i < 100; ++i) step();
    for (LaneSide* const side : {&pair_.a, &pair_.b}) {
      EXPECT_TRUE(side->lane.control.over());
      while (side->lane.rx.unread() != 0 || side->lane.rx.has_turns()) side->get(side->lane.rx.unread());
    }
  }

 private:
  unsigned one_of(unsigned count) { return static_cast<unsigned>(random_() % count); }
  LaneOptions options() {
    const std::uint32_t w = one_of(4) != 0 ? 1 + one_of(8) : 1 + one_of(kMostWindow);
    LaneOptions options{w, 1 + one_of(w), one_of(2) != 0};
    options.join = one_of(4) != 0;
    options.strict_window = one_of(4) == 0;
    options.timer = one_of(4) == 0;
    return options;
  }
  // After the break the receiver has all that the sender does not send again.
  static void expect_to_go_on(LaneSide& from, LaneSide& to) {
    if (from.lane.control.peer_closed()) return;
    const std::uint64_t kept = from.lane.ring.unsent(), stay = from.written_before;
    const std::uint64_t offset = stay + from.lane.tx.bytes_delivered();
    const std::uint64_t received = to.lane.rx.bytes_received();
    EXPECT_EQ(offset + kept, from.written);
    EXPECT_LE(offset, received);
    EXPECT_LE(received, from.written);
    if (received != stay) {
      EXPECT_EQ(received - to.lane.rx.bytes_here(), stay) << "they mean different stays";
    }
    if (!from.lane.tx.has_delivered_first()) {
      EXPECT_EQ(offset, stay) << "there will be no record";
    }
    std::vector<std::byte> bytes(kept);
    EXPECT_TRUE(from.lane.ring.copy_unsent(bytes.data()));
    for (std::uint64_t i = 0; i < kept; ++i) {
      if (bytes[i] == stream_byte(from.stream(), offset + i)) continue;
      ADD_FAILURE() << "wrong byte at " << offset + i;
      break;
    }
  }
  std::size_t size() { return one_of(4) != 0 ? one_of(most_) : one_of(64); }

  void step() {
    LaneSide& side = one_of(2) ? pair_.a : pair_.b;
    bool& deaf = deaf_[&side == &pair_.b];
    const unsigned all = link_ * 2 + completions_ + reads_ + writes_ + 1;
    unsigned choice = one_of(all);
    const auto falls = [&choice](unsigned weight) {
      if (choice < weight) return true;
      choice -= weight;
      return false;
    };
    if (falls(link_)) {
      side.transport.deliver();
    } else if (falls(link_)) {
      side.transport.take_in(side.lane);
    } else if (falls(completions_)) {
      side.transport.complete();
      if (one_of(2)) side.lane.poll();
    } else if (falls(reads_)) {
      read(side);
    } else if (falls(writes_)) {
      write(side);
    } else {
      seldom(side, deaf);
    }
    side.free_directs();
  }

  void read(LaneSide& side) {
    switch (one_of(12)) {
      case 0: side.get(size(), true); break;
      case 1: side.drop(size()); break;
      case 2:
        side.end_direct();
        side.follow();
        break;
      case 3: case 4: case 5:
        side.wait_direct(1 + static_cast<std::uint32_t>(size()));
        break;
      case 6: side.end_direct(); break;
      default: side.get(size()); break;
    }
  }

  void write(LaneSide& side) {
    const bool up = side.lane.control.sending() == Lane::State::kUp;
    const bool room = side.lane.tx.has_room();
    if (one_of(5) == 0) {
      side.put_direct(std::min<std::uint32_t>(1 + static_cast<std::uint32_t>(size()), kChunkBytes));
      return;
    }
    const std::size_t bytes = 1 + size();
    const std::size_t taken = side.put(bytes, one_of(3) != 0);
    if (side.lane.control.broken()) return;
    const bool joins = (&side == &pair_.a ? options_a_ : options_b_).join;
    if (joins) {
      EXPECT_EQ(taken != 0, up && room);
    } else if (up && taken == 0) {
      EXPECT_FALSE(side.lane.tx.has_room()) << "who waits for room would not sleep";
    }
  }

  void seldom(LaneSide& side, bool& deaf) {
    switch (one_of(40)) {
      case 0: side.lane.finish(one_of(2)); break;
      case 1: side.lane.ask_to_leave(); break;
      case 2:
        // The bytes are not checked from here on.
        side.end_direct();
        side.read += side.lane.rx.unread();
        side.lane.rx.close_reading();
        deaf = true;
        break;
      case 3: case 4: case 5: case 6: side.lane.tx.flush(); break;
      case 7: case 8: case 9: side.lane.poll(); break;
      case 10: case 11: case 12: case 13: side.lane.tx.go_down(); break;
      default: side.go_up(3); break;
    }
  }

  // Of the direction from -> to: packets in flight or unread and credits given back are within the window.
  void check(LaneSide& from, LaneSide& to, const LaneOptions& of_to, bool deaf) {
    const std::uint64_t packets = from.transport.sent(PacketType::kData);
    ASSERT_LE(packets, of_to.window + to.transport.credits_sent());
    ASSERT_LE(to.transport.credits_sent(), packets);
    if (!deaf) {
      ASSERT_LE(to.read + to.lane.rx.unread(), from.written);  // what lies there directly comes on top
    }
    ASSERT_FALSE(from.lane.control.broken());
  }

  // Everything that was written arrives, by poll() alone or the timer, and both ends come to theirs.
  void end() {
    drain();
    expect_all_arrived();
    for (LaneSide* const side : {&pair_.a, &pair_.b}) {
      EXPECT_FALSE(side->lane.wants_poll());
      EXPECT_EQ(side->lane.ring.unsent(), 0u);
      EXPECT_EQ(side->directs(), 0u);
      side->go_up(3);
      if (side->lane.control.sending() == Lane::State::kUp) {
        EXPECT_NE(side->put(1, true), 0u);
      }
      side->lane.finish(false);
    }
    drain();
    expect_all_arrived();
    for (LaneSide* const side : {&pair_.a, &pair_.b}) {
      EXPECT_TRUE(side->lane.control.over());
      EXPECT_FALSE(side->lane.control.broken());
    }
    expect_credits_back(pair_.a, pair_.b, options_b_);
    expect_credits_back(pair_.b, pair_.a, options_a_);
  }
  void drain() {
    do {
      for (LaneSide* const side : {&pair_.a, &pair_.b}) {
        if (side->lane.tx.holds_for_timer()) side->lane.tx.flush();
      }
      pair_.drain();
      pair_.a.free_directs();
      pair_.b.free_directs();
    } while (pair_.a.lane.rx.unread() != 0 || pair_.b.lane.rx.unread() != 0);
  }
  void expect_all_arrived() {
    if (!deaf_[1]) {
      EXPECT_EQ(pair_.b.read, pair_.a.written);
    }
    if (!deaf_[0]) {
      EXPECT_EQ(pair_.a.read, pair_.b.written);
    }
  }
  static void expect_credits_back(LaneSide& from, LaneSide& to, const LaneOptions& of_to) {
    const std::uint64_t owed = from.transport.sent(PacketType::kData) - to.transport.credits_sent();
    EXPECT_LT(owed, of_to.window);
    EXPECT_LT(owed, std::max(of_to.ack_threshold, (of_to.window + 31) / 32));
  }

  std::mt19937_64 random_;
  const LaneOptions options_a_, options_b_;
  LanePair pair_;
  bool deaf_[2] = {};
  const unsigned link_, completions_, reads_, writes_, most_;
};

// LANE_SEEDS=FIRST:COUNT in the environment: other runs than the usual ones.
struct Seeds {
  std::uint64_t first = 1, count = 3000;
  Seeds() {
    const char* const given = std::getenv("LANE_SEEDS");
    if (given == nullptr) return;
    char* rest;
    first = std::strtoull(given, &rest, 10);
    count = *rest == ':' ? std::strtoull(rest + 1, nullptr, 10) : 1;
  }
};

TEST(RandomLanes, LoseNothingAndEnd) {
  const Seeds seeds;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(seed);
    RandomLanes(seed).run();
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
}

TEST(RandomLanes, MayBreakAtAnyMoment) {
  const Seeds seeds;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count / 3; ++seed) {
    SCOPED_TRACE(seed);
    RandomLanes(seed).run_and_break();
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
}

// A peer that sends packets of any kind, size and credits.
TEST(RandomLanes, SurviveNoise) {
  const Seeds seeds;
  std::vector<std::byte> body(kChunkBytes);
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::uint32_t w = 1 + static_cast<std::uint32_t>(random() % 8);
    LanePair pair({w, w, true}, {w, w, true});
    pair.start_with_a_byte();
    LaneSide& side = pair.a;
    std::size_t most_unread = 0;
    for (unsigned i = 0; i < 200 && !side.lane.control.broken(); ++i) {
      const auto type = static_cast<std::uint32_t>(random() % (random() % 8 != 0 ? 8 : 16));
      const auto credits = static_cast<std::uint32_t>(random() % 4 != 0 ? 0 : random() % 3);
      constexpr std::uint32_t kOften[] = {0, kFlagFirst, kFlagDown};
      const std::uint32_t often = type == 1 ? kOften[random() % 3] : 0;
      const auto flags = static_cast<std::uint32_t>(random() % 16 != 0 ? often : random() & 0xff0);
      const auto bytes = static_cast<std::uint32_t>(
          type == 1 && flags != kFlagDown ? random() % (kChunkBytes + 1) : type < 4 ? random() % 32 : random() % 2);
      if (!side.transport.inject(credits << 16 | flags | type, body.data(), bytes)) break;
      side.transport.take_in(side.lane);
      std::byte to[5000];
      const iovec piece{to, random() % sizeof to};
      if (random() % 2 && side.lane.rx.first()) side.lane.rx.go_up();
      if (random() % 2) side.lane.rx.read(&piece, 1, 0, random() % 4 == 0);
      if (random() % 2) side.lane.rx.take_down();
      if (random() % 4 == 0) side.put(1 + random() % 50'000);
      if (random() % 32 == 0) side.lane.ask_to_leave();
      if (random() % 8 == 0) side.lane.tx.go_down();
      if (random() % 8 == 0) side.go_up();
      if (random() % 4 == 0) side.transport.swallow();
      if (random() % 4 == 0) side.transport.complete();
      side.lane.poll();
      most_unread = std::max(most_unread, side.lane.rx.unread());
    }
    side.lane.cut();
    side.lane.rx.drop_all();
    ASSERT_EQ(side.lane.rx.unread(), 0u);
    ASSERT_FALSE(side.lane.rx.has_turns());
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace viaduct::sovia
