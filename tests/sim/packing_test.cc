// Small messages that share a frame.
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

SimFaults rough() {
  SimFaults faults;
  faults.loss = 0.1;
  faults.duplication = 0.1;
  faults.reordering = 0.2;
  return faults;
}

// Bursts of messages of mixed sizes, small ones mostly, with and without immediate data.
void burst(std::uint64_t seed, std::uint16_t level, const SimFaults& faults, bool expect_all) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", level " + std::to_string(level));
  constexpr unsigned kMessages = 400, kPosted = 300;
  constexpr std::uint32_t kLargest = 3000;
  Pair pair(seed, level);
  ASSERT_TRUE(pair.connect());
  pair.network.set_faults(faults);
  SimRandom random(seed);
  std::vector<std::byte> out(kMessages * kLargest), in(kPosted * kLargest);
  const std::uint32_t here = pair.client->register_memory(out.data(), out.size());
  const std::uint32_t there = pair.server->register_memory(in.data(), in.size());
  std::vector<std::uint32_t> sizes(kMessages);
  for (unsigned m = 0; m < kMessages; ++m) {
    sizes[m] = static_cast<std::uint32_t>(random.below(20) == 0  ? random.below(kLargest)
                                          : random.below(5) == 0 ? random.below(401)
                                                                 : random.below(64));
    for (std::uint32_t i = 0; i < sizes[m]; ++i) out[m * kLargest + i] = pattern(m, i);
  }
  unsigned posted = 0, sent = 0, sent_done = 0, received = 0, next = 0;
  for (; posted < kPosted; ++posted) {
    pair.server->post_receive(pair.server_vi, &in[posted * kLargest], kLargest, there, posted);
  }
  const auto logic = [&] {
    bool worked = false;
    // In bursts, and never more than there are receives for.
    if (sent - sent_done < 20) {
      for (std::uint64_t n = random.below(40); n > 0 && sent < kMessages && sent < posted; --n) {
        std::optional<std::uint32_t> immediate;
        if (sent % 3 != 0) immediate = sent;
        pair.client->post_send(pair.client_vi, &out[sent * kLargest], sizes[sent], here, sent,
                               immediate);
        ++sent;
        worked = true;
      }
    }
    while (const auto done = pair.client->done(pair.client_vi, false)) {
      EXPECT_EQ(done->status & vip::kErrorMask, 0u);
      EXPECT_EQ(done->tag, sent_done);
      ++sent_done;
      worked = true;
    }
    while (const auto done = pair.server->done(pair.server_vi, true)) {
      EXPECT_EQ(done->status & vip::kErrorMask, 0u);
      const std::byte* data = &in[done->tag % kPosted * kLargest];
      // On Unreliable Delivery some are missing, but those that come are in order and whole.
      const bool has = (done->status & vip::kImmediate) != 0;
      if (has) {
        EXPECT_GE(done->immediate, next);
        next = done->immediate;
      } else if (expect_all) {
        EXPECT_EQ(next % 3, 0u);
      }
      if (has || expect_all) {
        EXPECT_EQ(done->length, sizes[next]);
        bool right = true;
        for (std::uint32_t i = 0; i < done->length; ++i) right &= data[i] == pattern(next, i);
        EXPECT_TRUE(right) << next;
        ++next;
      }
      ++received;
      pair.server->post_receive(pair.server_vi, &in[done->tag % kPosted * kLargest], kLargest,
                                there, posted++);
      worked = true;
    }
    return worked;
  };
  run(pair.network, pair.hosts, logic,
      [&] { return sent_done == kMessages && (received == kMessages || !expect_all); },
      pair.network.now() + 60 * kSecond);
  EXPECT_EQ(sent_done, kMessages);
  if (expect_all) {
    EXPECT_EQ(received, kMessages);
  } else {
    EXPECT_GT(received, kMessages / 4);
  }
  const StackCounters& count = pair.a.stack->counters();
  if (level == vip::kReliableReception) {
    EXPECT_EQ(count.messages_packed, 0u);
  } else {
    EXPECT_GT(count.messages_packed, kMessages / 4);
  }
  EXPECT_EQ(count.messages_sent, kMessages);
  pair.client.reset();
  pair.wait(10 * kSecond);
  pair.server.reset();
  pair.wait(10 * kSecond);
  expect_nothing_left(pair.a);
  expect_nothing_left(pair.b);
}

TEST(Packing, DeliversEveryMessageOnceInOrderUnderFaults) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    burst(seed, vip::kReliableDelivery, seed % 5 == 0 ? SimFaults{} : rough(), true);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Packing, IsNotForReliableReception) { burst(1, vip::kReliableReception, rough(), true); }

TEST(Packing, DeliversWholeMessagesOnUnreliableDelivery) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    burst(seed, vip::kUnreliable, seed % 5 == 0 ? SimFaults{} : rough(), false);
    if (testing::Test::HasFailure()) return;
  }
}

