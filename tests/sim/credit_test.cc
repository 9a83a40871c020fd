// Unreliable Delivery is paced by credit: a full port loses no frames that the network has not lost, and lost credit
// costs time only.
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

constexpr std::uint32_t kLong = 64u << 10;  // bytes of a message, 46 frames
constexpr unsigned kPosted = 128;

// As a granted program's port: room for fewer frames than a message of 1 MiB has.
SimOptions small_port() {
  SimOptions options;
  options.receive_frames = 768;
  options.receive_queue = 512;
  options.lendable = 256;
  return options;
}

// Messages one way, so many on their way at once. There are always receives for them.
struct Stream {
  Stream(Host& from, Host& to, std::uint32_t bytes, unsigned deep)
      : size(bytes), depth(deep), sender(from), receiver(to),
        sender_vi(sender.create_vi(vip::kUnreliable)),
        receiver_vi(receiver.create_vi(vip::kUnreliable)), out(size), in(size),
        out_handle(sender.register_memory(out.data(), out.size())),
        in_handle(receiver.register_memory(in.data(), in.size())) {}

  bool step() {
    bool worked = false;
    for (; offered - received < kPosted; ++offered) {
      receiver.post_receive(receiver_vi, in.data(), size, in_handle);
    }
    for (; sent - (lossy ? completed : received) < depth && sent < wanted; ++sent) {
      sender.post_send(sender_vi, out.data(), size, out_handle);
      worked = true;
    }
    while (const auto done = sender.done(sender_vi, false)) {
      EXPECT_EQ(done->status & vip::kErrorMask, 0u);
      ++completed;
      worked = true;
    }
    while (const auto done = receiver.done(receiver_vi, true)) {
      EXPECT_EQ(done->status & vip::kErrorMask, 0u);
      EXPECT_EQ(done->length, size);
      ++received;
      worked = true;
    }
    return worked;
  }

  std::uint32_t size;
  unsigned depth, wanted = 0;
  bool lossy = false;  // what does not arrive is not waited for
  unsigned offered = 0, sent = 0, completed = 0, received = 0;
  Program sender, receiver;
  std::uint32_t sender_vi, receiver_vi;
  std::vector<std::byte> out, in;
  std::uint32_t out_handle, in_handle;
};

// Hosts 2, 3, ... send to host 1.
struct Streams {
  Streams(unsigned senders, const SimOptions& options, std::uint32_t bytes, unsigned depth)
      : network(options, 1), receiver(network, 1, limits_for(senders), 1) {
    all.push_back(&receiver);
    for (unsigned i = 0; i < senders; ++i) {
      hosts.push_back(std::make_unique<Host>(network, static_cast<std::uint8_t>(i + 2),
                                             small_limits(), i + 1));
      all.push_back(hosts.back().get());
      streams.push_back(std::make_unique<Stream>(*hosts.back(), receiver, bytes, depth));
    }
  }

  static StackLimits limits_for(unsigned senders) {
    StackLimits limits = small_limits();
    limits.sessions = limits.peers = senders + 4;
    return limits;
  }

  bool connect() {
    std::uint32_t discriminator = 0;
    for (const auto& stream : streams) {
      if (!sim::connect(network, all, stream->sender, stream->sender_vi, stream->receiver,
                        stream->receiver_vi, receiver.port.address(), ++discriminator)) {
        return false;
      }
    }
    return true;
  }

  // Until so many more messages of each have been sent, for `ns` at most. The receiver's driver has its
  // processor for one millisecond and then not for `away`.
  bool go(unsigned messages, std::uint64_t ns, std::uint64_t away = 0) {
    for (const auto& stream : streams) stream->wanted += messages;
    const auto logic = [this] {
      bool worked = false;
      for (const auto& stream : streams) worked |= stream->step();
      return worked;
    };
    const auto finished = [this] {
      for (const auto& stream : streams) {
        if (stream->completed != stream->wanted) return false;
      }
      return true;
    };
    const std::uint64_t end = network.now() + ns;
    const auto until = [&](std::span<Host* const> which, std::uint64_t time) {
      if (!run(network, which, logic, finished, time)) network.advance_to(time);
    };
    while (!finished() && network.now() < end) {
      until(all, away == 0 ? end : network.now() + kMillisecond);
      if (away != 0) until(std::span(all).subspan(1), network.now() + away);
    }
    const bool in_time = finished();
    const std::uint64_t rest = network.now() + 20 * kMillisecond;
    run(network, all, logic, [] { return false; }, rest);
    return in_time;
  }

