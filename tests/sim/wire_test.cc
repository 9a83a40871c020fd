// Damaged frames, and frames of strangers on the wire: none may reach a program.
#include <cstdlib>
#include <set>

#include "tests/sim/link_flows.h"

namespace viaduct::sim {
namespace {

// ---------------------------------------------------------------------------- changed frames

// A stream over a link that changes frames, everything looked at; whether all was right.
struct Changed {
  bool right;
  std::uint32_t received;
  std::uint64_t dropped;
};

Changed stream_over(const SimFaults& faults, bool checksum, std::uint64_t seed) {
  ManyToOne net(1, SimOptions{}, seed, checksum);
  Flow& flow = *net.flows[0];
  flow.stride = 1;
  EXPECT_TRUE(net.connect());
  net.network.set_faults(faults);
  const std::uint64_t end = net.network.now() + 10 * kSecond;
  run(net.network, net.all, [&] { return flow.step(); },
      [&] { return flow.received >= 60 || flow.failed || !flow.right; }, end);
  EXPECT_GT(net.network.counters().corrupted, 0u);
  return {flow.right && !flow.failed, flow.received,
          net.receiver->stack->counters().drop_checksum +
              net.hosts[0]->stack->counters().drop_checksum};
}

TEST(Wire, ChangedFramesAreNotedAndSentAgain) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimFaults faults;
    faults.corruption = 0.05;
    faults.corrupt_bits = seed % 4 == 0 ? 40 : static_cast<std::uint32_t>(seed % 4);
    faults.loss = 0.01;
    const Changed seen = stream_over(faults, true, seed);
    EXPECT_TRUE(seen.right) << "seed " << seed;
    EXPECT_GE(seen.received, 60u) << "seed " << seed;
    EXPECT_GT(seen.dropped, 0u) << "seed " << seed;
  }
}

// That is the checksum's doing, and this test would see it if there were none.
TEST(Wire, WithoutChecksumsWrongBytesWouldBeDelivered) {
  SimFaults faults;
  faults.corruption = 0.05;
  faults.corrupt_from = wire::kEthernetBytes + wire::kHeaderBytes + 8;
  const Changed seen = stream_over(faults, false, 1);
  EXPECT_FALSE(seen.right);
}

TEST(Wire, ChangedFramesOfAnUnreliableConnectionAreLostAndNothingElse) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Pair pair(seed, vip::kUnreliable);
    ASSERT_TRUE(pair.connect());
    SimFaults faults;
    faults.corruption = 0.1;
    pair.network.set_faults(faults);
    constexpr std::uint32_t kSize = 4000, kMessages = 100;
    std::vector<std::byte> out(kSize * kMessages), in(kSize * kMessages);
    const std::uint32_t out_handle = pair.client->register_memory(out.data(), out.size());
    const std::uint32_t in_handle = pair.server->register_memory(in.data(), in.size());
    std::int64_t last = -1;
    unsigned received = 0;
    for (unsigned m = 0; m < kMessages; ++m) {
      for (std::uint32_t i = 0; i < kSize; ++i) out[m * kSize + i] = pattern(m, i);
      pair.server->post_receive(pair.server_vi, &in[m * kSize], kSize, in_handle, m);
    }
    for (unsigned m = 0; m < kMessages; ++m) {
      pair.client->post_send(pair.client_vi, &out[m * kSize], kSize, out_handle, m, m);
      pair.wait(100'000);
      while (const auto done = pair.server->done(pair.server_vi, true)) {
        EXPECT_EQ(done->status & vip::kErrorMask, 0u);
        EXPECT_GT(std::int64_t{done->immediate}, last);
        last = done->immediate;
        bool right = done->length == kSize;
        for (std::uint32_t i = 0; i < kSize; ++i) {
          right &= in[done->tag * kSize + i] == pattern(done->immediate, i);
        }
        EXPECT_TRUE(right) << "seed " << seed << " message " << done->immediate;
        ++received;
      }
      pair.client->done(pair.client_vi, false);
    }
    EXPECT_GT(received, kMessages / 3);
    EXPECT_GT(pair.b.stack->counters().drop_checksum, 0u);
  }
}

// ---------------------------------------------------------------------------- senders of checksums

