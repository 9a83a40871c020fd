// A queue for frames of several chunks, and a kernel that gives it odd ones. Root only; skipped
// otherwise.
#include <linux/if_xdp.h>
#include <net/if.h>
#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <utility>

#include "tests/unit/xdp/fixture.h"
#include "xdp/xsk/xsk_queue.h"
#include "xdp/xsk/xsk_socket.h"

#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

namespace viaduct {
namespace {

// A queue on a socket that only the test sends to or through: the test is its kernel.
class OddPartsTest : public VethTest {
 protected:
  static constexpr std::uint32_t kChunk = 4096, kRing = 64, kReceive = 32, kSend = 14, kFilled = 16;
  static constexpr std::uint32_t kFrame = 9018, kAssembled = 5;
  static constexpr std::uint32_t kHead = 256;

  void SetUp() override {
    VethTest::SetUp();
    if (IsSkipped()) return;
    make_pair("mtu 9000");
    const XskQueue::Shape shape = this->shape();
    bytes_ = std::size_t{kChunk} * (kReceive + kSend);
    area_ = static_cast<std::byte*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    assembly_.resize(XskQueue::assembly_bytes(shape));
    state_.resize(XskQueue::state_bytes(shape) / 4 + 1);
    queue_.set_up(shape, area_, assembly_.data(), state_.data(), counters_);
    attach();
  }
  virtual XskQueue::Shape shape() const { return {12, kReceive, kSend, kRing, kFilled, 3, kFrame, kAssembled}; }
  void TearDown() override {
    if (area_ != nullptr) {
      drop_socket();
      munmap(area_, bytes_);
    }
    VethTest::TearDown();
  }

