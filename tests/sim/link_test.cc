// The share of a link's bandwidth that remains when it loses frames, when many share it, and when the last frame of a
// message is lost. Time is virtual, so every figure is the same in every run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/sim/link_flows.h"

namespace viaduct::sim {
namespace {

struct Link {
  std::uint64_t bits_per_second;
  std::uint64_t latency_ns;
  const char* name;
};

constexpr std::uint64_t kGigabit = 1'000'000'000;
constexpr Link kLinks[] = {{1 * kGigabit, 5'000, "1 Gb/s, 5 us"},
                           {1 * kGigabit, 50'000, "1 Gb/s, 50 us"},
                           {10 * kGigabit, 5'000, "10 Gb/s, 5 us"},
                           {10 * kGigabit, 50'000, "10 Gb/s, 50 us"}};

std::uint64_t first_seed() {
  const char* asked = std::getenv("VIADUCT_SEED");
  return asked ? std::strtoull(asked, nullptr, 10) : 1;
}

SimOptions over(const Link& link) {
  SimOptions options;
  options.bits_per_second = link.bits_per_second;
  options.latency_ns = link.latency_ns;
  options.queue_frames = 128;
  options.receive_frames = 4096;
  options.receive_queue = 2048;
  return options;
}

// The time that so many full frames take, in ns.
std::uint64_t frames_in(const Link& link, std::uint64_t frames) {
  return frames * 1538 * 8 * 1'000'000'000 / link.bits_per_second;
}

double bandwidth(const Link& link, double loss) {
  ManyToOne net(1, over(link), first_seed());
  EXPECT_TRUE(net.connect());
  SimFaults faults;
  faults.loss = loss;
  net.network.set_faults(faults);
  net.go(frames_in(link, 2'000));
  const std::uint64_t ns = frames_in(link, 30'000);
  return static_cast<double>(sum(net.go(ns))) / capacity(link.bits_per_second, ns);
}

TEST(Link, LossLeavesMostOfTheBandwidth) {
  for (const Link& link : kLinks) {
    const double whole = bandwidth(link, 0);
    const double one = bandwidth(link, 0.01);
    const double ten = bandwidth(link, 0.10);
    std::printf("%s: %.3f of the link without loss; of that %.3f with 1 %%, %.3f with 10 %%\n",
                link.name, whole, one / whole, ten / whole);
    EXPECT_GE(whole, 0.95);
    EXPECT_GE(one, 0.95 * whole);
    EXPECT_GE(ten, 0.70 * whole);
  }
}

struct Shared {
  double used, fairness;
};

Shared share(ManyToOne& net, const Link& link, std::uint64_t frames) {
  const std::uint64_t ns = frames_in(link, frames);
  const std::vector<std::uint64_t> delivered = net.go(ns);
  return {static_cast<double>(sum(delivered)) / capacity(link.bits_per_second, ns),
          jain(delivered)};
}

void print(const char* what, const Link& link, const Shared& shared, ManyToOne& net) {
  std::uint64_t sent = 0, again = 0, timeouts = 0;
  for (const auto& host : net.hosts) {
    sent += host->stack->counters().data_frames_sent;
    again += host->stack->counters().retransmissions;
    timeouts += host->stack->counters().retransmission_timeouts;
  }
  std::printf("%s, %s: %.3f of the link, Jain %.3f, %.3f of the frames sent again, %llu timeouts\n",
              what, link.name, shared.used, shared.fairness,
              static_cast<double>(again) / static_cast<double>(sent),
              static_cast<unsigned long long>(timeouts));
}

// With `jitter_ns` the senders do not stay in step.
Shared many(unsigned senders, const Link& link, std::uint64_t frames, std::uint64_t jitter_ns, std::uint64_t run = 0) {
  SimOptions options = over(link);
  options.faults.jitter_ns = jitter_ns;
  ManyToOne net(senders, options, first_seed() + run);
  EXPECT_TRUE(net.connect());
  net.go(frames_in(link, frames / 6));
  const Shared shared = share(net, link, frames);
  EXPECT_GT(net.network.counters().lost_queue_full, 0u);
  print((std::to_string(senders) + " to one").c_str(), link, shared, net);
  return shared;
}

TEST(Link, EightSendersShareAPortThatDropsWhenItsQueueIsFull) {
  for (const Link& link : kLinks) {
    for (const std::uint64_t jitter : {0u, 1'000u}) {
      const Shared shared = many(8, link, 60'000, jitter);
      EXPECT_GE(shared.used, 0.90);
      EXPECT_GE(shared.fairness, 0.95);
    }
  }
}

// Which sender gets little is a matter of chance in one run.
TEST(Link, ManySendersDoNotCollapse) {
  constexpr unsigned kRuns = 3;
  for (const Link& link : kLinks) {
    double fairness = 0;
    for (unsigned run = 0; run < kRuns; ++run) {
      const Shared shared = many(48, link, 20'000, 1'000, run);
      EXPECT_GE(shared.used, 0.90);
      fairness += shared.fairness / kRuns;
    }
    EXPECT_GE(fairness, 0.50);
  }
}

// Late senders get their share from the earlier ones, as a rule: one of 20 takes the narrow windows of the others for a
// long network, and has nearly all for half a second.
TEST(Link, LateSendersGetTheirShare) {
  constexpr unsigned kRuns = 5;
  for (const Link& link : kLinks) {
    double fairness = 0;
    for (unsigned run = 0; run < kRuns; ++run) {
      ManyToOne net(4, over(link), first_seed() + run);
      ASSERT_TRUE(net.connect());
      for (const auto& flow : net.flows) flow->going = false;
      for (const auto& flow : net.flows) {
        flow->going = true;
        net.go(frames_in(link, 5'000));
      }
      net.go(frames_in(link, 10'000));
      const Shared shared = share(net, link, 40'000);
      print("late ones", link, shared, net);
      fairness += shared.fairness / kRuns;
    }
    EXPECT_GE(fairness, 0.85);
  }
}

// A stream, and what small messages of another connection of the same hosts take beside it.
struct Beside {
  double used;
  std::uint64_t median_ns;
  double frames_for_ack;
};

Beside beside_a_stream(const Link& link, std::uint32_t queue_frames) {
  SimOptions options = over(link);
  options.queue_frames = queue_frames;
  ManyToOne net(1, options, first_seed());
  EXPECT_TRUE(net.connect());
  Program& client = net.flows[0]->sender;
  Program& server = net.flows[0]->receiver;
  const std::uint32_t client_vi = client.create_vi(vip::kReliableDelivery), server_vi = server.create_vi(vip::kReliableDelivery);
  EXPECT_TRUE(sim::connect(net.network, net.all, client, client_vi, server, server_vi, net.receiver->port.address(), 99));
  std::byte out[4] = {}, in[4];
  const std::uint32_t out_handle = client.register_memory(out, sizeof out), in_handle = server.register_memory(in, sizeof in);
  net.go(frames_in(link, 10'000));
  const std::uint64_t begin = net.network.now(), bytes = net.flows[0]->bytes;
  const StackCounters before = net.receiver->stack->counters();
  std::vector<std::uint64_t> times;
  for (int i = 0; i < 101; ++i) {
    server.post_receive(server_vi, in, sizeof in, in_handle);
    client.post_send(client_vi, out, sizeof out, out_handle);
    const std::uint64_t sent_at = net.network.now();
    const auto logic = [&] {
      if (server.done(server_vi, true)) times.push_back(net.network.now() - sent_at);
      return net.flows[0]->step();
    };
    run(net.network, net.all, logic, [&] { return times.size() > static_cast<std::size_t>(i); }, sent_at + kSecond);
    EXPECT_EQ(times.size(), i + 1u);
    net.go(frames_in(link, 20) + i * 1'000);
    EXPECT_TRUE(client.done(client_vi, false).has_value());
  }
  const std::uint64_t ns = net.network.now() - begin;
  std::sort(times.begin(), times.end());
  const StackCounters& now = net.receiver->stack->counters();
  return {static_cast<double>(net.flows[0]->bytes - bytes) / capacity(link.bits_per_second, ns), times[times.size() / 2],
          static_cast<double>(now.data_frames_received - before.data_frames_received) /
              static_cast<double>(now.acks_sent - before.acks_sent)};
}

// A window of 256 frames would have them wait for 3 ms. Few acknowledgements are needed for a
// queue that short.
TEST(Link, AStreamKeepsTheQueueShort) {
  for (const Link& link : {kLinks[0], kLinks[1]}) {
    const Beside found = beside_a_stream(link, 1'000);
    std::printf("beside a stream, %s: %.3f of the link, a small message takes %llu us, %.1f frames for an acknowledgement\n",
                link.name, found.used, static_cast<unsigned long long>(found.median_ns / 1'000), found.frames_for_ack);
    EXPECT_GE(found.used, 0.98);
    EXPECT_LE(found.median_ns, 600'000u);
    EXPECT_GE(found.frames_for_ack, 6);
  }
}

// Round trips that are long whatever the window is are no queue: the window stays wide but for rare trials.
TEST(Link, ALongPathIsNoQueue) {
  const Link far = {10 * kGigabit, 2'000'000, "10 Gb/s, 2 ms"};
  SimOptions options = over(far);
  options.queue_frames = 1'000;
  ManyToOne net(1, options, first_seed());
  ASSERT_TRUE(net.connect());
  net.go(2 * kSecond);
  const std::uint64_t ns = 4 * kSecond;
  const double frames = static_cast<double>(sum(net.go(ns))) / kFlowMessage * 23;
  const double windows = static_cast<double>(ns) / (2.0 * static_cast<double>(far.latency_ns));
  std::printf("%s: %.1f frames in a round trip\n", far.name, frames / windows);
  EXPECT_GE(frames / windows, 0.85 * state::kWindow);
}

// How long a message takes until its sender knows, if its last frame is lost or not.
std::uint64_t time_of_message(std::uint64_t latency_ns, std::uint32_t size, unsigned before,
                              bool lose) {
  SimOptions options;
  options.latency_ns = latency_ns;
  options.bits_per_second = 10 * kGigabit;
  Pair pair(1, vip::kReliableDelivery, options);
  EXPECT_TRUE(pair.connect());
  std::vector<std::byte> out(size), in(size);
  const std::uint32_t out_handle = pair.client->register_memory(out.data(), out.size());
  const std::uint32_t in_handle = pair.server->register_memory(in.data(), in.size());
  std::uint64_t took = 0;
  for (unsigned m = 0; m <= before; ++m) {
    bool lost = !(lose && m == before);
    pair.network.set_filter([&lost](const SimPort&, std::span<std::byte> frame) {
      wire::Decoded decoded;
      if (lost || wire::decode(frame, decoded) != wire::Malformed::kNone) return true;
      const bool last = decoded.header.type == wire::Type::kData &&
                        (decoded.header.flags & wire::kFlagLast) != 0;
      lost = last;
      return !last;
    });
    pair.server->post_receive(pair.server_vi, in.data(), size, in_handle);
    pair.client->post_send(pair.client_vi, out.data(), size, out_handle);
    const std::uint64_t begin = pair.network.now();
    bool sent = false;
    EXPECT_TRUE(run(pair.network, pair.hosts, [&] {
      const auto done = pair.client->done(pair.client_vi, false);
      sent |= done.has_value();
      pair.server->done(pair.server_vi, true);
      return done.has_value();
    }, [&] { return sent; }, begin + 10 * kSecond));
    took = pair.network.now() - begin;
    EXPECT_TRUE(lost);
    pair.network.set_filter({});
    pair.wait(10 * kMillisecond);
  }
  return took;
}

TEST(Link, LostLastFrameCostsLittle) {
  for (const unsigned latency : {1'000u, 20'000u, 60'000u, 150'000u, 1'000'000u, 10'000'000u}) {
    const std::uint64_t round_trip = 2ull * latency;
    for (const std::uint32_t size : {4u, 1'000u, 32u * 1024u}) {
      for (const unsigned before : {0u, 1u, 20u}) {
        const std::uint64_t without = time_of_message(latency, size, before, false);
        const std::uint64_t with = time_of_message(latency, size, before, true);
        const std::uint64_t cost = with - std::min(without, with);
        std::printf("round trip %llu us, %u bytes, message %u: %llu us without, %llu more\n",
                    static_cast<unsigned long long>(round_trip / 1000), size, before + 1,
                    static_cast<unsigned long long>(without / 1000),
                    static_cast<unsigned long long>(cost / 1000));
        EXPECT_LT(cost, std::max<std::uint64_t>(4 * round_trip, kMillisecond));
      }
    }
  }
}

// Before the round trip is known the sender asks too early, but it learns.
TEST(Link, LongRoundTripsAreLearntAtOnce) {
  SimOptions options;
  options.latency_ns = 10'000'000;
  Pair pair(1, vip::kReliableDelivery, options);
  ASSERT_TRUE(pair.connect());
  std::byte out[100] = {}, in[100];
  const std::uint32_t out_handle = pair.client->register_memory(out, sizeof out);
  const std::uint32_t in_handle = pair.server->register_memory(in, sizeof in);
  std::uint64_t first = 0;
  for (int i = 0; i < 10; ++i) {
    pair.server->post_receive(pair.server_vi, in, sizeof in, in_handle);
    pair.client->post_send(pair.client_vi, out, sizeof out, out_handle);
    pair.wait(50 * kMillisecond);
    ASSERT_TRUE(pair.client->done(pair.client_vi, false).has_value());
    ASSERT_TRUE(pair.server->done(pair.server_vi, true).has_value());
    if (i == 0) first = pair.a.stack->counters().retransmissions;
  }
  EXPECT_LE(first, 4u);
  EXPECT_EQ(pair.a.stack->counters().retransmissions, first);
}

// A window that losses have made small is as at the beginning after a while of silence.
std::uint64_t time_after(std::uint64_t silence, std::uint64_t latency_ns) {
  SimOptions options;
  options.latency_ns = latency_ns;
  Pair pair(1, vip::kReliableDelivery, options);
  EXPECT_TRUE(pair.connect());
  std::vector<std::byte> out(kFlowMessage), in(kFlowMessage);
  const std::uint32_t out_handle = pair.client->register_memory(out.data(), out.size());
  const std::uint32_t in_handle = pair.server->register_memory(in.data(), in.size());
  const auto exchange = [&] {
    pair.server->post_receive(pair.server_vi, in.data(), kFlowMessage, in_handle);
    pair.client->post_send(pair.client_vi, out.data(), kFlowMessage, out_handle);
    const std::uint64_t begin = pair.network.now();
    bool sent = false;
    EXPECT_TRUE(run(pair.network, pair.hosts, [&] {
      const auto done = pair.client->done(pair.client_vi, false);
      sent |= done.has_value();
      pair.server->done(pair.server_vi, true);
      return done.has_value();
    }, [&] { return sent; }, begin + 10 * kSecond));
    return pair.network.now() - begin;
  };
  exchange();
  const std::uint64_t end = pair.network.now() + 200 * kMillisecond;
  pair.network.set_filter([&](const SimPort&, std::span<std::byte>) { return pair.network.now() >= end; });
  exchange();
  pair.network.set_filter({});
  pair.wait(silence);
  return exchange();
}

TEST(Link, SilenceForgetsLosses) {
  constexpr std::uint64_t kLatency = 100'000;
  const std::uint64_t soon = time_after(kMillisecond, kLatency);
  const std::uint64_t late = time_after(kSecond, kLatency);
  EXPECT_GE(soon, 2 * 2 * kLatency);
  EXPECT_LE(late, 2 * kLatency + 10'000);
}

}  // namespace
}  // namespace viaduct::sim