TEST(Wire, DataHasChecksumsIfEitherSideAsks) {
  for (unsigned who = 0; who < 4; ++who) {
    SimNetwork network(SimOptions{}, 1);
    StackLimits a_limits = small_limits(), b_limits = small_limits();
    a_limits.checksum = (who & 1) != 0;
    b_limits.checksum = (who & 2) != 0;
    Host a(network, 1, a_limits, 1), b(network, 2, b_limits, 1);
    Host* hosts[] = {&a, &b};
    Program client(a), server(b);
    const std::uint32_t client_vi = client.create_vi(vip::kReliableDelivery);
    const std::uint32_t server_vi = server.create_vi(vip::kReliableDelivery);
    ASSERT_TRUE(connect(network, hosts, client, client_vi, server, server_vi, b.port.address()));
    std::set<bool> checked;
    network.set_filter([&](const SimPort&, std::span<std::byte> frame) {
      wire::Decoded d;
      EXPECT_EQ(wire::decode(frame, d), wire::Malformed::kNone);
      if (d.header.type == wire::Type::kData) checked.insert(d.header.flags & wire::kFlagChecked);
      return true;
    });
    std::byte out[3000] = {}, in[3000];
    const std::uint32_t out_handle = client.register_memory(out, sizeof out);
    const std::uint32_t in_handle = server.register_memory(in, sizeof in);
    for (const std::uint32_t length : {4u, 4u, 4u, 3000u}) {
      server.post_receive(server_vi, in, sizeof in, in_handle);
      client.post_send(client_vi, out, length, out_handle);
    }
    run(network, hosts, {}, [] { return false; }, network.now() + 10 * kMillisecond);
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(server.done(server_vi, true).has_value());
    EXPECT_EQ(checked, std::set<bool>{who != 0}) << who;
  }
}

// ---------------------------------------------------------------------------- strangers

// A pair that watches its data frames, and passes them on.
struct Watched : Pair {
  explicit Watched(std::uint16_t level = vip::kReliableDelivery) : Pair(1, level) {
    EXPECT_TRUE(connect());
    out_handle = client->register_memory(out, sizeof out);
    in_handle = server->register_memory(in, sizeof in);
    network.set_filter([this](const SimPort&, std::span<std::byte> frame) {
      wire::Decoded d;
      if (wire::decode(frame, d) == wire::Malformed::kNone && d.header.type == wire::Type::kData) {
        seen.assign(frame.begin(), frame.end());
      }
      return true;
    });
    exchange();
  }

  // One more message goes through, whole.
  void exchange() {
    for (std::size_t at = 0; at < sizeof out; ++at) out[at] = pattern(number, at);
    server->post_receive(server_vi, in, sizeof in, in_handle);
    client->post_send(client_vi, out, sizeof out, out_handle, number, number);
    wait(5 * kMillisecond);
    const auto sent = client->done(client_vi, false), got = server->done(server_vi, true);
    ASSERT_TRUE(sent && got);
    EXPECT_EQ(got->status & vip::kErrorMask, 0u);
    EXPECT_EQ(got->immediate, number);
    EXPECT_EQ(std::memcmp(in, out, sizeof in), 0);
    ++number;
  }

  void inject(std::vector<std::byte> frame, bool sealed = true) {
    if (sealed) wire::seal(frame);
    network.inject(b.port, frame);
    wait(kMillisecond);
  }

  const StackCounters& count() const { return b.stack->counters(); }

  std::vector<std::byte> seen;  // the last data frame
  std::byte out[1000], in[1000];
  std::uint32_t out_handle = 0, in_handle = 0, number = 0;
};

constexpr std::size_t kKeyAt = wire::kEthernetBytes + 8;
constexpr std::size_t kPsnAt = wire::kEthernetBytes + 16;
constexpr std::size_t kAckAt = wire::kEthernetBytes + 20;
constexpr std::size_t kLengthAt = wire::kEthernetBytes + 36;

