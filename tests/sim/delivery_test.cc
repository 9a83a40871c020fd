// Data over the simulated network: what arrives, in which order, under which faults.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

std::uint64_t total_retransmissions = 0;

// A stream of messages of mixed sizes both ways at once; every byte right, in order, once.
void stream(std::uint64_t seed, const SimFaults& faults, unsigned messages, std::uint16_t level,
            std::uint32_t mtu_a = 1500, std::uint32_t mtu_b = 1500) {
  SimOptions options;
  Pair pair(seed, level, options, small_limits(), mtu_a, mtu_b);
  std::size_t longest = 0;
  pair.network.set_filter([&](const SimPort&, std::span<std::byte> frame) {
    longest = std::max(longest, frame.size());
    return true;
  });
  SimRandom random(seed ^ 0x5eed);
  pair.network.set_faults(faults);
  ASSERT_TRUE(pair.connect()) << "seed " << seed;

  constexpr std::uint32_t kLargest = 20'000;
  constexpr unsigned kPosted = 16;
  struct Side {
    Program* program;
    std::uint32_t vi;
    std::vector<std::byte> out, in;
    std::uint32_t out_handle, in_handle;
    std::vector<std::uint32_t> sizes;   // of the messages this side sends
    unsigned sent = 0, sent_done = 0, received = 0, offered = 0;
  };
  Side sides[2] = {};
  for (int s = 0; s < 2; ++s) {
    Side& side = sides[s];
    side.program = s == 0 ? pair.client.get() : pair.server.get();
    side.vi = s == 0 ? pair.client_vi : pair.server_vi;
    side.out.resize(kLargest * kPosted);
    side.in.resize(kLargest * kPosted);
    side.out_handle = side.program->register_memory(side.out.data(), side.out.size());
    side.in_handle = side.program->register_memory(side.in.data(), side.in.size());
    for (unsigned m = 0; m < messages; ++m) {
      const std::uint64_t kind = random.below(4);
      side.sizes.push_back(static_cast<std::uint32_t>(
          kind == 0 ? random.below(2) : kind < 3 ? random.below(2000) : random.below(kLargest)));
    }
    for (unsigned i = 0; i < kPosted; ++i) {
      side.program->post_receive(side.vi, &side.in[i * kLargest], kLargest, side.in_handle, i);
    }
    side.offered = kPosted;
  }

  const auto logic = [&] {
    bool worked = false;
    for (int s = 0; s < 2; ++s) {
      Side& me = sides[s];
      Side& other = sides[1 - s];
      // Never more under way than the peer has receives for.
      while (me.sent < messages && me.sent < other.offered && me.sent - me.sent_done < kPosted) {
        std::byte* data = &me.out[me.sent % kPosted * kLargest];
        const std::uint32_t size = me.sizes[me.sent];
        for (std::uint32_t i = 0; i < size; ++i) data[i] = pattern(me.sent, i);
        me.program->post_send(me.vi, data, size, me.out_handle, me.sent, me.sent);
        ++me.sent;
        worked = true;
      }
      while (auto done = me.program->done(me.vi, false)) {
        EXPECT_EQ(done->status, std::uint32_t{vip::kDone}) << "seed " << seed;
        EXPECT_EQ(done->tag, me.sent_done) << "seed " << seed;
        ++me.sent_done;
        worked = true;
      }
      while (auto done = me.program->done(me.vi, true)) {
        EXPECT_EQ(done->status & vip::kErrorMask, 0u) << "seed " << seed;
        EXPECT_EQ(done->immediate, me.received) << "seed " << seed;
        EXPECT_EQ(done->length, other.sizes[me.received]) << "seed " << seed;
        const std::byte* data = &me.in[done->tag * kLargest];
        for (std::uint32_t i = 0; i < done->length; ++i) {
          if (data[i] != pattern(me.received, i)) {
            ADD_FAILURE() << "seed " << seed << " message " << me.received << " byte " << i;
            break;
          }
        }
        me.program->post_receive(me.vi, &me.in[done->tag * kLargest], kLargest, me.in_handle,
                                 done->tag);
        ++me.offered;
        ++me.received;
        worked = true;
      }
    }
    return worked;
  };
  const auto finished = [&] {
    for (const Side& side : sides) {
      if (side.sent_done != messages || side.received != messages) return false;
    }
    return true;
  };
  const bool in_time = run(pair.network, pair.hosts, logic, finished,
                           pair.network.now() + 60'000'000'000ull);
  ASSERT_TRUE(in_time) << "seed " << seed << ": sent " << sides[0].sent_done << " and "
                       << sides[1].sent_done << ", received " << sides[0].received << " and "
                       << sides[1].received << " of " << messages;
  EXPECT_EQ(pair.a.stack->counters().connections_lost, 0u) << "seed " << seed;
  // Frames as long as both can have, but for what is cut off to keep data in step.
  const std::size_t limit = std::min(mtu_a, mtu_b) + wire::kEthernetBytes;
  EXPECT_LE(longest, limit);
  EXPECT_GT(longest, limit - 16);
  EXPECT_EQ(pair.network.counters().lost_too_long, 0u);
  if (faults.loss == 0) {
    EXPECT_EQ(pair.a.stack->counters().retransmissions, 0u);
  }
  total_retransmissions += pair.a.stack->counters().retransmissions;

  pair.client.reset();
  pair.server.reset();
  run(pair.network, pair.hosts, {}, [] { return false; }, pair.network.now() + 5'000'000'000ull);
  expect_nothing_left(pair.a);
  expect_nothing_left(pair.b);
  pair.a.stack.reset();
  pair.b.stack.reset();
  EXPECT_EQ(pair.a.port.outstanding(), 0u) << "seed " << seed;
  EXPECT_EQ(pair.b.port.outstanding(), 0u) << "seed " << seed;
}

unsigned seeds(unsigned otherwise) {
  const char* asked = std::getenv("VIADUCT_SEEDS");
  return asked ? static_cast<unsigned>(std::strtoul(asked, nullptr, 10)) : otherwise;
}

std::uint64_t first_seed() {
  const char* asked = std::getenv("VIADUCT_SEED");
  return asked ? std::strtoull(asked, nullptr, 10) : 1;
}

TEST(Delivery, IsCompleteAndInOrderWithoutFaults) {
  stream(first_seed(), SimFaults{}, 500, vip::kReliableDelivery);
}

TEST(Delivery, IsCompleteAndInOrderUnderLossDuplicationAndReordering) {
  SimFaults faults;
  faults.loss = 0.01;
  faults.duplication = 0.01;
  faults.reordering = 0.05;
  const unsigned count = seeds(1000);
  for (std::uint64_t seed = first_seed(); seed < first_seed() + count; ++seed) {
    stream(seed, faults, 60, seed % 4 == 0 ? vip::kReliableReception : vip::kReliableDelivery);
    if (testing::Test::HasFailure()) {
      FAIL() << "run again with VIADUCT_SEED=" << seed << " VIADUCT_SEEDS=1";
    }
  }
  EXPECT_GT(total_retransmissions, 0u);
  RecordProperty("retransmissions", static_cast<int>(total_retransmissions));
  std::printf("%llu frames sent again\n", static_cast<unsigned long long>(total_retransmissions));
}

TEST(Delivery, FramesAreAsLongAsBothSidesCanHaveThem) {
  constexpr std::uint32_t kMtus[] = {576, 1500, 3498, 3822, 9000};
  SimFaults loss;
  loss.loss = 0.01;
  std::uint64_t seed = first_seed();
  for (const std::uint32_t a : kMtus) {
    for (const std::uint32_t b : kMtus) {
      SCOPED_TRACE(std::to_string(a) + " and " + std::to_string(b));
      stream(++seed, SimFaults{}, 60, vip::kReliableDelivery, a, b);
      stream(++seed, loss, 60, vip::kReliableDelivery, a, b);
    }
  }
}

TEST(Delivery, SurvivesHeavyLoss) {
  SimFaults faults;
  faults.loss = 0.2;
  faults.reordering = 0.2;
  faults.duplication = 0.1;
  const unsigned count = std::min(seeds(50), 50u);
  for (std::uint64_t seed = first_seed(); seed < first_seed() + count; ++seed) {
    stream(seed, faults, 30, vip::kReliableDelivery);
    if (testing::Test::HasFailure()) FAIL() << "VIADUCT_SEED=" << seed;
  }
}

TEST(Delivery, UnreliableIsAtMostOnceAndInOrder) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 50; ++seed) {
    Pair pair(seed, vip::kUnreliable);
    ASSERT_TRUE(pair.connect());
    SimFaults faults;
    faults.loss = 0.02;
    faults.duplication = 0.02;
    faults.reordering = 0.05;
    pair.network.set_faults(faults);
    constexpr std::uint32_t kSize = 5000;
    constexpr unsigned kMessages = 200;
    std::vector<std::byte> out(kSize * kMessages), in(kSize * kMessages);
    const std::uint32_t out_handle = pair.client->register_memory(out.data(), out.size());
    const std::uint32_t in_handle = pair.server->register_memory(in.data(), in.size());
    for (unsigned m = 0; m < kMessages; ++m) {
      for (std::uint32_t i = 0; i < kSize; ++i) out[m * kSize + i] = pattern(m, i);
      pair.server->post_receive(pair.server_vi, &in[m * kSize], kSize, in_handle, m);
    }
    unsigned sent = 0, completed = 0, received = 0;
    std::int64_t last = -1;
    const auto logic = [&] {
      bool worked = false;
      if (sent < kMessages) {
        pair.client->post_send(pair.client_vi, &out[sent * kSize], kSize, out_handle, sent, sent);
        ++sent;
        worked = true;
      }
      while (auto done = pair.client->done(pair.client_vi, false)) {
        EXPECT_EQ(done->status, std::uint32_t{vip::kDone});
        ++completed;
      }
      while (auto done = pair.server->done(pair.server_vi, true)) {
        EXPECT_EQ(done->status & vip::kErrorMask, 0u);
        EXPECT_GT(static_cast<std::int64_t>(done->immediate), last);
        last = done->immediate;
        const std::byte* data = &in[done->tag * kSize];
        bool right = true;
        for (std::uint32_t i = 0; i < kSize; ++i) right &= data[i] == pattern(done->immediate, i);
        EXPECT_TRUE(right) << "seed " << seed << " message " << done->immediate;
        ++received;
        worked = true;
      }
      return worked;
    };
    run(pair.network, pair.hosts, logic, [] { return false; },
        pair.network.now() + 1'000'000'000ull);
    EXPECT_EQ(completed, kMessages);
    EXPECT_GT(received, kMessages / 4);
    EXPECT_LT(received, kMessages);
    EXPECT_EQ(pair.client->state(pair.client_vi), vip::kConnected);
  }
}

// Frames behind a gap for which there is no buffer are sent again, and nothing is lost.
TEST(Delivery, GoesOnWithFewHeldFrames) {
  StackLimits limits = small_limits();
  limits.held = 8;
  SimOptions options;
  options.faults.loss = 0.1;
  Pair pair(7, vip::kReliableDelivery, options, limits);
  constexpr unsigned kVis = 4, kMessages = 40;
  constexpr std::uint32_t kBytes = 6000;
  std::vector<std::uint32_t> near{pair.client_vi}, far{pair.server_vi};
  while (near.size() < kVis) {
    near.push_back(pair.client->create_vi(vip::kReliableDelivery));
    far.push_back(pair.server->create_vi(vip::kReliableDelivery));
  }
  std::vector<std::byte> source(kBytes), target(kVis * kMessages * kBytes);
  for (std::uint32_t at = 0; at < kBytes; ++at) source[at] = pattern(3, at);
  const std::uint32_t from = pair.client->register_memory(source.data(), source.size());
  const std::uint32_t to = pair.server->register_memory(target.data(), target.size());
  for (unsigned v = 0; v < kVis; ++v) {
    ASSERT_TRUE(connect(pair.network, pair.hosts, *pair.client, near[v], *pair.server, far[v],
                        pair.b.port.address(), 10 + v));
    for (unsigned m = 0; m < kMessages; ++m) {
      pair.server->post_receive(far[v], target.data() + (v * kMessages + m) * kBytes, kBytes, to);
    }
  }
  for (unsigned m = 0; m < kMessages; ++m) {
    for (unsigned v = 0; v < kVis; ++v) pair.client->post_send(near[v], source.data(), kBytes, from);
  }
  unsigned arrived = 0;
  run(pair.network, pair.hosts,
      [&] {
        bool found = false;
        for (const std::uint32_t vi : far) {
          if (!pair.server->done(vi, true)) continue;
          ++arrived;
          found = true;
        }
        return found;
      },
      [&] { return arrived == kVis * kMessages; }, pair.network.now() + 60 * kSecond);
  EXPECT_EQ(arrived, kVis * kMessages);
  for (unsigned n = 0; n < kVis * kMessages; ++n) {
    ASSERT_EQ(std::memcmp(target.data() + n * kBytes, source.data(), kBytes), 0) << n;
  }
  EXPECT_GT(pair.b.stack->counters().drop_no_held_buffer, 0u);
}

}  // namespace
}  // namespace viaduct::sim
