// A direction that comes to a lane and leaves it again and again, with bytes of the kernel's between: one stream, of
// which the receiver takes each byte once, also when the lane breaks.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "tests/unit/sovia/lane_pair.h"

namespace viaduct::sovia {
namespace {

using State = Lane::State;

// ---------------------------------------------------------------------------- one step after the other

TEST(LaneStays, TheFirstPacketSaysWhatComesBefore) {
  LanePair pair;
  pair.greet();
  ASSERT_TRUE(pair.a.go_up(1000));
  EXPECT_FALSE(pair.a.go_up(1000)) << "it is there";
  pair.a.put(100);
  pair.a.put(50);
  pair.settle();
  ASSERT_EQ(pair.b.lane.rx.first(), 1000u);
  EXPECT_EQ(pair.b.lane.rx.unread(), 150u);
  EXPECT_EQ(pair.b.lane.rx.unread_here(), 0u);
  EXPECT_EQ(pair.b.lane.rx.unread_here(true), 150u);
  std::byte to[200];
  const iovec piece{to, sizeof to};
  EXPECT_EQ(pair.b.lane.rx.read(&piece, 1, 0, false), 0u) << "the kernel's bytes come first";
  EXPECT_EQ(pair.b.lane.rx.discard(10), 0u);
  EXPECT_EQ(pair.b.lane.rx.read(&piece, 1, 0, true, true), 150u) << "a look behind them";
  EXPECT_EQ(pair.b.lane.rx.unread(), 150u);
  pair.b.lane.rx.go_up();
  EXPECT_FALSE(pair.b.lane.rx.first());
  EXPECT_EQ(pair.b.get(1000), 150u);
}

TEST(LaneStays, TheLastPacketSaysThatTheKernelGoesOn) {
  LanePair pair;
  pair.start();
  pair.a.put(100);
  ASSERT_TRUE(pair.a.lane.tx.go_down());
  EXPECT_EQ(pair.a.put(100), 0u);
  EXPECT_TRUE(pair.a.lane.tx.go_down()) << "it has gone";
  pair.settle();
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 2u);
  EXPECT_EQ(pair.b.lane.control.receiving(), State::kIdle);
  pair.b.lane.rx.go_up();
  EXPECT_FALSE(pair.b.lane.rx.take_down()) << "bytes come before";
  std::byte to[200];
  const iovec piece{to, sizeof to};
  EXPECT_EQ(pair.b.lane.rx.read(&piece, 1, 0, false), 100u);
  EXPECT_TRUE(pair.b.lane.rx.has_turns());
  EXPECT_EQ(pair.b.lane.rx.take_down(), 100u);
  EXPECT_FALSE(pair.b.lane.rx.has_turns());
  EXPECT_FALSE(pair.b.lane.rx.take_down()) << "once";
}

TEST(LaneStays, AStayWithoutBytesIsNotTold) {
  LanePair pair;
  pair.start();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(pair.a.lane.tx.go_down());
    EXPECT_FALSE(pair.a.lane.tx.has_delivered_first());
    EXPECT_TRUE(pair.a.go_up(7));
  }
  pair.settle();
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 0u);
  EXPECT_EQ(pair.b.lane.control.receiving(), State::kIdle);
  pair.a.put(10);
  pair.drain();
  EXPECT_EQ(pair.b.came_behind, 7u);
  EXPECT_EQ(pair.b.downs, 0u);
  pair.expect_all_read();
}