  void attach() {
    const char* what = "";
    ASSERT_TRUE(eventually([&] {
      socket_ = open_xsk_socket(
          {static_cast<int>(if_nametoindex("v0")), 0, area_, bytes_, kChunk, kRing, true, true},
          what);
      return socket_ >= 0 || errno != EBUSY;
    }));
    ASSERT_GE(socket_, 0) << what;
    ASSERT_STREQ(queue_.attach(socket_), nullptr);
    ASSERT_STREQ(kernel_.map(socket_, kRing), nullptr);
    filled_.clear();
    filled_seen_ = *kernel_.fill.consumer;
    sent_seen_ = *kernel_.transmit.consumer;
  }
  void drop_socket() {
    queue_.detach();
    kernel_.unmap();
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

  // Chunks that the kernel has to receive into.
  std::deque<std::uint64_t>& filled() {
    const std::uint32_t end = __atomic_load_n(kernel_.fill.producer, __ATOMIC_ACQUIRE);
    for (; filled_seen_ != end; ++filled_seen_) {
      filled_.push_back(kernel_.fill.entries[filled_seen_ & (kRing - 1)]);
    }
    __atomic_store_n(kernel_.fill.consumer, filled_seen_, __ATOMIC_RELEASE);
    return filled_;
  }

  void put(std::uint64_t address, std::uint32_t length, bool more) {
    const std::uint32_t at = *kernel_.receive.producer;
    kernel_.receive.entries[at & (kRing - 1)] = {address, length,
                                                 more ? std::uint32_t{XDP_PKT_CONTD} : 0};
    __atomic_store_n(kernel_.receive.producer, at + 1, __ATOMIC_RELEASE);
  }
  // A part of a frame in the next chunk.
  void put_part(std::uint32_t length, bool more, int byte = 0) {
    ASSERT_FALSE(filled().empty());
    const std::uint64_t address = filled_.front() + kHead;
    filled_.pop_front();
    std::memset(area_ + address, byte, length);
    put(address, length, more);
  }

  std::vector<Frame> take(std::size_t most = 8) {
    std::vector<Frame> frames(most);
    frames.resize(queue_.receive(frames));
    return frames;
  }
  bool is_of(const Frame& frame, std::vector<std::pair<std::uint32_t, int>> parts) {
    std::size_t at = 0;
    for (const auto& [length, byte] : parts) {
      for (std::uint32_t i = 0; i < length; ++i, ++at) {
        if (at >= frame.length || frame.data[at] != std::byte(byte)) return false;
      }
    }
    return at == frame.length;
  }

  // Nothing is lost: the kernel has all the chunks that it should have, each once, and as many
  // frames as ever can be received and kept.
  void expect_whole() {
    std::vector<Frame> kept;
    for (std::uint32_t i = 0; i < kAssembled; ++i) {
      put_part(3840, true, 1);
      put_part(3840, true, 2);
      put_part(1338, false, 3);
      const auto frames = take();
      ASSERT_EQ(frames.size(), 1u) << i;
      ASSERT_TRUE(is_of(frames[0], {{3840, 1}, {3840, 2}, {1338, 3}}));
      kept.push_back(frames[0]);
    }
    queue_.release(kept);
    // The queue gives chunks back in batches of two.
    EXPECT_GE(filled().size(), kFilled - 1);
    const std::set<std::uint64_t> each(filled_.begin(), filled_.end());
    EXPECT_EQ(each.size(), filled_.size());
  }

  // Frames of random shapes, and borrowers that keep some for a while. `made_up`: descriptors that
  // name anything, and a new socket now and then.
  void pour(bool made_up) {
    std::mt19937 engine(4711);
    const auto random = [&engine] { return static_cast<std::uint32_t>(engine()); };
    std::vector<Frame> kept;
    const auto give_back = [&](std::size_t n) {
      std::swap(kept[n], kept.back());
      queue_.release({&kept.back(), 1});
      kept.pop_back();
    };
    for (int round = 0; round < 50'000; ++round) {
      for (unsigned n = random() % 4; n > 0 && !filled().empty(); --n) {
        const std::uint32_t length = random() % 8 == 0 ? 0 : random() % 3841;
        const bool more = random() % 2 != 0;
        if (made_up && random() % 50 == 0) {
          put(random() % (2 * bytes_), length, more);
        } else {
          put(filled_.front() + kHead, length, more);
          filled_.pop_front();
        }
      }
      for (const Frame& frame : take(1 + random() % 4)) {
        ASSERT_LE(frame.length, kFrame);
        kept.push_back(frame);
      }
      while (kept.size() > 6 || (!kept.empty() && random() % 2 != 0)) {
        give_back(random() % kept.size());
      }
      if (made_up && round % 1000 == 0) {
        drop_socket();
        attach();
      }
    }
    while (!kept.empty()) give_back(0);
    put_part(1, false);  // whatever was begun ends here
    for (auto last = take(); !last.empty(); last = take()) queue_.release(last);
  }

  PortCounters counters_;
  XskQueue queue_;
  XskRings kernel_;
  std::byte* area_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<std::byte> assembly_;
  std::vector<std::uint32_t> state_;
  int socket_ = -1;
  std::deque<std::uint64_t> filled_;
  std::uint32_t filled_seen_ = 0, sent_seen_ = 0;
};

TEST_F(OddPartsTest, AFrameThatComesBitByBitIsTakenWhenItIsWhole) {
  put_part(3840, true, 1);
  EXPECT_TRUE(take().empty());
  put_part(100, true, 2);
  EXPECT_TRUE(take().empty());
  put_part(60, false, 3);
  put_part(64, false, 4);
  const auto frames = take();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_TRUE(is_of(frames[0], {{3840, 1}, {100, 2}, {60, 3}}));
  EXPECT_TRUE(is_of(frames[1], {{64, 4}}));
  queue_.release(frames);
  EXPECT_EQ(counters_.rx_dropped_invalid, 0u);
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, SmallFramesInManyPiecesAreTaken) {
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 6; ++i) put_part(10, i != 5, i);
    const auto frames = take();
    ASSERT_EQ(frames.size(), 1u) << round;
    EXPECT_TRUE(is_of(frames[0], {{10, 0}, {10, 1}, {10, 2}, {10, 3}, {10, 4}, {10, 5}}));
    queue_.release(frames);
  }
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, ALongFrameThatNeverEndsIsCountedOnceAndTakesNothing) {
  for (int i = 0; i < 1000; ++i) {
    put_part(3840, true);
    EXPECT_TRUE(take().empty());
  }
  EXPECT_EQ(counters_.rx_dropped_invalid, 1u);
  put_part(64, false);
  EXPECT_TRUE(take().empty()) << "its end is no frame";
  EXPECT_EQ(counters_.rx_dropped_invalid, 1u);
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, EmptyPartsWithoutEndAreNoFrame) {
  for (int i = 0; i < 1000; ++i) {
    put_part(0, true);
    EXPECT_TRUE(take().empty());
  }
  put_part(0, false);
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(counters_.rx_dropped_invalid, 1u);
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, FramesThatAreTooLongAreLostAndCounted) {
  for (int round = 0; round < 100; ++round) {
    put_part(3840, true);
    put_part(3840, true);
    put_part(kFrame - 2 * 3840 + 1, false);
    EXPECT_TRUE(take().empty());
  }
  EXPECT_EQ(counters_.rx_dropped_invalid, 100u);
  put_part(3840, true, 1);
  put_part(3840, true, 2);
  put_part(kFrame - 2 * 3840, false, 3);
  const auto frames = take();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].length, kFrame);
  queue_.release(frames);
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, DescriptorsThatMakeNoSenseSpoilOnlyTheirFrame) {
  const auto bad = [&](std::uint64_t address, std::uint32_t length) {
    put_part(3840, true);
    put(address, length, true);
    put_part(100, false);
    EXPECT_TRUE(take().empty());
    put_part(64, false, 9);
    const auto frames = take();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_TRUE(is_of(frames[0], {{64, 9}}));
    queue_.release(frames);
  };
  bad(std::uint64_t{kReceive} * kChunk, 64);  // a chunk to send from
  bad(~std::uint64_t{0} - 100, 64);
  bad(filled().back() + 4000, 200);  // beyond its end
  EXPECT_EQ(counters_.rx_dropped_invalid, 3u);
  // A chunk twice.
  const std::uint64_t twice = filled().front() + kHead;
  put_part(3840, true);
  put(twice, 3840, true);
  put_part(100, false);
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(counters_.rx_dropped_invalid, 4u);
}

