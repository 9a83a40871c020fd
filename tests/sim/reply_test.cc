// Acknowledgements that wait for what a program answers, and how long they do.
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

constexpr std::uint32_t kQuestionBytes = 64;
constexpr std::uint64_t kMicrosecond = 1'000;

// A program that asks and one that answers a while later.
struct Exchanges {
  Exchanges() : memory(2 * kQuestionBytes) {
    EXPECT_TRUE(pair.connect());
    client_memory = pair.client->register_memory(memory.data(), memory.size());
    server_memory = pair.server->register_memory(memory.data(), memory.size());
    pair.server->post_receive(pair.server_vi, memory.data(), kQuestionBytes, server_memory, 0);
  }

  void exchange(std::uint64_t answer_after) {
    pair.client->post_receive(pair.client_vi, memory.data(), kQuestionBytes, client_memory, 0);
    pair.client->post_send(pair.client_vi, memory.data() + kQuestionBytes, kQuestionBytes, client_memory, 0);
    pair.wait(answer_after);
    ASSERT_TRUE(pair.server->done(pair.server_vi, true).has_value());
    pair.server->post_receive(pair.server_vi, memory.data(), kQuestionBytes, server_memory, 0);
    pair.server->post_send(pair.server_vi, memory.data() + kQuestionBytes, kQuestionBytes, server_memory, 0);
    pair.wait(20 * kMicrosecond);
    ASSERT_TRUE(pair.client->done(pair.client_vi, true).has_value());
    ASSERT_TRUE(pair.client->done(pair.client_vi, false).has_value());
    while (pair.server->done(pair.server_vi, false)) {
    }
  }

  // Acknowledgements in frames of their own by the host that answers, during so many exchanges.
  std::uint64_t acknowledgements(unsigned exchanges, std::uint64_t answer_after) {
    const std::uint64_t before = pair.b.stack->counters().acks_sent;
    for (unsigned i = 0; i < exchanges && !testing::Test::HasFailure(); ++i) exchange(answer_after);
    return pair.b.stack->counters().acks_sent - before;
  }
  std::uint64_t sent_again() {
    return pair.a.stack->counters().retransmission_timeouts + pair.b.stack->counters().retransmission_timeouts;
  }

  Pair pair;
  std::vector<std::byte> memory;
  std::uint32_t client_memory, server_memory;
};

TEST(Reply, BringsTheAcknowledgementHoweverLongItTakesUpToHalfAMillisecond) {
  for (const std::uint64_t time : {20u, 100u, 200u, 400u}) {
    SCOPED_TRACE(time);
    Exchanges of;
    EXPECT_LE(of.acknowledgements(100, time * kMicrosecond), 30u);
    EXPECT_EQ(of.acknowledgements(100, time * kMicrosecond), 0u);
    EXPECT_EQ(of.sent_again(), 0u);
  }
}

TEST(Reply, ThatTakesLongerIsNotWaitedForByThePeer) {
  Exchanges of;
  of.acknowledgements(100, 3 * kMillisecond);
  EXPECT_GE(of.acknowledgements(100, 3 * kMillisecond), 100u);
  EXPECT_EQ(of.sent_again(), 0u);
}

// Quick answers replace the estimate learnt from slow ones.
TEST(Reply, ThatCeasesToComeIsNotWaitedForAsLongAsItOnceTook) {
  Exchanges of;
  of.acknowledgements(100, 400 * kMicrosecond);
  of.acknowledgements(100, 10 * kMicrosecond);
  Pair& pair = of.pair;
  pair.client->post_send(pair.client_vi, of.memory.data() + kQuestionBytes, kQuestionBytes, of.client_memory, 0);
  pair.wait(100 * kMicrosecond);
  EXPECT_TRUE(pair.client->done(pair.client_vi, false).has_value());
}

}  // namespace
}  // namespace viaduct::sim