// Several stays lie unread at the receiver.
TEST(LaneStays, AreReadOneAfterTheOther) {
  LanePair pair;
  pair.start();
  for (unsigned i = 0; i < 5; ++i) {
    pair.a.put(100);
    ASSERT_TRUE(pair.a.lane.tx.go_down());
    pair.settle();
    ASSERT_TRUE(pair.a.go_up(10 * (i + 1)));
  }
  EXPECT_EQ(pair.b.lane.rx.unread(), 500u);
  for (unsigned i = 0; i < 5; ++i) {
    ASSERT_EQ(pair.b.lane.rx.first(), 10 * i);
    pair.b.lane.rx.go_up();
    EXPECT_EQ(pair.b.lane.rx.unread_here(), 100u) << "the kernel has bytes behind them";
    EXPECT_EQ(pair.b.drop(50), 50u);
    EXPECT_EQ(pair.b.lane.rx.discard(1000), 50u);
    pair.b.read += 50;
    EXPECT_FALSE(pair.b.lane.rx.first()) << "the kernel goes on before";
    EXPECT_EQ(pair.b.lane.rx.take_down(), 100u);
  }
  pair.expect_all_read();
}

TEST(LaneStays, TheKernelWaitsForAllThatWasSentThere) {
  LanePair pair(window(2, 1));
  pair.start();
  while (pair.a.put(kChunkBytes) != 0) continue;
  EXPECT_FALSE(pair.a.lane.tx.go_down()) << "there is no room to say it";
  EXPECT_EQ(pair.a.lane.control.sending(), State::kUp);
  pair.settle();
  while (!pair.a.lane.tx.go_down()) {
    pair.b.get(kChunkBytes);
    pair.settle();
  }
  EXPECT_NE(pair.a.lane.ring.unsent(), 0u);
  EXPECT_FALSE(pair.a.go_up(0)) << "it has not landed";
  pair.drain();
  EXPECT_EQ(pair.a.lane.ring.unsent(), 0u);
  EXPECT_EQ(pair.b.downs, 1u);
  EXPECT_TRUE(pair.a.go_up(0));
  pair.expect_all_read();
}

// Data would be put into the packet that says that the kernel goes on.
TEST(LaneStays, BeginWhenTheLastOneHasBeenTold) {
  LanePair pair(window(1, 1));
  pair.start();
  ASSERT_EQ(pair.a.put(100), 100u);
  ASSERT_TRUE(pair.a.lane.tx.go_down());
  pair.settle();
  EXPECT_EQ(pair.a.lane.ring.unsent(), 0u);
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 1u) << "there is no credit for it";
  EXPECT_FALSE(pair.a.go_up(5));
  pair.drain();
  EXPECT_EQ(pair.b.downs, 1u);
  ASSERT_TRUE(pair.a.go_up(5));
  EXPECT_EQ(pair.a.put(100), 100u);
  pair.drain();
  EXPECT_EQ(pair.b.came_behind, 5u);
  EXPECT_EQ(pair.b.downs, 1u);
  pair.expect_all_read();
}

TEST(LaneStays, KnowWhatHasArrivedOfTheLastOne) {
  LanePair pair;
  pair.start();
  pair.a.put(100);
  pair.a.lane.tx.go_down();
  pair.drain();
  ASSERT_TRUE(pair.a.go_up(10));
  pair.a.put(30);
  pair.a.put(40);
  EXPECT_EQ(pair.a.lane.ring.unsent(), 70u);
  EXPECT_FALSE(pair.a.lane.tx.has_delivered_first());
  EXPECT_EQ(pair.a.lane.tx.bytes_delivered(), 0u);
  pair.pass();
  EXPECT_EQ(pair.a.lane.ring.unsent(), 70u) << "it has arrived, but the sender does not know";
  EXPECT_FALSE(pair.a.lane.tx.has_delivered_first());
  EXPECT_EQ(pair.b.lane.rx.bytes_here(), 70u);
  pair.a.transport.complete();
  EXPECT_EQ(pair.a.lane.ring.unsent(), 40u);
  EXPECT_TRUE(pair.a.lane.tx.has_delivered_first());
  EXPECT_EQ(pair.a.lane.tx.bytes_delivered(), 30u);
}

