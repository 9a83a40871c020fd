#include "tests/sim/sim_capture.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "kagent/tools/viadump/capture_reader.h"
#include "tests/sim/sim_port.h"
#include "tests/unit/viadump/random_frames.h"

namespace viaduct::dump {
namespace {

constexpr MacAddress kA{2, 0, 0, 0, 0, 1}, kB{2, 0, 0, 0, 0, 2};

class SimCaptureTest : public ::testing::Test {
 protected:
  SimCaptureTest() {
    char name[] = "/tmp/sim_capture_test.XXXXXX";
    folder_ = mkdtemp(name);
    setenv("VIADUCT_SIM_CAPTURE", (folder_ + "/capture").c_str(), 1);
  }
  ~SimCaptureTest() override {
    unsetenv("VIADUCT_SIM_CAPTURE");
    std::filesystem::remove_all(folder_);
  }

  // Sends a frame of 64 bytes.
  static void send(SimNetwork& network, SimPort& from, const MacAddress& to) {
    Frame frame;
    ASSERT_EQ(from.reserve({&frame, 1}), 1u);
    std::memset(frame.data, 0, 64);
    std::memcpy(frame.data, to.data(), to.size());
    frame.length = 64;
    from.submit({&frame, 1});
    from.flush();
    network.advance_to(network.now() + 1'000'000);
  }
  std::vector<Packet> read(std::vector<CapturedInterface>* interfaces = nullptr) {
    const auto entry = *std::filesystem::directory_iterator(folder_);
    std::FILE* const file = std::fopen(entry.path().c_str(), "rb");
    CaptureReader reader(file, "it");
    std::vector<Packet> out;
    for (Packet packet; reader.next(packet);) out.push_back(packet);
    if (interfaces != nullptr) *interfaces = reader.interfaces();
    std::fclose(file);
    return out;
  }

  std::string folder_;
};

TEST_F(SimCaptureTest, HasEveryFrameWithItsFate) {
  SimOptions options;
  options.latency_ns = 5'000;
  SimNetwork network(options, 1);
  SimPort& a = network.add_host(kA, 1500);
  SimPort& b = network.add_host(kB, 1500);
  send(network, a, kB);
  send(network, b, {2, 0, 0, 0, 0, 9});
  network.part(a, b);
  send(network, b, kA);
  std::vector<CapturedInterface> interfaces;
  const auto packets = read(&interfaces);
  ASSERT_EQ(interfaces.size(), 2u);
  EXPECT_EQ(interfaces[1].name, "host 1, 02:00:00:00:00:02");
  ASSERT_EQ(packets.size(), 3u);
  EXPECT_EQ(packets[0].comment, "host 0 to host 1");
  EXPECT_EQ(packets[0].time_ns, options.start_ns + 5'000);
  EXPECT_EQ(packets[0].interface, 1u);
  EXPECT_EQ(packets[0].bytes.size(), 64u);
  EXPECT_EQ(packets[1].comment, "host 1 to nobody, lost: no host has this address");
  EXPECT_EQ(packets[1].interface, 1u);
  EXPECT_EQ(packets[2].comment, "host 1 to host 0, lost: the link is cut, or a host is dead");
}

TEST_F(SimCaptureTest, ChangesNothing) {
  const auto hash = [] {
    SimOptions options;
    options.faults.loss = 0.5;
    SimNetwork network(options, 7);
    SimPort& a = network.add_host(kA, 1500);
    network.add_host(kB, 1500);
    for (int i = 0; i < 20; ++i) send(network, a, kB);
    return network.trace_hash();
  };
  const std::uint64_t with = hash();
  EXPECT_EQ(read().size(), 20u);
  unsetenv("VIADUCT_SIM_CAPTURE");
  EXPECT_EQ(hash(), with);
}

}  // namespace
}  // namespace viaduct::dump