TEST(Strangers, FrameWithAnotherKeyIsDropped) {
  Watched pair;
  for (unsigned bit = 0; bit < 64; ++bit) {
    std::vector<std::byte> frame = pair.seen;
    frame[kKeyAt + bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    wire::store32(&frame[kPsnAt], wire::load32(&frame[kPsnAt]) + 1);
    pair.inject(frame);
  }
  EXPECT_EQ(pair.count().drop_wrong_key, 64u);
  pair.exchange();
}

TEST(Strangers, FrameFromAnotherAddressIsDropped) {
  Watched pair;
  std::vector<std::byte> frame = pair.seen;
  frame[11] ^= std::byte{0x40};
  wire::store32(&frame[kPsnAt], wire::load32(&frame[kPsnAt]) + 1);
  pair.inject(frame);
  EXPECT_EQ(pair.count().drop_wrong_source, 1u);
  pair.exchange();
}

TEST(Strangers, FrameWithAnOldNumberIsDropped) {
  Watched pair;
  pair.inject(pair.seen);
  EXPECT_EQ(pair.count().drop_duplicate, 1u);
  std::vector<std::byte> frame = pair.seen;
  wire::store32(&frame[kPsnAt], wire::load32(&frame[kPsnAt]) - 0x7000'0000);
  pair.inject(frame);
  EXPECT_EQ(pair.count().drop_duplicate, 2u);
  wire::store32(&frame[kPsnAt], wire::load32(&pair.seen[kPsnAt]) + 1 + state::kWindow);
  pair.inject(frame);
  EXPECT_EQ(pair.count().drop_window, 1u);
  pair.exchange();
}

TEST(Strangers, FrameWithAnOldNumberIsDroppedOnUnreliableDeliveryToo) {
  Watched pair(vip::kUnreliable);
  pair.inject(pair.seen);
  EXPECT_EQ(pair.count().drop_out_of_sequence, 1u);
  pair.exchange();
}

TEST(Strangers, FrameWithAnImpossibleLengthIsDropped) {
  Watched pair;
  std::uint64_t expected = 0;
  for (const unsigned length : {0xffffu, 1461u, 1001u, 1005u}) {  // 1000 is right
    std::vector<std::byte> frame = pair.seen;
    wire::store16(&frame[kLengthAt], static_cast<std::uint16_t>(length));
    pair.inject(frame);
    EXPECT_EQ(pair.count().drop_length, ++expected) << length;
  }
  pair.exchange();
}

TEST(Strangers, AcknowledgementOfWhatWasNeverSentIsDropped) {
  Watched pair;
  std::vector<std::byte> frame = pair.seen;
  wire::store32(&frame[kAckAt], wire::load32(&frame[kAckAt]) + 1000);
  pair.inject(frame);
  EXPECT_EQ(pair.count().drop_bad_ack, 1u);
  pair.exchange();
}

TEST(Strangers, DataWithoutItsChecksumIsDropped) {
  Watched pair;
  std::vector<std::byte> frame = pair.seen;
  frame[wire::kEthernetBytes + 3] &= ~std::byte{wire::kFlagChecked};
  wire::store32(&frame[kPsnAt], wire::load32(&frame[kPsnAt]) + 1);
  pair.inject(frame, false);
  EXPECT_EQ(pair.count().drop_checksum, 1u);
  pair.exchange();
}

// ---------------------------------------------------------------------------- frames from the past

// A stack that knows nothing in the place of a host's own, whose programs are gone.
class Restarted {
 public:
  explicit Restarted(Host& host) : host_(host), memory_(Stack::footprint(host.limits) + 64) {
    auto* segment = reinterpret_cast<void*>(
        (reinterpret_cast<std::uintptr_t>(memory_.data()) + 63) & ~std::uintptr_t{63});
    old_ = std::move(host.stack);
    old_programs_ = std::exchange(host.programs, {});
    const StackAddresses addresses{host.port.address(), host.port.address()};
    host.stack = std::make_unique<Stack>(segment, host.limits, wire::kDefaultEtherType, host.port,
                                         host, addresses, host.network.now());
  }
  ~Restarted() {
    host_.stack = std::move(old_);
    host_.programs = old_programs_;
  }

 private:
  Host& host_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Stack> old_;
  std::vector<Program*> old_programs_;
};

// All frames of a connection's life come again: while the next one is there, after both hosts have restarted, and
// after one has. Present work is not disturbed, and nothing is left of them.
TEST(Past, FramesFromBeforeARestartDoNoHarm) {
  for (unsigned restarted = 0; restarted < 4; ++restarted) {
    SCOPED_TRACE(restarted);
    Pair pair;
    std::vector<std::pair<bool, std::vector<std::byte>>> past;
    pair.network.set_filter([&](const SimPort& from, std::span<std::byte> frame) {
      past.emplace_back(&from == &pair.a.port,
                        std::vector<std::byte>(frame.begin(), frame.end()));
      return true;
    });
    ASSERT_TRUE(pair.connect());
    std::byte data[2000] = {};
    const std::uint32_t out = pair.client->register_memory(data, sizeof data);
    const std::uint32_t in = pair.server->register_memory(data, sizeof data);
    for (int i = 0; i < 5; ++i) {
      pair.server->post_receive(pair.server_vi, data, sizeof data, in);
      pair.client->post_send(pair.client_vi, data, sizeof data, out);
    }
    pair.wait(10 * kMillisecond);
    pair.client.reset();
    pair.server.reset();
    pair.wait(5 * kSecond);
    ASSERT_GT(past.size(), 15u);
    const auto again = past;
    pair.network.set_filter({});

    std::optional<Restarted> a, b;
    if (restarted & 1) a.emplace(pair.a);
    if (restarted & 2) b.emplace(pair.b);
    {
      Flow flow(pair.a, pair.b, 7);
      ASSERT_TRUE(connect(pair.network, pair.hosts, flow.sender, flow.sender_vi, flow.receiver,
                          flow.receiver_vi, pair.b.port.address()));
      // A program that waits for the same discriminator may be given the old request; it comes to nothing.
      std::size_t next = 0;
      const auto logic = [&] {
        if (flow.received > next * 2 && next < again.size()) {
          pair.network.inject(again[next].first ? pair.b.port : pair.a.port, again[next].second);
          ++next;
        }
        return flow.step();
      };
      const std::uint64_t end = pair.network.now() + 20 * kSecond;
      EXPECT_TRUE(run(pair.network, pair.hosts, logic,
                      [&] { return next == again.size() && flow.received > 2 * next + 10; }, end));
      EXPECT_TRUE(flow.right);
      EXPECT_FALSE(flow.failed);
      EXPECT_EQ(flow.sender.state(flow.sender_vi), vip::kConnected);
      EXPECT_EQ(flow.receiver.state(flow.receiver_vi), vip::kConnected);
      EXPECT_EQ(pair.a.stack->usage().connected, 1u);
      EXPECT_EQ(pair.b.stack->usage().connected, 1u);
      EXPECT_EQ(pair.a.stack->counters().connections_lost, 0u);
      EXPECT_EQ(pair.b.stack->counters().connections_lost, 0u);
    }
    pair.wait(8 * kSecond);
    expect_nothing_left(pair.a);
    expect_nothing_left(pair.b);
  }
}

// A program that waits is given the request of a requester that is no more, accepts it, and learns that the requester
// is gone; its VI is as it was.
TEST(Past, AcceptedRequestFromBeforeARestartEndsInATimeout) {
  Pair pair;
  std::vector<std::byte> request;
  pair.network.set_filter([&](const SimPort&, std::span<std::byte> frame) {
    wire::Decoded d;
    if (wire::decode(frame, d) == wire::Malformed::kNone &&
        d.header.type == wire::Type::kConnectRequest) {
      request.assign(frame.begin(), frame.end());
    }
    return true;
  });
  ASSERT_TRUE(pair.connect());
  pair.network.set_filter({});
  pair.client.reset();
  pair.wait(4 * kSecond);
  Restarted a(pair.a), b(pair.b);
  Program server(pair.b);
  const std::uint32_t vi = server.create_vi(vip::kReliableDelivery);
  std::optional<std::uint32_t> accepted;
  layout::CommandBody wait{};
  wait.op = layout::Op::kConnectWait;
  wait.timeout_ms = 1000;
  wait.local.discriminator_length = 4;
  const std::uint32_t discriminator = 7;
  std::memcpy(wait.local.discriminator, &discriminator, 4);
  server.command(wait, [&](const layout::CommandBody& body) {
    ASSERT_EQ(body.result, vip::kSuccess);
    layout::CommandBody accept{};
    accept.op = layout::Op::kConnectAccept;
    accept.handle = body.handle;
    accept.vi = vi;
    server.command(accept, [&](const layout::CommandBody& b) { accepted = b.result; });
  });
  pair.wait(kMillisecond);
  ASSERT_TRUE(pair.network.inject(pair.b.port, request));
  pair.wait(100 * kMillisecond);
  EXPECT_EQ(accepted, std::uint32_t{vip::kTimeout});
  EXPECT_EQ(server.state(vi), vip::kIdle);
  EXPECT_EQ(pair.b.stack->usage().connected, 0u);
}

// ---------------------------------------------------------------------------- floods

// Requests as fast as they come, from anywhere, for discriminators without a waiter: a genuine requester gets its
// connection, and afterwards all is as before.
TEST(Flood, OfRequestsKeepsNobodyOut) {
  for (const bool waiting : {true, false}) {
    SCOPED_TRACE(waiting);
    Pair pair;
    SimRandom random(1);
    std::uint64_t last = 0, sent = 0;
    bool flooding = true;
    const auto flood = [&] {
      // Half a million in a second.
      if (!flooding || pair.network.now() < last + 2'000) return false;
      last = pair.network.now();
      std::byte frame[300];
      wire::ConnectBody body{};
      body.request = static_cast<std::uint32_t>(random.next());
      body.key = random.next() << 16;
      body.reliability = vip::kReliableDelivery;
      body.remote_length = 4;
      wire::store32(body.remote.data(), static_cast<std::uint32_t>(random.below(1000)) + 1000);
      wire::Header header{};
      header.type = wire::Type::kConnectRequest;
      header.vi = 0xffffffff;
      header.payload_length = static_cast<std::uint16_t>(
          wire::encode(body, frame + wire::kEthernetBytes + wire::kHeaderBytes));
      MacAddress from{0x02, 1, 0, 0, 0, 0};
      wire::store32(reinterpret_cast<std::byte*>(from.data()) + 2,
                    static_cast<std::uint32_t>(random.next()));
      const std::size_t length =
          wire::encode(header, pair.b.port.address(), from, wire::kDefaultEtherType, frame);
      pair.network.inject(pair.b.port, {frame, length});
      ++sent;
      return true;
    };
    const auto until = [&](std::uint64_t ns, const std::function<bool()>& finished) {
      const std::uint64_t end = pair.network.now() + ns;
      while (!finished() && pair.network.now() < end) {
        const std::uint64_t step = std::min(end, pair.network.now() + 2'000);
        run(pair.network, pair.hosts, flood, finished, step);
        pair.network.advance_to(step);
      }
      return finished();
    };
    until(5 * kMillisecond, [] { return false; });
    EXPECT_LE(pair.b.stack->usage().requests, pair.b.limits.requests / 4);

    std::optional<std::uint32_t> asked, accepted;
    layout::CommandBody wait{};
    wait.op = layout::Op::kConnectWait;
    wait.timeout_ms = 5'000;
    wait.local.discriminator_length = 1;
    wait.local.discriminator[0] = 9;
    const auto serve = [&] {
      pair.server->command(wait, [&](const layout::CommandBody& body) {
        accepted = body.result;
        if (body.result != vip::kSuccess) return;
        layout::CommandBody accept{};
        accept.op = layout::Op::kConnectAccept;
        accept.handle = body.handle;
        accept.vi = pair.server_vi;
        pair.server->command(accept, [&](const layout::CommandBody& b) { accepted = b.result; });
      });
    };
    if (waiting) serve();
    until(kMillisecond, [] { return false; });
    layout::CommandBody request{};
    request.op = layout::Op::kConnectRequest;
    request.vi = pair.client_vi;
    request.timeout_ms = 5'000;
    std::memcpy(request.remote.host, pair.b.port.address().data(), 6);
    request.remote.discriminator_length = 1;
    request.remote.discriminator[0] = 9;
    pair.client->command(request, [&](const layout::CommandBody& body) { asked = body.result; });
    until(20 * kMillisecond, [] { return false; });
    if (!waiting) serve();
    EXPECT_TRUE(until(2 * kSecond, [&] { return asked.has_value(); }));
    EXPECT_EQ(asked, std::uint32_t{vip::kSuccess});
    EXPECT_EQ(pair.client->state(pair.client_vi), vip::kConnected);
    EXPECT_GT(pair.b.stack->counters().proofs_asked, 1000u);
    flooding = false;
    pair.wait(5 * kSecond);
    EXPECT_EQ(pair.b.stack->usage().requests, 0u);
  }
}

}  // namespace
}  // namespace viaduct::sim