// The trailer leaves less room in the first packet.
TEST(LaneStays, TheFirstPacketMayBeFull) {
  LanePair pair;
  pair.start();
  constexpr std::uint32_t kMost = kChunkBytes - sizeof(First);
  EXPECT_EQ(pair.a.put(kMost), kMost);
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 1u);
  pair.drain();
  pair.a.lane.tx.go_down();
  pair.drain();
  ASSERT_TRUE(pair.a.go_up(0));
  EXPECT_EQ(pair.a.put(kMost + 1), kMost + 1);
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 4u);
  pair.drain();
  pair.expect_all_read();
}

// The program's memory has no room for the trailer.
TEST(LaneStays, TheFirstPacketIsNeverFromOwnMemory) {
  LanePair pair;
  pair.start();
  EXPECT_FALSE(pair.a.put_direct(100));
  pair.a.put(1);
  EXPECT_TRUE(pair.a.put_direct(100));
  pair.a.lane.tx.go_down();
  pair.drain();
  pair.a.free_directs();
  ASSERT_TRUE(pair.a.go_up(0));
  EXPECT_FALSE(pair.a.put_direct(100));
  pair.expect_all_read();
}

TEST(LaneStays, MayEndWithTheLane) {
  LanePair pair;
  pair.start();
  pair.a.put(100);
  pair.a.lane.tx.go_down();
  pair.a.lane.finish(false);
  pair.settle();
  EXPECT_EQ(pair.a.lane.control.sending(), State::kEnded);
  EXPECT_EQ(pair.b.lane.control.receiving(), State::kEnded);
  EXPECT_EQ(pair.b.get(1000), 100u);
  EXPECT_EQ(pair.b.downs, 1u);
  EXPECT_FALSE(pair.a.go_up(0));
}

TEST(LaneStays, DroppingThemTakesTheirTurnsToo) {
  LanePair pair(window(4, 1));
  pair.start();
  for (int i = 0; i < 2; ++i) {
    pair.a.put(10);
    pair.a.lane.tx.go_down();
    pair.settle();
    ASSERT_TRUE(pair.a.go_up(0));
  }
  pair.b.lane.rx.drop_all();
  EXPECT_EQ(pair.b.lane.rx.unread(), 0u);
  EXPECT_FALSE(pair.b.lane.rx.has_turns() || pair.b.lane.rx.first() || pair.b.lane.rx.take_down());
  pair.settle();
  EXPECT_EQ(pair.b.transport.credits_sent(), 4u);
}

// ---------------------------------------------------------------------------- in random order

// A connection: the kernel's stream, and lanes beside it, one after the other. The sender and the receiver do what
// sockets do (tests/models/stream.pml).
class Stream {
 public:
  explicit Stream(std::uint64_t seed) : random_(seed) { open(); }

  // `break_at`: the step before which the lane breaks.
  void run(unsigned steps, unsigned break_at) {
    for (unsigned i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
      if (i == break_at) break_lane();
      step();
    }
    end();
  }
  unsigned stays() const { return stays_; }

 private:
  enum class Route { kKernel, kLane, kLanding };
  // Of the kernel's stream: a byte of the program's at this position, or a record.
  struct Item {
    std::uint64_t at;
    bool is_record;
  };

  unsigned one_of(unsigned count) { return static_cast<unsigned>(random_() % count); }
  Lane& sender() { return pair_->a.lane; }
  Lane& receiver() { return pair_->b.lane; }
  void open() {
    std::uint64_t written = 0;
    if (pair_ != nullptr) written = pair_->a.written;
    const std::uint32_t w = 1 + one_of(6);
    pair_ = std::make_unique<LanePair>(window(w, 1 + one_of(w), one_of(2) != 0));
    pair_->greet();
    pair_->a.written = written;
    broken_ = false;
  }

