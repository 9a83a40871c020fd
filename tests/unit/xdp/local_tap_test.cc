// A third party reads along in a ring: it sees all frames or says how many it has missed, and no nonsense in the
// memory hurts it.
#include "xdp/local/local_tap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace viaduct::local {
namespace {

constexpr std::size_t kGuard = 2 * kMostFrame;

// A ring, with unreadable memory behind it.
class LocalTap : public testing::Test {
 protected:
  LocalTap() {
    void* const at = mmap(nullptr, kRingBytes + kGuard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ring = static_cast<std::byte*>(at);
    mprotect(ring + kRingBytes, kGuard, PROT_NONE);
    writer = RingWriter(ring, &control, &track);
    reader = RingReader(ring, &control);
  }
  ~LocalTap() override { munmap(ring, kRingBytes + kGuard); }

  // Frame `number` has its number in front and a byte that follows from it in all the rest.
  static std::uint32_t length_of(std::uint32_t number) {
    return number % 7 == 0 ? 8 + number % 33'000 : 8 + number % 120;
  }
  static std::byte filling(std::uint32_t number) { return static_cast<std::byte>(number * 37 + 11); }

  bool send(std::uint32_t number) {
    const std::uint32_t length = length_of(number);
    std::byte* const at = writer.reserve(length);
    if (at == nullptr) return false;
    std::memset(at, static_cast<int>(filling(number)), length);
    std::memcpy(at, &number, sizeof number);
    writer.publish(length);
    return true;
  }
  bool take() {
    std::uint32_t length;
    if (reader.take(taken, length) == nullptr) return false;
    reader.give_room();
    return true;
  }
  // The next frame's number; fails if the frame is not as it was sent. ~0: none.
  std::uint32_t tapped(RingTap& tap) {
    const std::uint32_t length = tap.next(seen.data());
    if (length == 0) return ~0u;
    std::uint32_t number;
    std::memcpy(&number, seen.data(), sizeof number);
    EXPECT_EQ(length, length_of(number));
    for (std::uint32_t i = sizeof number; i < length; ++i) {
      if (seen[i] != filling(number)) {
        ADD_FAILURE() << "frame " << number << " is torn at byte " << i;
        break;
      }
    }
    return number;
  }

  std::byte* ring;
  Control control;
  Track track;
  RingWriter writer;
  RingReader reader;
  alignas(kLine) std::byte taken[kMostFrame + kLine];
  std::vector<std::byte> seen = std::vector<std::byte>(kMostFrame);
};

TEST_F(LocalTap, SeesWhatPassesMuchMoreThanTheRingHolds) {
  RingTap tap(ring, &track, RingTap::From::kBeginning);
  std::uint32_t next = 0;
  for (std::uint32_t number = 0; number < 20'000; ++number) {
    ASSERT_TRUE(send(number));
    if (number % 3 != 0) continue;
    for (std::uint32_t got; (got = tapped(tap)) != ~0u; ++next) ASSERT_EQ(got, next);
    while (take()) continue;
  }
  while (tapped(tap) != ~0u) ++next;
  EXPECT_EQ(next, 20'000u);
  EXPECT_EQ(tap.lost(), 0u);
  EXPECT_FALSE(tap.broken());
}

TEST_F(LocalTap, SeesWhatTheConsumerHasTakenAlready) {
  RingTap tap(ring, &track, RingTap::From::kBeginning);
  for (std::uint32_t number = 0; number < 20; ++number) ASSERT_TRUE(send(number) && take());
  for (std::uint32_t number = 0; number < 20; ++number) EXPECT_EQ(tapped(tap), number);
  EXPECT_EQ(tapped(tap), ~0u);
}

TEST_F(LocalTap, ThatComesLaterSeesWhatComesLater) {
  for (std::uint32_t number = 0; number < 5'000; ++number) ASSERT_TRUE(send(number) && take());
  RingTap tap(ring, &track, RingTap::From::kNow);
  EXPECT_EQ(tapped(tap), ~0u);
  ASSERT_TRUE(send(5'000) && send(5'001));
  EXPECT_EQ(tapped(tap), 5'000u);
  EXPECT_EQ(tapped(tap), 5'001u);
  EXPECT_EQ(tap.lost(), 0u);
}

TEST_F(LocalTap, ThatIsTooSlowSaysHowMuchItHasMissed) {
  RingTap tap(ring, &track, RingTap::From::kBeginning);
  std::uint32_t number = 0;
  for (; number < 3; ++number) ASSERT_TRUE(send(number));
  EXPECT_EQ(tapped(tap), 0u);
  for (; number < 9'000; ++number) {
    ASSERT_TRUE(send(number));
    while (take()) continue;
  }
  EXPECT_EQ(tapped(tap), ~0u);
  EXPECT_EQ(tap.lost(), 9'000u - 1);
  ASSERT_TRUE(send(number));
  EXPECT_EQ(tapped(tap), number);
  EXPECT_FALSE(tap.broken());
}

// The consumer takes nothing, the tap has read nothing: nothing may be written over, so nothing is lost.
TEST_F(LocalTap, AFullRingIsReadWhole) {
  RingTap tap(ring, &track, RingTap::From::kBeginning);
  std::uint32_t sent = 0;
  while (send(sent)) ++sent;
  for (std::uint32_t number = 0; number < sent; ++number) ASSERT_EQ(tapped(tap), number);
  EXPECT_EQ(tap.lost(), 0u);
}

TEST_F(LocalTap, FramesAreWholeWhileTheProducerGoesOn) {
  RingTap tap(ring, &track, RingTap::From::kBeginning);
  constexpr std::uint32_t kFrames = 20'000;
  std::atomic<bool> done = false;
  std::thread programs([&] {
    for (std::uint32_t number = 0; number < kFrames; ++number) {
      while (!send(number)) take();
      if (number % 5 == 0) {
        while (take()) continue;
      }
    }
    done = true;
  });
  std::uint64_t count = 0;
  std::uint32_t least = 0;
  for (bool last = false; !last;) {
    last = done;
    for (std::uint32_t got; (got = tapped(tap)) != ~0u; ++count) {
      EXPECT_GE(got, least);
      least = got + 1;
    }
  }
  programs.join();
  while (tapped(tap) != ~0u) ++count;
  EXPECT_EQ(count + tap.lost(), kFrames);
  EXPECT_FALSE(tap.broken());
}

TEST_F(LocalTap, SeesThatAPairHasEnded) {
  RingTap tap(ring, &track, RingTap::From::kBeginning);
  EXPECT_FALSE(tap.has_ended());
  track.ended = 1;
  EXPECT_TRUE(tap.has_ended());
}

// Nothing beyond the ring is read, and each call comes to an end.
TEST_F(LocalTap, SurvivesWhateverIsInTheMemory) {
  std::mt19937 random(7);
  for (unsigned round = 0; round < 3'000; ++round) {
    RingTap tap(ring, &track, round % 2 == 0 ? RingTap::From::kBeginning : RingTap::From::kNow);
    for (unsigned step = 0; step < 30; ++step) {
      switch (random() % 5) {
        case 0: track.published = Track::pack(random(), random()); break;
        case 1: track.reserved = std::uint64_t{random()} << (random() % 33); break;
        case 2: track.published = Track::pack(std::uint64_t{random() % kRingBytes}, random()); break;
        default: {
          const std::uint32_t word = random() % 2 == 0 ? kWrap : random() % (2 * kMostFrame);
          std::memcpy(ring + random() % (kRingBytes / kLine) * kLine, &word, sizeof word);
        }
      }
      const std::uint32_t length = tap.next(seen.data());
      ASSERT_LE(length, kMostFrame);
    }
  }
}

}  // namespace
}  // namespace viaduct::local