  SimNetwork network;
  Host receiver;
  std::vector<std::unique_ptr<Host>> hosts;
  std::vector<Host*> all;
  std::vector<std::unique_ptr<Stream>> streams;
};

void expect_no_loss(Streams& net) {
  for (const auto& stream : net.streams) EXPECT_EQ(stream->received, stream->wanted);
  const PortCounters port = net.receiver.port.counters();
  EXPECT_EQ(port.rx_dropped_ring_full, 0u);
  EXPECT_EQ(port.rx_dropped_no_fill, 0u);
}

TEST(Credit, WhatIsLongerThanThePortHasRoomForArrives) {
  Streams net(1, small_port(), kLong, 16);
  ASSERT_TRUE(net.connect());
  EXPECT_TRUE(net.go(500, kSecond));
  expect_no_loss(net);
}

TEST(Credit, ReceiverThatIsBusyElsewhereLosesNothing) {
  Streams net(1, small_port(), kLong, 16);
  ASSERT_TRUE(net.connect());
  EXPECT_TRUE(net.go(200, 10 * kSecond, 10 * kMillisecond));
  expect_no_loss(net);
}

TEST(Credit, ManySendersShareTheRoomOfThePort) {
  for (const unsigned senders : {3u, 10u, 30u}) {
    Streams net(senders, small_port(), kLong, 4);
    ASSERT_TRUE(net.connect());
    EXPECT_TRUE(net.go(20, 60 * kSecond, 3 * kMillisecond)) << senders;
    expect_no_loss(net);
  }
}

// Messages within the standing credit go at once, and credit comes for many messages together.
TEST(Credit, CostsShortMessagesNothing) {
  Streams net(1, {}, 4, 8);
  ASSERT_TRUE(net.connect());
  EXPECT_TRUE(net.go(1000, kSecond));
  expect_no_loss(net);
  EXPECT_EQ(net.hosts[0]->stack->counters().credit_stalls, 0u);
  EXPECT_LE(net.receiver.stack->counters().acks_sent, 1000u / 32);
}

TEST(Credit, SurvivesTheLossOfWhatCarriesIt) {
  Streams net(1, small_port(), kLong, 1);
  ASSERT_TRUE(net.connect());
  net.streams[0]->lossy = true;
  SimFaults faults;
  faults.loss = 0.3;
  net.network.set_faults(faults);
  EXPECT_TRUE(net.go(100, 4 * kSecond));
  net.network.set_faults({});
  const unsigned before = net.streams[0]->received;
  EXPECT_TRUE(net.go(100, kSecond));
  EXPECT_EQ(net.streams[0]->received - before, 100u);
}

// A silent peer holds no sender up for good.
TEST(Credit, SenderThatHearsNothingGoesOnSlowly) {
  Streams net(1, small_port(), kLong, 1);
  ASSERT_TRUE(net.connect());
  net.network.set_filter([&](const SimPort& from, std::span<std::byte> frame) {
    wire::Decoded decoded;
    const bool is_ack = wire::decode(frame, decoded) == wire::Malformed::kNone &&
                        decoded.header.type == wire::Type::kAck;
    return &from != &net.receiver.port || !is_ack;
  });
  net.streams[0]->lossy = true;
  EXPECT_TRUE(net.go(4, 2 * kSecond));
  EXPECT_GT(net.hosts[0]->stack->counters().credit_timeouts, 50u);
}

// Older peers name no credit in CONNECT_REQUEST and CONNECT_ACCEPT.
TEST(Credit, OfPeersThatKnowNothingOfItIsNotAwaited) {
  Streams net(1, {}, kLong, 8);
  net.network.set_filter([](const SimPort&, std::span<std::byte> frame) {
    wire::Decoded decoded;
    if (wire::decode(frame, decoded) != wire::Malformed::kNone) return true;
    const wire::Type type = decoded.header.type;
    if (type != wire::Type::kConnectRequest && type != wire::Type::kConnectAccept) return true;
    wire::store16(&frame[wire::kEthernetBytes + 38], 0);
    wire::seal(frame);
    return true;
  });
  ASSERT_TRUE(net.connect());
  EXPECT_TRUE(net.go(50, kSecond));
  expect_no_loss(net);
  EXPECT_EQ(net.hosts[0]->stack->counters().credit_stalls, 0u);
  EXPECT_EQ(net.receiver.stack->counters().acks_sent, 0u);
}

}  // namespace
}  // namespace viaduct::sim