  template <class Step>
  void some(Step&& step) {
    for (unsigned i = 1 + one_of(4); i != 0 && step(); --i) continue;
  }
  void step() {
    LaneSide& a = pair_->a;
    switch (one_of(16)) {
      case 0: up(); break;
      case 1: down(); break;
      case 2: case 3: send(1 + one_of(300)); break;
      case 4: send(1 + one_of(one_of(8) != 0 ? 5000 : 2 * kChunkBytes)); break;
      case 5: case 6: some([&] { return a.transport.deliver(); }); break;
      case 7: some([&] { return pair_->b.transport.deliver(); }); break;
      case 8: case 9: some([&] { return pair_->b.transport.take_in(receiver()); }); break;
      case 10: some([&] { return a.transport.take_in(sender()); }); break;
      case 11: some([&] { return a.transport.complete(); }); break;
      case 12: some([&] { return pair_->b.transport.complete(); }); break;
      case 13:
        sender().poll();
        receiver().poll();
        land();
        break;
      case 14: a.lane.tx.flush(); break;
      default: read(1 + one_of(4000)); break;
    }
    if (broken_ && one_of(20) == 0) another();
  }

  // ------------------------------------------------------------------ the sender
  void up() {
    if (broken_ || route_ != Route::kKernel || owed_) return;
    if (!pair_->a.go_up(kernel_sent_)) return;
    route_ = Route::kLane;
    ++stays_;
  }
  void down() {
    if (route_ == Route::kLane && sender().tx.go_down()) route_ = Route::kLanding;
    land();
  }
  void land() {
    if (route_ != Route::kLanding || broken_) return;
    if (sender().ring.unsent() == 0 && !sender().ring.has_unposted()) go_on_in_kernel();
  }
  void send(unsigned bytes) {
    LaneSide& a = pair_->a;
    land();
    if (route_ == Route::kLane) a.put(bytes, one_of(2) != 0);
    if (route_ != Route::kKernel) return;
    put_record();
    for (; bytes != 0; --bytes) put(a.written++);
  }
  void go_on_in_kernel() {
    route_ = Route::kKernel;
    std::vector<std::byte> kept(sender().ring.unsent());
    const std::uint64_t delivered = sender().tx.bytes_delivered();
    if (sender().tx.has_delivered_first()) {
      owed_ = delivered;
    } else {
      EXPECT_EQ(delivered, 0u);
    }
    EXPECT_TRUE(sender().ring.copy_unsent(kept.data()));
    const std::uint64_t from = pair_->a.written_before + delivered;
    EXPECT_EQ(from + kept.size(), pair_->a.written);
    if (kept.empty()) return;
    put_record();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (kept[i] != stream_byte(pair_->a.stream(), from + i)) {
        ADD_FAILURE() << "wrong byte at " << from + i;
        return;
      }
      put(from + i);
    }
  }
  void put(std::uint64_t at) {
    kernel_.push_back({at, false});
    ++kernel_sent_;
  }
  void put_record() {
    if (!owed_) return;
    kernel_.push_back({*owed_, true});
    kernel_sent_ += sizeof(Resume);
    owed_.reset();
  }

  // ------------------------------------------------------------------ the lane
  void break_lane() {
    if (std::exchange(broken_, true)) return;
    for (LaneSide* const side : {&pair_->a, &pair_->b}) {
      side->transport.break_down();
      while (side->transport.take_in(side->lane)) continue;
      side->lane.cut();
    }
    if (route_ != Route::kKernel) go_on_in_kernel();
  }
  // Another lane, when both ends have done with this one.
  void another() {
    settle();
    if (on_lane_ || expects_ || owed_ || receiver().rx.unread() != 0 || receiver().rx.has_turns()) return;
    open();
  }

  // ------------------------------------------------------------------ the receiver
  void settle() {
    LaneRx& rx = receiver().rx;
    for (;;) {
      if (on_lane_) {
        if (!leaves_ && !rx.has_turns() && receiver().control.is_cut()) {
          expects_ = rx.bytes_here();
          leaves_ = true;
        }
        if (rx.unread_here() != 0) return;
        if (const auto here = rx.take_down()) {
          expects_ = *here;
        } else if (!leaves_) {
          return;
        }
        on_lane_ = leaves_ = false;
        continue;
      }
      const auto first = rx.first();
      if (!first || expects_ || *first > kernel_read_) return;
      if (*first < kernel_read_) {
        EXPECT_TRUE(broken_) << "the kernel's bytes came before";
        rx.drop_all();
        return;
      }
      rx.go_up();
      on_lane_ = true;
    }
  }
  void read(unsigned bytes) {
    settle();
    if (on_lane_) return read_lane(bytes);
    if (!take_record()) return;
    std::uint64_t limit = kernel_.size();
    while (pair_->b.transport.take_in(receiver())) continue;
    if (const auto first = receiver().rx.first()) limit = std::max(*first, kernel_read_) - kernel_read_;
    for (; limit != 0 && bytes != 0 && !kernel_.empty(); --limit, --bytes) take(read_++);
    settle();
  }
  void read_lane(unsigned bytes) {
    std::vector<std::byte> to(bytes);
    const iovec piece{to.data(), bytes};
    const std::size_t got = receiver().rx.read(&piece, 1, 0, false);
    for (std::size_t i = 0; i < got; ++i, ++read_) {
      if (to[i] == stream_byte(0, read_)) continue;
      ADD_FAILURE() << "wrong byte at " << read_;
      return;
    }
    settle();
  }
  // The record, or none: then the bytes of the whole stay follow. False: not all that is to be dropped has come.
  bool take_record() {
    if (expects_) {
      if (kernel_.empty()) return false;
      std::uint64_t offset = 0;
      if (kernel_.front().is_record) {
        offset = kernel_.front().at;
        kernel_.pop_front();
        kernel_read_ += sizeof(Resume);
      }
      EXPECT_LE(offset, *expects_);
      drop_ = *expects_ - offset;
      expects_.reset();
    }
    for (; drop_ != 0 && !kernel_.empty(); --drop_) take(read_ - drop_);
    return drop_ == 0;
  }
  // Takes the byte at this position off the kernel's stream.
  void take(std::uint64_t at) {
    EXPECT_FALSE(kernel_.front().is_record) << "a record is taken for data";
    EXPECT_EQ(kernel_.front().at, at);
    kernel_.pop_front();
    ++kernel_read_;
  }

  void end() {
    for (int i = 0; i < 10'000 && !::testing::Test::HasFailure(); ++i) {
      if (!broken_) {
        sender().tx.flush();
        pair_->settle();
      }
      if (route_ == Route::kLane) down();
      land();
      read(1u << 20);
      if (route_ == Route::kKernel && read_ == pair_->a.written) break;
    }
    EXPECT_EQ(read_, pair_->a.written);
    send(100);  // a record that is owed goes with them
    if (!broken_) pair_->settle();
    for (int i = 0; i < 10 && read_ != pair_->a.written; ++i) read(1000);
    EXPECT_EQ(read_, pair_->a.written);
    EXPECT_TRUE(kernel_.empty());
  }

  std::mt19937_64 random_;
  std::unique_ptr<LanePair> pair_;
  bool broken_ = false;
  unsigned stays_ = 0;
  // The sender.
  Route route_ = Route::kKernel;
  std::uint64_t kernel_sent_ = 0;
  std::optional<std::uint64_t> owed_;  // a record
  std::deque<Item> kernel_;
  // The receiver.
  bool on_lane_ = false, leaves_ = false;
  std::uint64_t read_ = 0, kernel_read_ = 0, drop_ = 0;
  std::optional<std::uint64_t> expects_;  // a record, behind so many bytes of the lane's
};

constexpr unsigned kNever = ~0u;

TEST(RandomStays, KeepTheStream) {
  unsigned stays = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    Stream stream(seed);
    stream.run(1500, kNever);
    stays += stream.stays();
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
  EXPECT_GT(stays, 4000u);
}

TEST(RandomStays, MayBreakAtEveryStep) {
  constexpr unsigned kSteps = 150;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    for (unsigned at = 0; at < kSteps; ++at) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", step " << at);
      Stream(seed).run(kSteps, at);
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
  }
}

}  // namespace
}  // namespace viaduct::sovia