TEST_F(OddPartsTest, WithoutRoomToPutThemTogetherLongFramesAreLostAndCounted) {
  std::vector<Frame> kept;
  const auto one = [&] {
    put_part(3840, true);
    put_part(3840, true);
    put_part(100, false);
    return take();
  };
  for (std::uint32_t i = 0; i < kAssembled; ++i) kept.push_back(one().at(0));
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(one().empty());
    put_part(64, false, 7);  // short ones need none
    const auto frames = take();
    ASSERT_EQ(frames.size(), 1u);
    queue_.release(frames);
  }
  EXPECT_EQ(counters_.rx_dropped_no_fill, 20u);
  queue_.release({&kept[1], 1});
  const auto frames = one();
  ASSERT_EQ(frames.size(), 1u);
  queue_.release(frames);
  queue_.release({&kept[0], 1});
  queue_.release({&kept[2], kept.size() - 2});
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, ANewSocketBeginsWithAWholeFrame) {
  put_part(3840, true, 1);
  EXPECT_TRUE(take().empty());
  put_part(64, false, 1);  // with it the frame is whole
  auto kept = take();
  ASSERT_EQ(kept.size(), 1u);
  for (int round = 0; round < 10; ++round) {
    put_part(3840, true, 5);
    EXPECT_TRUE(take().empty());
    drop_socket();
    attach();
    put_part(64, false, 6);
    const auto frames = take();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_TRUE(is_of(frames[0], {{64, 6}}));
    queue_.release(frames);
  }
  EXPECT_TRUE(is_of(kept[0], {{3840, 1}, {64, 1}})) << "lent frames stay";
  queue_.release(kept);
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, FramesToSendAreOneRangeAndComeBackWhenAllOfItHas) {
  // 14 chunks are 4 frames, and two that are left over.
  std::vector<Frame> all(8);
  all.resize(queue_.reserve(all));
  ASSERT_EQ(all.size(), 4u);
  std::set<const std::byte*> places;
  for (Frame& frame : all) {
    EXPECT_EQ(frame.length, 3 * kChunk);
    EXPECT_EQ((frame.data - area_) % kChunk, 0);
    EXPECT_GE(frame.data, area_ + kReceive * kChunk);
    EXPECT_LE(frame.data + frame.length, area_ + bytes_);
    places.insert(frame.data);
  }
  EXPECT_EQ(places.size(), 4u);
  const std::uint32_t lengths[] = {9014, 4096, 60, 4097};
  for (std::size_t i = 0; i < 4; ++i) all[i].length = lengths[i];
  queue_.submit(all);
  EXPECT_EQ(queue_.sending(), 4u);
  const std::uint32_t end = __atomic_load_n(kernel_.transmit.producer, __ATOMIC_ACQUIRE);
  std::vector<xdp_desc> sent;
  for (std::uint32_t at = sent_seen_; at != end; ++at) {
    sent.push_back(kernel_.transmit.entries[at & (kRing - 1)]);
  }
  const std::vector<std::vector<std::uint32_t>> parts{{4096, 4096, 822}, {4096}, {60}, {4096, 1}};
  std::size_t at = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t p = 0; p < parts[i].size(); ++p, ++at) {
      ASSERT_LT(at, sent.size());
      EXPECT_EQ(sent[at].addr, static_cast<std::uint64_t>(all[i].data - area_) + p * kChunk);
      EXPECT_EQ(sent[at].len, parts[i][p]);
      EXPECT_EQ(sent[at].options, p + 1 < parts[i].size() ? std::uint32_t{XDP_PKT_CONTD} : 0u);
    }
  }
  ASSERT_EQ(at, sent.size());
  const auto complete = [&](std::uint64_t address) {
    const std::uint32_t to = *kernel_.completion.producer;
    kernel_.completion.entries[to & (kRing - 1)] = address;
    __atomic_store_n(kernel_.completion.producer, to + 1, __ATOMIC_RELEASE);
    Frame frame;  // has it look
    return queue_.reserve({&frame, 1}) == 1 ? (queue_.cancel({&frame, 1}), true) : false;
  };
  EXPECT_FALSE(complete(sent[0].addr));
  EXPECT_FALSE(complete(sent[0].addr)) << "twice";
  EXPECT_FALSE(complete(0)) << "a chunk to receive into";
  EXPECT_FALSE(complete(~std::uint64_t{0}));
  EXPECT_FALSE(complete(sent[1].addr));
  EXPECT_EQ(queue_.sending(), 4u);
  EXPECT_TRUE(complete(sent[2].addr));
  EXPECT_EQ(queue_.sending(), 3u);
  for (std::size_t i = 3; i < sent.size(); ++i) complete(sent[i].addr);
  std::vector<Frame> again(8);
  EXPECT_EQ(queue_.reserve(again), 4u);
  EXPECT_EQ(queue_.sending(), 0u);
  EXPECT_EQ(queue_.completed(), 4u);
}