struct Five {
  explicit Five(std::uint16_t level) : pair(1, level), out(500), in(500) {
    EXPECT_TRUE(pair.connect());
    here = pair.client->register_memory(out.data(), out.size());
    there = pair.server->register_memory(in.data(), in.size());
  }
  void post_receives(unsigned count, std::uint32_t length = 100) {
    for (unsigned i = 0; i < count; ++i) {
      pair.server->post_receive(pair.server_vi, &in[i * 100], length, there, i);
    }
  }
  // All in one frame.
  void send_five() {
    for (unsigned i = 0; i < 5; ++i) {
      pair.client->post_send(pair.client_vi, &out[i * 100], 50, here, i);
    }
    pair.wait(10 * kMillisecond);
    EXPECT_EQ(pair.a.stack->counters().messages_packed, 5u);
  }
  Pair pair;
  std::vector<std::byte> out, in;
  std::uint32_t here, there;
};

TEST(Packing, RefusalNamesTheMessageThatCouldNotBeTaken) {
  for (const bool too_short : {false, true}) {
    Five five(vip::kReliableDelivery);
    five.post_receives(3);
    if (too_short) {
      five.pair.server->post_receive(five.pair.server_vi, &five.in[300], 20, five.there, 3);
    }
    five.send_five();
    for (unsigned i = 0; i < 3; ++i) {
      EXPECT_EQ(five.pair.server->done(five.pair.server_vi, true)->status & vip::kErrorMask, 0u);
      EXPECT_EQ(five.pair.client->done(five.pair.client_vi, false)->status, vip::kDone + 0u);
    }
    if (too_short) {
      EXPECT_TRUE(five.pair.server->done(five.pair.server_vi, true)->status & vip::kLengthError);
    }
    EXPECT_TRUE(five.pair.client->done(five.pair.client_vi, false)->status &
                vip::kTransportError);
    EXPECT_TRUE(five.pair.client->done(five.pair.client_vi, false)->status & vip::kFlushedError);
    EXPECT_EQ(five.pair.client->state(five.pair.client_vi), vip::kError);
    EXPECT_EQ(five.pair.server->state(five.pair.server_vi), vip::kError);
  }
}

TEST(Packing, MessageThatCouldNotBeTakenHarmsNoOtherOnUnreliableDelivery) {
  Five five(vip::kUnreliable);
  five.post_receives(1);
  five.pair.server->post_receive(five.pair.server_vi, &five.in[100], 20, five.there, 1);
  for (unsigned i = 2; i < 4; ++i) {
    five.pair.server->post_receive(five.pair.server_vi, &five.in[i * 100], 100, five.there, i);
  }
  five.send_five();
  for (unsigned i = 0; i < 4; ++i) {
    const auto done = five.pair.server->done(five.pair.server_vi, true);
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ((done->status & vip::kErrorMask) != 0, i == 1) << i;
  }
  EXPECT_EQ(five.pair.b.stack->counters().drop_no_descriptor, 1u);
  EXPECT_EQ(five.pair.server->state(five.pair.server_vi), vip::kConnected);
  for (unsigned i = 0; i < 5; ++i) {
    EXPECT_EQ(five.pair.client->done(five.pair.client_vi, false)->status, vip::kDone + 0u);
  }
}

// By this a program can have each of its messages in a frame of its own.
TEST(Packing, IsNotForMessagesWithAFence) {
  Five five(vip::kReliableDelivery);
  five.post_receives(5);
  for (unsigned i = 0; i < 5; ++i) {
    const void* const data = &five.out[i * 100];
    five.pair.client->post(five.pair.client_vi, false,
                           {{reinterpret_cast<std::uint64_t>(data), five.here, 50}}, 50, i, {}, data,
                           layout::kOpSend, layout::kSlotFence);
  }
  five.pair.wait(10 * kMillisecond);
  for (unsigned i = 0; i < 5; ++i) {
    EXPECT_EQ(five.pair.server->done(five.pair.server_vi, true)->status & vip::kErrorMask, 0u);
    EXPECT_EQ(five.pair.client->done(five.pair.client_vi, false)->status, vip::kDone + 0u);
  }
  EXPECT_EQ(five.pair.a.stack->counters().messages_sent, 5u);
  EXPECT_EQ(five.pair.a.stack->counters().messages_packed, 0u);
}

// Frames of a peer that does not keep the rules.
TEST(Packing, MalformedFramesEndAReliableConnection) {
  for (int which = 0; which < 4; ++which) {
    SCOPED_TRACE(which);
    Five five(vip::kReliableDelivery);
    five.post_receives(5);
    five.pair.network.set_filter([&](const SimPort&, std::span<std::byte> frame) {
      std::byte* const payload = frame.data() + wire::kEthernetBytes + wire::kHeaderBytes;
      if ((wire::load16(frame.data() + 16) & wire::kFlagPacked) == 0) return true;
      switch (which) {
        case 0: wire::store16(payload + 58, 0xffff); break;  // longer than the frame
        case 1: wire::store16(payload + 60, 2); break;       // unknown flag
        case 2: wire::store16(payload + 58, 49); break;      // later fields are out of step
        default: wire::store16(payload + 4 * 58, 44); break;  // too little left at the end
      }
      wire::seal(frame);
      return true;
    });
    five.send_five();
    EXPECT_EQ(five.pair.server->state(five.pair.server_vi), vip::kError);
    EXPECT_EQ(five.pair.client->state(five.pair.client_vi), vip::kError);
  }
}

}  // namespace
}  // namespace viaduct::sim
