// Programs that wait for no completion (VipxSetPatient): what they send is acknowledged seldom.
#include <utility>

#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

constexpr std::uint32_t kLoneBytes = 64, kLoneMessages = 200;
constexpr std::uint64_t kUs = 1'000;

// A program that sends messages one by one, and one that takes them.
struct LoneMessages {
  LoneMessages() : memory(kLoneBytes) {
    EXPECT_TRUE(pair.connect());
    client_memory = pair.client->register_memory(memory.data(), memory.size());
    server_memory = pair.server->register_memory(memory.data(), memory.size());
  }

  void set_patient(bool patient) {
    layout::Vi& vi = pair.client->view().vi(pair.client_vi);
    vi.send.patient = patient ? vi.status.generation.load() : 0;
  }
  void send() {
    pair.server->post_receive(pair.server_vi, memory.data(), kLoneBytes, server_memory, 0);
    pair.client->post_send(pair.client_vi, memory.data(), kLoneBytes, client_memory, 0);
  }
  // A message whose first frame is lost.
  void send_lost() {
    pair.network.set_filter([this](const SimPort&, std::span<std::byte>) { return !std::exchange(loses, false); });
    loses = true;
    send();
  }
  // So many, with a pause behind each.
  void send(std::uint32_t count, std::uint64_t pause) {
    for (std::uint32_t i = 0; i < count; ++i) {
      send();
      pair.wait(pause);
      ASSERT_TRUE(pair.server->done(pair.server_vi, true).has_value()) << "message " << i << " has not come at once";
      take_completions();
    }
  }
  void take_completions() {
    while (pair.client->done(pair.client_vi, false)) ++completed;
  }
  std::uint64_t acknowledgements() const { return pair.b.stack->counters().acks_sent; }
  std::uint64_t timeouts() const { return pair.a.stack->counters().retransmission_timeouts; }

  Pair pair;
  std::vector<std::byte> memory;
  std::uint32_t client_memory, server_memory;
  std::uint32_t completed = 0;
  bool loses = false;
};

TEST(Patience, SparesMostAcknowledgements) {
  LoneMessages hurried, patient;
  patient.set_patient(true);
  hurried.send(kLoneMessages, 100 * kUs);
  patient.send(kLoneMessages, 100 * kUs);
  EXPECT_GE(hurried.acknowledgements(), kLoneMessages);
  EXPECT_LE(patient.acknowledgements(), kLoneMessages / 10);
  patient.pair.wait(10 * kMillisecond);
  patient.take_completions();
  EXPECT_EQ(patient.completed, kLoneMessages);
  EXPECT_EQ(patient.timeouts(), 0u) << "the sender has not waited long enough";
}

TEST(Patience, EndsWithTheNextMessageOfAProgramThatWaits) {
  LoneMessages of;
  of.set_patient(true);
  of.send(5, 20 * kUs);
  EXPECT_LE(of.completed, 1u);  // the first one, by what ends the connecting
  of.set_patient(false);
  of.send(1, 20 * kUs);
  EXPECT_EQ(of.completed, 6u);
}

TEST(Patience, OfAViThatWasThereBeforeIsNotThatOfTheNext) {
  LoneMessages of;
  layout::Vi& vi = of.pair.client->view().vi(of.pair.client_vi);
  vi.send.patient = vi.status.generation.load() + 1;
  of.send(1, 20 * kUs);
  EXPECT_EQ(of.completed, 1u);
}

// The message behind a lost one tells of the loss; from then on acknowledgements are asked for.
TEST(Patience, KeepsWhatIsLost) {
  LoneMessages of;
  of.set_patient(true);
  of.send(3, 100 * kUs);
  of.send_lost();
  of.pair.wait(100 * kUs);
  EXPECT_FALSE(of.pair.server->done(of.pair.server_vi, true).has_value());
  of.send();
  of.pair.wait(kMillisecond);
  EXPECT_TRUE(of.pair.server->done(of.pair.server_vi, true).has_value());
  EXPECT_TRUE(of.pair.server->done(of.pair.server_vi, true).has_value());
  of.take_completions();
  EXPECT_EQ(of.completed, 5u);
}

// The last message is lost, and nothing follows.
TEST(Patience, EndsWhenTheAcknowledgementIsDue) {
  LoneMessages of;
  of.set_patient(true);
  of.send(3, 100 * kUs);
  of.send_lost();
  of.pair.wait(20 * kMillisecond);
  EXPECT_TRUE(of.pair.server->done(of.pair.server_vi, true).has_value());
  of.take_completions();
  EXPECT_EQ(of.completed, 4u);
}

// The wait for a message that asks is not as long as that for one before it that did not.
TEST(Patience, DelaysNoLossOfAHurriedMessage) {
  LoneMessages of;
  of.send(20, 100 * kUs);  // the round trip is known
  of.pair.wait(5 * kMillisecond);  // no timer is left
  of.set_patient(true);
  of.send(1, 10 * kUs);
  of.set_patient(false);
  of.send_lost();
  of.pair.wait(3 * kMillisecond);
  EXPECT_TRUE(of.pair.server->done(of.pair.server_vi, true).has_value());
}

}  // namespace
}  // namespace viaduct::sim
