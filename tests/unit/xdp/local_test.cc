// Local paths: two ends that behave, and ends whose peer writes anything into the shared memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "xdp/local/local_peers.h"

namespace viaduct::local {
namespace {

constexpr MacAddress kA{2, 0, 0, 0, 0, 1}, kB{2, 0, 0, 0, 0, 2}, kStranger{2, 0, 0, 0, 0, 3};
constexpr std::uint32_t kKept = 100;
constexpr std::size_t kEthernet = 14;

class Random {
 public:
  explicit Random(std::uint32_t seed) : numbers_(seed) {}
  std::uint32_t operator()() { return static_cast<std::uint32_t>(numbers_()); }

 private:
  std::mt19937 numbers_;
};

int make_file(std::size_t bytes = kFileBytes, int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) {
  const int file = memfd_create("local-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(ftruncate(file, static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(file, F_ADD_SEALS, seals), 0);
  return file;
}

struct End {
  explicit End(const MacAddress& own) : peers(LocalPeers::make(own, kKept)) {}
  ~End() { LocalPeers::destroy(peers); }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  LocalPeers* peers;
};

struct Pair {
  Pair() : file(make_file()), a(kA), b(kB) {
    EXPECT_EQ(a.peers->add(kB, 1, dup(file), 0), nullptr);
    EXPECT_EQ(b.peers->add(kA, 1, dup(file), 1), nullptr);
  }
  ~Pair() { close(file); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  int file;
  End a, b;
};

// The contents of a frame with this seed, behind its addresses.
std::byte content(std::uint32_t seed, std::size_t at) { return static_cast<std::byte>(seed * 31 + at * 7 + at / 251); }

bool send(LocalPeers& from, const MacAddress& to, const MacAddress& source, std::uint32_t length,
          std::uint32_t seed, std::uint32_t reserved = 0) {
  Frame frame;
  if (!from.reserve(to, std::max(length, reserved), frame)) return false;
  std::memcpy(frame.data, to.data(), to.size());
  std::memcpy(frame.data + to.size(), source.data(), source.size());
  for (std::size_t at = 2 * to.size(); at < length; ++at) frame.data[at] = content(seed, at);
  frame.length = length;
  from.submit(frame);
  return true;
}

void expect_content(const Frame& frame, std::uint32_t length, std::uint32_t seed) {
  ASSERT_EQ(frame.length, length);
  for (std::size_t at = 12; at < length; ++at) ASSERT_EQ(frame.data[at], content(seed, at)) << at << " of " << length;
}

std::uint32_t any_length(Random& random) {
  switch (random() % 4) {
    case 0: return kMostFrame - random() % 100;
    case 1: return 14 + random() % 3000;
    default: return 14 + random() % 120;
  }
}

TEST(Local, FramesComeInOrderWithTheirBytes) {
  Pair pair;
  Random random(1);
  std::vector<std::uint32_t> sent;
  std::size_t received = 0;
  std::array<Frame, 8> frames;
  while (received < 10'000) {
    const std::uint32_t length = any_length(random);
    const auto seed = static_cast<std::uint32_t>(sent.size());
    const std::uint32_t reserved = random() % 2 == 0 ? std::min(kMostFrame, length + random() % 200) : 0;
    if (random() % 3 != 0 && send(*pair.a.peers, kB, kA, length, seed, reserved)) {
      sent.push_back(length);
      continue;
    }
    const std::size_t n = pair.b.peers->receive(frames);
    for (std::size_t i = 0; i < n; ++i, ++received) {
      expect_content(frames[i], sent[received], static_cast<std::uint32_t>(received));
      pair.b.peers->release(frames[i]);
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(pair.a.peers->counters().full, 0u);
  EXPECT_EQ(pair.b.peers->counters().foreign, 0u);
  EXPECT_EQ(pair.b.peers->counters().broken, 0u);
}

TEST(Local, TwoThreadsExchangeFrames) {
  Pair pair;
  constexpr std::uint32_t kFrames = 10'000;
  std::thread sender([&pair] {
    Random random(2);
    for (std::uint32_t i = 0; i < kFrames; ++i) {
      const std::uint32_t length = any_length(random);
      while (!send(*pair.a.peers, kB, kA, length, i)) std::this_thread::yield();
    }
  });
  Random random(2);
  std::array<Frame, 16> frames;
  for (std::uint32_t received = 0; received < kFrames;) {
    const std::size_t n = pair.b.peers->receive(frames);
    if (n == 0) std::this_thread::yield();
    for (std::size_t i = 0; i < n; ++i, ++received) {
      expect_content(frames[i], any_length(random), received);
      pair.b.peers->release(frames[i]);
    }
  }
  sender.join();
}

TEST(Local, KeptFramesStayWhatTheyWere) {
  Pair pair;
  std::vector<Frame> kept;
  std::array<Frame, 1> one;
  for (std::uint32_t i = 0; i < kKept; ++i) {
    ASSERT_TRUE(send(*pair.a.peers, kB, kA, 1000, i));
    ASSERT_EQ(pair.b.peers->receive(one), 1u);
    kept.push_back(one[0]);
  }
  for (std::uint32_t i = 0; i < kKept; ++i) expect_content(kept[i], 1000, i);
}

TEST(Local, AFrameOfAnotherSourceIsDropped) {
  Pair pair;
  ASSERT_TRUE(send(*pair.a.peers, kB, kStranger, 100, 0));
  ASSERT_TRUE(send(*pair.a.peers, kB, kA, 100, 1));
  std::array<Frame, 4> frames;
  ASSERT_EQ(pair.b.peers->receive(frames), 1u);
  expect_content(frames[0], 100, 1);
  EXPECT_EQ(pair.b.peers->counters().foreign, 1u);
}

TEST(Local, NothingIsSentBeforeThePeerHasItsEnd) {
  const int file = make_file();
  End a(kA), b(kB);
  ASSERT_EQ(a.peers->add(kB, 1, dup(file), 0), nullptr);
  EXPECT_FALSE(a.peers->has(kB));
  ASSERT_EQ(b.peers->add(kA, 1, file, 1), nullptr);
  EXPECT_TRUE(a.peers->has(kB));
  EXPECT_TRUE(b.peers->has(kA));
  EXPECT_FALSE(a.peers->has(kStranger));
}

TEST(Local, WhatAPeerHasSentBeforeItsEndIsReceived) {
  Pair pair;
  ASSERT_TRUE(send(*pair.a.peers, kB, kA, 100, 0));
  pair.b.peers->end(kA);
  Frame frame;
  EXPECT_FALSE(pair.b.peers->reserve(kA, 100, frame));
  std::array<Frame, 4> frames;
  ASSERT_EQ(pair.b.peers->receive(frames), 1u);
  EXPECT_EQ(pair.b.peers->receive(frames), 0u);
  EXPECT_EQ(pair.b.peers->count(), 0u);
  EXPECT_FALSE(pair.b.peers->has_frames());
}

TEST(Local, AMarkIsPassedWhenWhatWasThereHasBeenReceived) {
  Pair pair;
  std::array<Frame, 4> frames;
  const auto take = [&] {
    const std::size_t n = pair.b.peers->receive(frames);
    for (std::size_t i = 0; i < n; ++i) pair.b.peers->release(frames[i]);
    return n;
  };
  pair.b.peers->mark();
  EXPECT_TRUE(pair.b.peers->is_past_mark());
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(send(*pair.a.peers, kB, kA, 100, i));
  EXPECT_TRUE(pair.b.peers->is_past_mark()) << "what has come since does not count";
  pair.b.peers->mark();
  for (std::size_t all = 0; all < 10; all += take()) EXPECT_FALSE(pair.b.peers->is_past_mark()) << all;
  EXPECT_TRUE(pair.b.peers->is_past_mark());
}

TEST(Local, APeerThatGoesOnAndOnHoldsAMarkForOneRing) {
  Pair pair;
  std::array<Frame, 4> frames;
  constexpr std::uint32_t kBytes = 1000;
  ASSERT_TRUE(send(*pair.a.peers, kB, kA, kBytes, 0));
  pair.b.peers->mark();
  std::uint32_t taken = 0, sent = 1;
  while (!pair.b.peers->is_past_mark() && taken < 10'000) {
    while (send(*pair.a.peers, kB, kA, kBytes, sent)) ++sent;
    const std::size_t n = pair.b.peers->receive(frames);
    for (std::size_t i = 0; i < n; ++i) pair.b.peers->release(frames[i]);
    taken += static_cast<std::uint32_t>(n);
  }
  EXPECT_GE(taken * record_bytes(kBytes), kRingBytes - kMostFrame);
  EXPECT_LE(taken * record_bytes(kBytes), kRingBytes + kMostFrame);
}

TEST(Local, ASleeperIsWokenOnce) {
  Pair pair;
  unsigned woken = 0;
  const auto flush = [&] { pair.a.peers->flush([&](const MacAddress& peer) { woken += peer == kB; }); };
  ASSERT_TRUE(send(*pair.a.peers, kB, kA, 100, 0));
  flush();
  EXPECT_EQ(woken, 0u);
  EXPECT_FALSE(pair.b.peers->prepare_to_sleep());
  std::array<Frame, 4> frames;
  ASSERT_EQ(pair.b.peers->receive(frames), 1u);
  ASSERT_TRUE(pair.b.peers->prepare_to_sleep());
  for (std::uint32_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(send(*pair.a.peers, kB, kA, 100, i));
    flush();
    EXPECT_EQ(woken, 1u);
  }
  // A wake-up may be lost.
  for (std::uint32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(send(*pair.a.peers, kB, kA, 100, i));
    flush();
  }
  EXPECT_EQ(woken, 2u);
  while (pair.b.peers->receive(frames) != 0) {
    for (const Frame& frame : frames) pair.b.peers->release(frame);
  }
  ASSERT_TRUE(pair.b.peers->prepare_to_sleep());
  ASSERT_TRUE(send(*pair.a.peers, kB, kA, 100, 0));
  flush();
  EXPECT_EQ(woken, 3u);
}

TEST(Local, AFileThatIsNotWhatItShouldBeIsRefused) {
  End a(kA);
  EXPECT_NE(a.peers->add(kB, 1, make_file(kFileBytes - 4096), 0), nullptr);
  EXPECT_NE(a.peers->add(kB, 1, make_file(kFileBytes, F_SEAL_GROW), 0), nullptr);
  EXPECT_NE(a.peers->add(kB, 1, make_file(), 2), nullptr);
  EXPECT_NE(a.peers->add(kB, 1, open("/dev/null", O_RDWR | O_CLOEXEC), 0), nullptr);
  EXPECT_EQ(a.peers->count(), 0u);
}

// The same address again: a program that has what another one had.
TEST(Local, APeerCanBeReplaced) {
  Pair pair;
  ASSERT_TRUE(send(*pair.a.peers, kB, kA, 100, 0));
  const int file = make_file();
  End again(kA);
  ASSERT_EQ(again.peers->add(kB, 1, dup(file), 0), nullptr);
  ASSERT_EQ(pair.b.peers->add(kA, 2, file, 1), nullptr);
  EXPECT_EQ(pair.b.peers->count(), 1u);
  ASSERT_TRUE(send(*again.peers, kB, kA, 200, 7));
  std::array<Frame, 4> frames;
  ASSERT_EQ(pair.b.peers->receive(frames), 1u);
  expect_content(frames[0], 200, 7);
}

// A new agent does not know that two programs have rings already.
TEST(Local, AProgramThatHasRingsKeepsThem) {
  Pair pair;
  ASSERT_TRUE(send(*pair.a.peers, kB, kA, 100, 3));
  ASSERT_EQ(pair.b.peers->add(kA, 1, make_file(), 1), nullptr);
  std::array<Frame, 4> frames;
  ASSERT_EQ(pair.b.peers->receive(frames), 1u);
  expect_content(frames[0], 100, 3);
}

TEST(Local, AChildThatGivesItsCopyBackHarmsNobody) {
  Pair pair;
  ASSERT_TRUE(send(*pair.a.peers, kB, kA, 100, 3));
  const pid_t child = fork();
  if (child == 0) {
    LocalPeers::destroy(pair.b.peers);
    LocalPeers::destroy(pair.a.peers);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(pair.a.peers->has(kB));
  std::array<Frame, 4> frames;
  ASSERT_EQ(pair.b.peers->receive(frames), 1u);
  expect_content(frames[0], 100, 3);
}

TEST(Local, ThereAreNotMoreThanSomePeers) {
  End a(kA);
  for (std::uint32_t i = 0; i <= LocalPeers::kMost; ++i) {
    const MacAddress peer{2, 0, 0, 1, 0, static_cast<std::uint8_t>(i)};
    EXPECT_EQ(a.peers->add(peer, 1, make_file(), 0) == nullptr, i < LocalPeers::kMost) << i;
  }
  // One that differs in none of the bits by which it is found.
  a.peers->end({2, 0, 0, 1, 0, 5});
  std::array<Frame, 4> frames;
  a.peers->receive(frames);
  EXPECT_EQ(a.peers->count(), LocalPeers::kMost - 1);
  EXPECT_NE(a.peers->add({2, 0, 0, 9, 0, 7}, 1, make_file(), 0), nullptr);
}

// A peer that writes anything anywhere into the shared memory, at any time: lengths, positions, flags. This end
// gets frames that make sense, or none.
TEST(Local, APeerThatScribblesHarmsNobody) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    Pair pair;
    void* const at = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, pair.file, 0);
    ASSERT_NE(at, MAP_FAILED);
    auto* const memory = static_cast<std::byte*>(at);
    const std::uint32_t edges[] = {0, 1, 13, 59, 60, 61, kMostFrame, kMostFrame + 1, kRingBytes, 0x7fffffff, kWrap};
    std::array<Frame, 8> frames;
    for (unsigned step = 0; step < 400; ++step) {
      const std::uint32_t value = random() % 2 == 0 ? edges[random() % std::size(edges)] : random();
      const std::uint64_t wide = random() % 2 == 0 ? value : std::uint64_t{random()} << 32 | random();
      switch (random() % 8) {
        case 0: std::memcpy(memory + random() % (8 * kLine) / 8 * 8, &wide, sizeof wide); break;
        case 1:  // where a record may begin
          std::memcpy(memory + kRingsAt + random() % (2 * kRingBytes / kLine) * kLine, &value, sizeof value);
          break;
        case 2:  // where the first ones begin
          std::memcpy(memory + kRingsAt + kRingBytes * (random() % 2) + random() % 64 * kLine, &value, sizeof value);
          break;
        case 3:
          for (unsigned i = 0; i < 64; ++i) memory[random() % kFileBytes] = static_cast<std::byte>(random());
          break;
        case 4: send(*pair.a.peers, kB, kA, any_length(random), step); break;
        case 5: send(*pair.b.peers, kA, kB, any_length(random), step); break;
        default:
          for (End* const end : {&pair.a, &pair.b}) {
            const std::size_t n = end->peers->receive(frames);
            ASSERT_LE(n, frames.size());
            for (std::size_t i = 0; i < n; ++i) {
              ASSERT_GE(frames[i].length, kEthernet);
              ASSERT_LE(frames[i].length, kMostFrame);
              const MacAddress& peer = end == &pair.a ? kB : kA;
              ASSERT_EQ(std::memcmp(frames[i].data + 6, peer.data(), peer.size()), 0);
              end->peers->release(frames[i]);
            }
          }
          pair.a.peers->flush([](const MacAddress&) {});
          pair.a.peers->prepare_to_sleep();
      }
    }
    munmap(at, kFileBytes);
  }
}

// Behind the ring lies unreadable memory.
TEST(Local, ARecordThatGoesBeyondTheRingIsNotRead) {
  constexpr std::size_t kGuard = 2 * kMostFrame;
  void* const at = mmap(nullptr, kRingBytes + kGuard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  auto* const ring = static_cast<std::byte*>(at);
  ASSERT_EQ(mprotect(ring + kRingBytes, kGuard, PROT_NONE), 0);
  Control control;
  Track track;
  RingWriter writer(ring, &control, &track);
  RingReader reader(ring, &control);
  alignas(kLine) static std::byte room[kMostFrame + kLine];
  std::uint32_t length;
  for (std::uint32_t n = 0; n < kRingBytes / kLine - 1; ++n) {
    ASSERT_NE(writer.reserve(kShort), nullptr);
    writer.publish(kShort);
    ASSERT_NE(reader.take(room, length), nullptr);
    reader.give_room();
  }
  const std::uint32_t word = kShort + 1;
  std::memcpy(ring + kRingBytes - kLine, &word, sizeof word);
  EXPECT_EQ(reader.take(room, length), nullptr);
  EXPECT_TRUE(reader.broken());
  munmap(at, kRingBytes + kGuard);
}

// A consumer that claims to have taken what was never sent, or to have given back what it had taken.
TEST(Local, AConsumerThatLiesGetsNothingMore) {
  for (const std::uint64_t lie : {std::uint64_t{kLine}, std::uint64_t{kRingBytes} * 4, ~std::uint64_t{0}, std::uint64_t{7}}) {
    Pair pair;
    void* const at = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, pair.file, 0);
    ASSERT_NE(at, MAP_FAILED);
    auto* const control = static_cast<Control*>(at);
    control->taken.store(lie);
    unsigned sent = 0;
    while (send(*pair.a.peers, kB, kA, kLine, sent) && sent < 3 * kRingBytes / kLine) ++sent;
    EXPECT_LT(sent, kRingBytes / kLine + 1) << lie;
    munmap(at, kFileBytes);
  }
}

TEST(Local, APeerThatTakesNothingStopsNobodyElse) {
  Pair pair;
  const int file = make_file();
  End c(kStranger);
  ASSERT_EQ(pair.a.peers->add(kStranger, 1, dup(file), 0), nullptr);
  ASSERT_EQ(c.peers->add(kA, 1, file, 1), nullptr);
  while (send(*pair.a.peers, kB, kA, 1000, 0)) {
  }
  std::array<Frame, 4> frames;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(send(*pair.a.peers, kStranger, kA, 1000, i));
    ASSERT_EQ(c.peers->receive(frames), 1u);
    c.peers->release(frames[0]);
  }
}

}  // namespace
}  // namespace viaduct::local