TEST_F(OddPartsTest, NothingIsLostOfFramesOfEveryShape) {
  pour(false);
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, NothingIsLostWhateverComes) {
  pour(true);
  drop_socket();
  attach();
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

// A queue whose bursts may grow.
class BurstTest : public OddPartsTest {
 protected:
  static constexpr std::uint32_t kAtMost = 24;
  XskQueue::Shape shape() const override {
    XskQueue::Shape one{12, kReceive, kSend, kRing, kFilled};
    one.filled_at_most = kAtMost;
    return one;
  }
  // So many frames come before they are looked at; how many the kernel has room for then.
  std::size_t after_burst(std::uint32_t frames) {
    for (std::uint32_t i = 0; i < frames; ++i) put_part(60, false);
    const auto taken = take(frames);
    EXPECT_EQ(taken.size(), frames);
    queue_.release(taken);
    queue_.release(std::span<const Frame>());
    return filled().size();
  }
};

TEST_F(BurstTest, LeavesTheRingAsItIsWhileThereIsRoom) { EXPECT_LE(after_burst(kFilled / 2 - 1), kFilled); }

TEST_F(BurstTest, MakesTheRingLargerWhenABurstHasTakenMuchOfIt) {
  EXPECT_GT(after_burst(kFilled - 1), kFilled + 4);
  EXPECT_LE(after_burst(kAtMost - 4), kAtMost);
}

}  // namespace
}  // namespace viaduct
