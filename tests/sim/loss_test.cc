// The bandwidth that remains for a stream on a link that loses frames, between hosts whose processors are busy
// elsewhere at times, so that round trips differ as they do between real hosts. Time is virtual and all that is random
// has a seed, so every figure is the same in every run.
#include <algorithm>
#include <cstdio>

#include "tests/sim/link_flows.h"

namespace viaduct::sim {
namespace {

constexpr std::uint64_t kMicrosecond = 1'000;
constexpr std::uint64_t kBitsPerSecond = 10'000'000'000;
constexpr std::uint64_t kLatency = 5 * kMicrosecond;

// A processor that takes its time for each round of a host's stack and, now and then, goes away.
class BusyProcessor {
 public:
  BusyProcessor(Host& host, std::uint64_t seed, std::uint64_t away) : host_(host), random_(seed), away_(away) {}

  bool step(std::uint64_t now) {
    if (now < free_at_ || !host_.step()) return false;
    free_at_ = now + random_.below(30 * kMicrosecond);
    if (random_.below(100) == 0) free_at_ += random_.below(200 * kMicrosecond);
    if (away_ != 0 && random_.below(100) == 0) free_at_ += away_;
    return true;
  }

  std::uint64_t next(std::uint64_t now) const {
    return free_at_ > now ? free_at_ : host_.next_deadline();
  }

 private:
  Host& host_;
  SimRandom random_;
  const std::uint64_t away_;  // at times
  std::uint64_t free_at_ = 0;
};

struct Stream {
  double bandwidth = 0;  // part of the link's
  std::uint64_t sent = 0, again = 0, timeouts = 0;
};

Stream stream(const SimFaults& faults, std::uint64_t seed, std::uint64_t away) {
  SimOptions options;
  options.bits_per_second = kBitsPerSecond;
  options.latency_ns = kLatency;
  options.queue_frames = 1024;
  options.receive_frames = 4096;
  options.receive_queue = 2048;
  ManyToOne net(1, options, seed);
  EXPECT_TRUE(net.connect());
  net.network.set_faults(faults);
  BusyProcessor sender(*net.hosts[0], 2 * seed, 0), receiver(*net.receiver, 2 * seed + 1, away);
  Flow& flow = *net.flows[0];
  const auto go = [&](std::uint64_t ns) {
    const std::uint64_t before = flow.bytes;
    for (const std::uint64_t end = net.network.now() + ns; net.network.now() < end;) {
      const std::uint64_t now = net.network.now();
      const bool worked = flow.step();
      if ((sender.step(now) | receiver.step(now)) || worked) continue;
      const std::uint64_t next =
          std::min({sender.next(now), receiver.next(now), net.network.next_event(), end});
      net.network.advance_to(std::max(next, now + 1));
    }
    EXPECT_FALSE(flow.failed);
    EXPECT_TRUE(flow.right);
    return flow.bytes - before;
  };
  constexpr std::uint64_t kTime = 50 * kMillisecond;
  go(5 * kMillisecond);
  Stream result;
  result.bandwidth = static_cast<double>(go(kTime)) / capacity(kBitsPerSecond, kTime);
  const StackCounters& counters = net.hosts[0]->stack->counters();
  result.sent = counters.data_frames_sent;
  result.again = counters.retransmissions;
  result.timeouts = counters.retransmission_timeouts;
  return result;
}

// The mean of some seeds.
Stream streams(const SimFaults& faults, std::uint64_t away = 0) {
  constexpr std::uint64_t kSeeds = 8;
  Stream all;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Stream one = stream(faults, seed, away);
    all.bandwidth += one.bandwidth / kSeeds;
    all.sent += one.sent;
    all.again += one.again;
    all.timeouts += one.timeouts;
  }
  return all;
}

Stream lossy(double loss, double reorder = 0) {
  SimFaults faults;
  faults.loss = loss;
  faults.reordering = reorder;
  faults.reorder_ns = 10 * kMicrosecond;
  const Stream result = streams(faults);
  std::printf("%4.1f %% lost, %4.1f %% reordered: %.3f of the link, %.3f sent again, %llu timeouts\n",
              100 * loss, 100 * reorder, result.bandwidth,
              static_cast<double>(result.again) / static_cast<double>(result.sent),
              static_cast<unsigned long long>(result.timeouts));
  return result;
}

TEST(BusyHosts, LossLeavesMostOfTheBandwidth) {
  const double whole = lossy(0).bandwidth;
  EXPECT_GE(lossy(0.01).bandwidth, 0.95 * whole);
  EXPECT_GE(lossy(0.10).bandwidth, 0.70 * whole);
}

// A receiver whose processor is another's for milliseconds is asked, and gets nothing again that it has.
TEST(BusyHosts, AreAskedBeforeFramesAreSentAgain) {
  const Stream result = streams({}, 3 * kMillisecond);
  EXPECT_GT(result.timeouts, 0u);
  EXPECT_EQ(result.again, 0u);
}

// Frames that were merely late are not taken for lost.
TEST(BusyHosts, ReorderedFramesAreNotSentAgain) {
  const Stream result = lossy(0.01, 0.05);
  EXPECT_LE(static_cast<double>(result.again) / static_cast<double>(result.sent), 0.03);
}

// The mean time of short messages, one after the other, until their sender knows.
std::uint64_t time_of_message(double loss) {
  constexpr std::uint32_t kBytes = 4096;
  constexpr unsigned kMessages = 2'000;
  SimOptions options;
  options.bits_per_second = kBitsPerSecond;
  options.latency_ns = kLatency;
  Pair pair(1, vip::kReliableDelivery, options);
  EXPECT_TRUE(pair.connect());
  SimFaults faults;
  faults.loss = loss;
  pair.network.set_faults(faults);
  std::vector<std::byte> out(kBytes), in(kBytes);
  const std::uint32_t out_handle = pair.client->register_memory(out.data(), kBytes);
  const std::uint32_t in_handle = pair.server->register_memory(in.data(), kBytes);
  const std::uint64_t begin = pair.network.now();
  for (unsigned m = 0; m < kMessages; ++m) {
    pair.server->post_receive(pair.server_vi, in.data(), kBytes, in_handle);
    pair.client->post_send(pair.client_vi, out.data(), kBytes, out_handle);
    bool sent = false;
    const auto look = [&] {
      const bool done = pair.client->done(pair.client_vi, false).has_value();
      pair.server->done(pair.server_vi, true);
      sent |= done;
      return done;
    };
    EXPECT_TRUE(run(pair.network, pair.hosts, look, [&] { return sent; }, begin + 100 * kSecond));
  }
  return (pair.network.now() - begin) / kMessages;
}

// Nothing comes behind the last frame of a message, or its acknowledgement, that would show it lost.
TEST(Loss, EndsOfMessagesCostFewRoundTrips) {
  const std::uint64_t whole = time_of_message(0), lossy = time_of_message(0.10);
  std::printf("a message: %llu ns, %llu ns with 10 %% lost\n",
              static_cast<unsigned long long>(whole), static_cast<unsigned long long>(lossy));
  EXPECT_LE(lossy - whole, 8 * 2 * kLatency);
}

}  // namespace
}  // namespace viaduct::sim
