// A simulated port's buffers, and its answer to borrowers that misuse them.
#include <gtest/gtest.h>

#include <vector>

#include "tests/sim/sim_port_fixture.h"

namespace viaduct {
namespace {

TEST(SimPort, CountsWhatIsLent) {
  Pair p;
  send(p.a, p.b, 1);
  p.net.advance_to(p.net.now() + 100000);
  EXPECT_EQ(p.b.outstanding(), 0u);
  Frame received;
  ASSERT_EQ(p.b.receive({&received, 1}), 1u);
  Frame reserved[3];
  ASSERT_EQ(p.b.reserve(reserved), 3u);
  EXPECT_EQ(p.b.lent(), 1u);
  EXPECT_EQ(p.b.reserved(), 3u);
  EXPECT_EQ(p.b.outstanding(), 4u);
  p.b.cancel({reserved, 2});
  reserved[2].length = 60;
  p.b.submit({reserved + 2, 1});
  EXPECT_EQ(p.b.outstanding(), 1u);
  p.b.release({&received, 1});
  EXPECT_EQ(p.b.outstanding(), 0u);
}

TEST(SimPort, LendsRoomForTheMtu) {
  SimNetwork net({.transmit_frames = 5}, 1);
  SimPort& a = net.add_host(mac(1), 9000);
  EXPECT_EQ(a.mtu(), 9000u);
  EXPECT_EQ(a.address(), mac(1));
  EXPECT_EQ(a.mode(), "sim");
  EXPECT_EQ(a.descriptor(), -1);
  Frame frames[8];
  ASSERT_EQ(a.reserve(frames), 5u);
  EXPECT_EQ(a.counters().tx_no_buffer, 1u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(frames[i].length, 9014u);
    std::memset(frames[i].data, 0x11, frames[i].length);
  }
  a.cancel({frames, 5});
}

TEST(SimPort, ReusesBuffersForEver) {
  Pair p({.receive_frames = 3, .receive_queue = 3, .transmit_frames = 2, .lendable = 1});
  EXPECT_EQ(stream(p, 10000), first_numbers(10000));
  EXPECT_EQ(p.a.counters().tx_frames, 10000u);
  EXPECT_EQ(p.a.counters().tx_bytes, 640000u);
  EXPECT_EQ(p.a.counters().tx_kicks, 10000u);
  EXPECT_EQ(p.b.counters().rx_frames, 10000u);
  EXPECT_EQ(p.b.counters().rx_bytes, 640000u);
}

TEST(SimPort, PoisonsBuffersThatComeBack) {
  Pair p;
  Frame frame;
  ASSERT_EQ(p.a.reserve({&frame, 1}), 1u);
  std::byte* const data = frame.data;
  std::memset(data, 0x11, frame.length);
  p.a.cancel({&frame, 1});
  ASSERT_EQ(p.a.reserve({&frame, 1}), 1u);
  ASSERT_EQ(frame.data, data);
  EXPECT_TRUE(
      std::all_of(data, data + frame.length, [](std::byte b) { return b == std::byte{0xdd}; }));
  p.a.cancel({&frame, 1});
}

using SimPortDeathTest = testing::Test;

TEST(SimPortDeathTest, EndsWhenABufferComesBackTwice) {
  Pair p;
  send(p.a, p.b, 1);
  p.net.advance_to(p.net.now() + 100000);
  Frame frame;
  ASSERT_EQ(p.b.receive({&frame, 1}), 1u);
  p.b.release({&frame, 1});
  EXPECT_DEATH(p.b.release({&frame, 1}), "release: received buffer 0 is not lent");
}

TEST(SimPortDeathTest, EndsWhenABufferIsSubmittedAndCancelled) {
  Pair p;
  Frame frame;
  ASSERT_EQ(p.a.reserve({&frame, 1}), 1u);
  frame.length = 60;
  p.a.submit({&frame, 1});
  EXPECT_DEATH(p.a.cancel({&frame, 1}), "cancel: reserved buffer 0 is not lent");
}

TEST(SimPortDeathTest, EndsWhenAnIdIsForeignOrTheMemoryAnother) {
  Pair p;
  Frame frame;
  ASSERT_EQ(p.a.reserve({&frame, 1}), 1u);
  Frame foreign = frame;
  foreign.id = 123456;
  EXPECT_DEATH(p.a.submit({&foreign, 1}), "does not exist");
  EXPECT_DEATH(p.b.submit({&frame, 1}), "is not lent");
  foreign = frame;
  ++foreign.data;
  EXPECT_DEATH(p.a.submit({&foreign, 1}), "other memory");
  p.a.cancel({&frame, 1});
}

TEST(SimPortDeathTest, EndsWhenALengthDoesNotFit) {
  Pair p;
  Frame frame;
  ASSERT_EQ(p.a.reserve({&frame, 1}), 1u);
  frame.length = 1515;
  EXPECT_DEATH(p.a.submit({&frame, 1}), "too long");
  frame.length = 13;
  EXPECT_DEATH(p.a.submit({&frame, 1}), "too short");
  p.a.cancel({&frame, 1});
}

TEST(SimPortDeathTest, EndsWhenTwoHostsHaveOneAddress) {
  SimNetwork net({}, 1);
  net.add_host(mac(1), 1500);
  EXPECT_DEATH(net.add_host(mac(1), 1500), "address in use");
}

#ifdef __SANITIZE_ADDRESS__
TEST(SimPortDeathTest, ReportsUseAfterReleaseAndBehindTheFrame) {
  Pair p;
  send(p.a, p.b, 1, 64);
  p.net.advance_to(p.net.now() + 100000);
  Frame frame;
  ASSERT_EQ(p.b.receive({&frame, 1}), 1u);
  volatile std::byte* const data = frame.data;
  EXPECT_DEATH((void)data[64], "use-after-poison");
  p.b.release({&frame, 1});
  EXPECT_DEATH((void)data[0], "use-after-poison");
}
#endif

}  // namespace
}  // namespace viaduct
