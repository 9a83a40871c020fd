// Asynchronous errors and the status bits that tell how far a transfer got: what programs hear, on
// both sides, and in which order.
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

struct Event {
  std::uint32_t resource, code;
  bool operator==(const Event&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Event& event) {
  return out << "resource " << event.resource << " code " << event.code;
}

constexpr Event vi_event(std::uint32_t code) { return {vip::kResourceVi, code}; }
constexpr Event descriptor_event(std::uint32_t code) { return {vip::kResourceDescriptor, code}; }
constexpr Event kLostEvent = vi_event(vip::kConnectionLost);

struct EventPair : Pair {
  static constexpr std::uint32_t kBytes = 300'000;

  explicit EventPair(std::uint16_t level = vip::kReliableDelivery, bool may_write = true)
      : Pair(1, level, gigabit()), here(kBytes), there(kBytes) {
    client_vi = create_vi(*client, level, true);
    server_vi = create_vi(*server, level, may_write);
    here_handle = client->register_memory(here.data(), kBytes, 0, true, true);
    there_handle = server->register_memory(there.data(), kBytes, 0, true, true);
    client->view().header().errors.wanted.store(1);
    server->view().header().errors.wanted.store(1);
    EXPECT_TRUE(connect());
  }

  // So slow that a long message is seen in its middle.
  static SimOptions gigabit() {
    SimOptions options;
    options.bits_per_second = 1'000'000'000;
    return options;
  }

  static std::uint32_t create_vi(Program& program, std::uint16_t level, bool rdma) {
    layout::CommandBody set{};
    set.op = layout::Op::kSetVi;
    set.vi = program.create_vi(level);
    set.vi_attributes = {level, kBytes, 0, rdma, rdma && level != vip::kUnreliable};
    EXPECT_EQ(program.now(set).result, vip::kSuccess);
    return set.vi;
  }

  void write(std::uint32_t length, std::optional<std::uint32_t> immediate = {}) {
    client->post_rdma(client_vi, layout::kOpRdmaWrite, local(length), there.data(), there_handle, 0,
                      immediate);
  }
  layout::Segment local(std::uint32_t length) const {
    return {reinterpret_cast<std::uint64_t>(here.data()), here_handle, length};
  }

  // Cuts the cable.
  void cut() {
    SimFaults faults;
    faults.loss = 1;
    network.set_faults(faults);
  }

  // The events a program has heard so far.
  static std::vector<Event> heard(const Program& program) {
    std::vector<Event> out;
    const layout::Errors& errors = program.view().header().errors;
    for (std::uint32_t i = 0; errors.events[i].number.load() == i + 1; ++i) {
      out.push_back({errors.events[i].resource, errors.events[i].code});
    }
    return out;
  }
  static const layout::ErrorEvent& event(const Program& program, std::uint32_t i) {
    return program.view().header().errors.events[i];
  }

  Completion finished(Program& program, std::uint32_t vi, bool receive) {
    std::optional<Completion> done;
    run(network, hosts, {}, [&] { return (done = program.done(vi, receive)).has_value(); },
        network.now() + 20 * kSecond);
    EXPECT_TRUE(done.has_value()) << "the descriptor never completed";
    return done.value_or(Completion{});
  }
  std::uint32_t sent() { return finished(*client, client_vi, false).status; }
  std::uint32_t received() { return finished(*server, server_vi, true).status; }

  std::vector<std::byte> here, there;
  std::uint32_t here_handle, there_handle;
};

using Events = std::vector<Event>;

TEST(Events, OfAnOrderlyEndSaySo) {
  EventPair pair;
  layout::CommandBody disconnect{};
  disconnect.op = layout::Op::kDisconnect;
  disconnect.vi = pair.client_vi;
  EXPECT_EQ(pair.client->now(disconnect).result, vip::kSuccess);
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(pair.heard(*pair.client), Events{});
  EXPECT_EQ(pair.heard(*pair.server), Events{kLostEvent});
  EXPECT_EQ(pair.event(*pair.server, 0).flags, layout::kEventOrderly);
}

TEST(Events, OfASilentPeerDont) {
  EventPair pair;
  pair.cut();
  pair.wait(5 * kSecond);
  EXPECT_EQ(pair.heard(*pair.server), Events{kLostEvent});
  EXPECT_EQ(pair.event(*pair.server, 0).flags, 0);
}

TEST(Events, AlertTheProgramOnce) {
  EventPair pair;
  std::atomic<std::uint32_t>& alert = pair.server->view().header().alert;
  EXPECT_EQ(alert.load(), 0u);
  pair.client.reset();
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(alert.load(), 1u);
}

TEST(Events, AlertForQueuesOnlyWhenAsked) {
  EventPair pair;
  std::atomic<std::uint32_t>& alert = pair.server->view().header().alert;
  layout::WorkQueue& queue = pair.server->view().vi(pair.server_vi).receive;
  for (const bool asked : {false, true}) {
    queue.sleepers.store(asked ? layout::kCallbackThread | layout::kSleeper : layout::kSleeper);
    pair.server->post_receive(pair.server_vi, pair.there.data(), 100, pair.there_handle);
    pair.client->post_send(pair.client_vi, pair.here.data(), 10, pair.here_handle);
    EXPECT_EQ(pair.received(), vip::kDone | vip::kOpReceive);
    EXPECT_EQ(queue.sleepers.load() & layout::kWaiting, 0u);
    EXPECT_EQ(alert.load(), asked ? 1u : 0u);
  }
}

TEST(Events, OfASendWithoutAReceive) {
  EventPair pair;
  pair.client->post_send(pair.client_vi, pair.here.data(), 10, pair.here_handle);
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(pair.heard(*pair.server), (Events{vi_event(vip::kReceiveQueueEmpty), kLostEvent}));
  EXPECT_EQ(pair.heard(*pair.client), Events{kLostEvent});
  EXPECT_EQ(pair.event(*pair.client, 0).flags, 0) << "a refusal is not an orderly end";
}

TEST(Events, OfAnUnreliableSendWithoutAReceiveLeaveTheConnection) {
  EventPair pair(vip::kUnreliable);
  pair.client->post_send(pair.client_vi, pair.here.data(), 10, pair.here_handle);
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(pair.heard(*pair.server), Events{vi_event(vip::kReceiveQueueEmpty)});
  EXPECT_EQ(pair.server->state(pair.server_vi), std::uint32_t{vip::kConnected});
}

TEST(Events, OfRdmaWithoutPermission) {
  for (const bool read : {false, true}) {
    EventPair pair(vip::kReliableDelivery, false);
    pair.client->post_rdma(pair.client_vi, read ? layout::kOpRdmaRead : layout::kOpRdmaWrite,
                           pair.local(100), pair.there.data(), pair.there_handle);
    pair.wait(10 * kMillisecond);
    const auto code = read ? vip::kRdmaReadProtection : vip::kRdmaWriteProtection;
    EXPECT_EQ(pair.heard(*pair.server), (Events{vi_event(code), kLostEvent}));
    EXPECT_EQ(pair.heard(*pair.client), Events{kLostEvent});
  }
}

// The receive that the write would have used tells of it.
TEST(Events, OfAWriteWithImmediateDataAreItsReceives) {
  for (const std::uint16_t level : {vip::kUnreliable, vip::kReliableDelivery}) {
    for (const bool gone : {false, true}) {
      EventPair pair(level, gone);
      pair.b.memory_gone = gone;
      pair.server->post_receive(pair.server_vi, pair.there.data(), 100, pair.there_handle);
      pair.write(5000, 7);
      EXPECT_EQ(pair.received() & ~std::uint32_t{vip::kPartialError},
                vip::kDone | vip::kOpRemoteRdmaWrite | vip::kRdmaProtectionError);
      pair.wait(10 * kMillisecond);
      EXPECT_EQ(pair.heard(*pair.server), level == vip::kUnreliable ? Events{} : Events{kLostEvent});
    }
  }
}

TEST(Events, OfAWriteWithImmediateDataWithoutAReceiveAreTheHandlers) {
  EventPair pair(vip::kReliableDelivery, false);
  pair.write(5000, 7);
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(pair.heard(*pair.server), (Events{vi_event(vip::kRdmaWriteProtection), kLostEvent}));
}

TEST(Events, OfAnUnreliableWriteWithoutPermissionLeaveTheConnection) {
  EventPair pair(vip::kUnreliable, false);
  pair.write(5000);
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(pair.heard(*pair.server), Events{vi_event(vip::kRdmaWriteProtection)});
  EXPECT_EQ(pair.server->state(pair.server_vi), std::uint32_t{vip::kConnected});
}

TEST(Events, OfAWriteToMemoryThatIsGone) {
  EventPair pair;
  pair.b.memory_gone = true;
  pair.write(5000);
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(pair.heard(*pair.server), (Events{vi_event(vip::kRdmaWriteData), kLostEvent}));
}

TEST(Events, OfAWriteThatIsCutOff) {
  EventPair pair;
  pair.write(EventPair::kBytes);
  run(pair.network, pair.hosts, {},
      [&] { return pair.b.stack->counters().data_frames_received > 5; },
      pair.network.now() + kSecond);
  layout::CommandBody disconnect{};
  disconnect.op = layout::Op::kDisconnect;
  disconnect.vi = pair.client_vi;
  EXPECT_EQ(pair.client->now(disconnect).result, vip::kSuccess);
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(pair.heard(*pair.server), (Events{vi_event(vip::kRdmaWriteAbort), kLostEvent}));
  EXPECT_EQ(pair.sent(),
            vip::kDone | vip::kOpRdmaWrite | vip::kFlushedError | vip::kPartialError);
}

TEST(Events, OfAnRdmaWriteThatGetsNoAnswer) {
  EventPair pair;
  pair.cut();
  pair.write(100);
  pair.client->post_send(pair.client_vi, pair.here.data(), 10, pair.here_handle);
  EXPECT_EQ(pair.sent(),
            vip::kDone | vip::kOpRdmaWrite | vip::kFlushedError | vip::kTransportError);
  EXPECT_EQ(pair.sent(), vip::kDone | vip::kOpSend | vip::kFlushedError);
  EXPECT_EQ(pair.heard(*pair.client), (Events{vi_event(vip::kRdmaTransport), kLostEvent}));
  EXPECT_EQ(pair.event(*pair.client, 0).op, layout::kOpRdmaWrite);
}

TEST(Events, OfADescriptorOutsideItsRegion) {
  for (const bool reliable : {false, true}) {
    EventPair pair(reliable ? vip::kReliableDelivery : vip::kUnreliable);
    layout::CommandBody deregister{};
    deregister.op = layout::Op::kDeregisterMemory;
    deregister.handle = pair.client->descriptor_handle();
    deregister.memory.address = reinterpret_cast<std::uint64_t>(pair.client->descriptor());
    EXPECT_EQ(pair.client->now(deregister).result, vip::kSuccess);
    pair.client->post_send(pair.client_vi, pair.here.data(), 10, pair.here_handle);
    EXPECT_EQ(pair.sent(), vip::kDone | vip::kOpSend | vip::kProtectionError);
    Events expected{descriptor_event(vip::kPostDescriptor)};
    if (reliable) expected.push_back(kLostEvent);
    EXPECT_EQ(pair.heard(*pair.client), expected);
    EXPECT_EQ(pair.event(*pair.client, 0).descriptor,
              reinterpret_cast<std::uint64_t>(pair.client->descriptor()));
  }
}

TEST(Events, OfAReceiveOutsideItsRegion) {
  for (const bool immediate : {false, true}) {
    for (const bool reliable : {false, true}) {
      EventPair pair(reliable ? vip::kReliableDelivery : vip::kUnreliable);
      layout::CommandBody deregister{};
      deregister.op = layout::Op::kDeregisterMemory;
      deregister.handle = pair.server->descriptor_handle();
      deregister.memory.address = reinterpret_cast<std::uint64_t>(pair.server->descriptor());
      pair.server->post_receive(pair.server_vi, pair.there.data(), 100, pair.there_handle);
      EXPECT_EQ(pair.server->now(deregister).result, vip::kSuccess);
      if (immediate) {
        pair.write(100, 5);
      } else {
        pair.client->post_send(pair.client_vi, pair.here.data(), 10, pair.here_handle);
      }
      EXPECT_EQ(pair.received(), vip::kDone | vip::kOpReceive | vip::kProtectionError);
      Events expected{descriptor_event(vip::kCompletionProtection)};
      if (reliable) expected.push_back(kLostEvent);
      EXPECT_EQ(pair.heard(*pair.server), expected);
    }
  }
}

TEST(Events, AMessageThatIsCutOffIsPartlyThere) {
  EventPair pair;
  pair.server->post_receive(pair.server_vi, pair.there.data(), EventPair::kBytes,
                            pair.there_handle);
  pair.client->post_send(pair.client_vi, pair.here.data(), EventPair::kBytes, pair.here_handle);
  run(pair.network, pair.hosts, {},
      [&] { return pair.b.stack->counters().data_frames_received > 5; },
      pair.network.now() + kSecond);
  pair.client.reset();
  EXPECT_EQ(pair.received(),
            vip::kDone | vip::kOpReceive | vip::kFlushedError | vip::kPartialError | vip::kTransportError);
}

// A program that ends tells its peer whether all that it had posted has been sent.
TEST(Events, WhoIsKilledWithNothingToSendMissesNothing) {
  EventPair pair;
  pair.server->post_receive(pair.server_vi, pair.there.data(), EventPair::kBytes, pair.there_handle);
  pair.client.reset();
  EXPECT_EQ(pair.received(), vip::kDone | vip::kOpReceive | vip::kFlushedError);
}

TEST(Events, WhoIsKilledWithPostsThatNobodyHasSeenMissesThem) {
  EventPair pair;
  pair.server->post_receive(pair.server_vi, pair.there.data(), EventPair::kBytes, pair.there_handle);
  pair.client->post_send(pair.client_vi, pair.here.data(), 10, pair.here_handle);
  pair.client.reset();
  EXPECT_EQ(pair.received(), vip::kDone | vip::kOpReceive | vip::kFlushedError | vip::kTransportError);
}

TEST(Events, WhoIsKilledBeforeItHasPostedAllMissesTheRest) {
  for (const bool more : {true, false}) {
    EventPair pair;
    pair.server->post_receive(pair.server_vi, pair.there.data(), EventPair::kBytes, pair.there_handle);
    layout::Vi& vi = pair.client->view().vi(pair.client_vi);
    vi.send.more = vi.status.generation.load() + (more ? 0 : 1);  // of a VI that was there before
    pair.client.reset();
    EXPECT_EQ(pair.received(), vip::kDone | vip::kOpReceive | vip::kFlushedError |
                                   (more ? vip::kTransportError : 0u));
  }
}

// It can't say where it ends.
TEST(Events, WhoIsLostMissesSomething) {
  for (const bool reliable : {false, true}) {
    EventPair pair(reliable ? vip::kReliableDelivery : vip::kUnreliable);
    pair.server->post_receive(pair.server_vi, pair.there.data(), EventPair::kBytes, pair.there_handle);
    pair.cut();
    EXPECT_EQ(pair.received(), vip::kDone | vip::kOpReceive | vip::kFlushedError |
                                   (reliable ? vip::kTransportError : 0u));
  }
}

TEST(Events, FlushedDescriptorsKeepTheirOperation) {
  EventPair pair;
  layout::CommandBody disconnect{};
  disconnect.op = layout::Op::kDisconnect;
  disconnect.vi = pair.client_vi;
  EXPECT_EQ(pair.client->now(disconnect).result, vip::kSuccess);
  pair.write(10);
  EXPECT_EQ(pair.sent(), vip::kDone | vip::kOpRdmaWrite | vip::kFlushedError);
}

TEST(Segments, AreAsManyAsTheNicSays) {
  EventPair pair;
  const auto segments = [&](std::uint32_t count, std::byte* memory, std::uint32_t handle) {
    std::vector<layout::Segment> out;
    for (std::uint32_t s = 0; s < count; ++s) {
      out.push_back({reinterpret_cast<std::uint64_t>(memory + s * 100), handle, 3});
    }
    return out;
  };
  constexpr std::uint32_t kMost = layout::kMaxDataSegments;
  pair.server->post(pair.server_vi, true, segments(kMost, pair.there.data(), pair.there_handle),
                    3 * kMost, 0, {});
  pair.client->post(pair.client_vi, false, segments(kMost, pair.here.data(), pair.here_handle),
                    3 * kMost, 0, {});
  EXPECT_EQ(pair.sent(), vip::kDone | vip::kOpSend);
  EXPECT_EQ(pair.received(), vip::kDone | vip::kOpReceive);
  auto write = segments(kMost, pair.here.data(), pair.here_handle);
  write.insert(write.begin(), {reinterpret_cast<std::uint64_t>(pair.there.data()), pair.there_handle, 0});
  pair.client->post(pair.client_vi, false, write, 3 * kMost, 0, {}, nullptr, layout::kOpRdmaWrite);
  EXPECT_EQ(pair.sent(), vip::kDone | vip::kOpRdmaWrite);
  pair.client->post(pair.client_vi, false, segments(kMost + 1, pair.here.data(), pair.here_handle),
                    3 * kMost + 3, 0, {});
  EXPECT_EQ(pair.sent(), vip::kDone | vip::kOpSend | vip::kFormatError);
}

TEST(Connections, ToWhereNoHostCanBeAreNotTried) {
  for (const MacAddress& address : {MacAddress{}, kBroadcast, MacAddress{1, 0, 0x5e, 0, 0, 1}}) {
    Pair pair;
    layout::CommandBody request{};
    request.op = layout::Op::kConnectRequest;
    request.vi = pair.client_vi;
    request.timeout_ms = 1000;
    std::memcpy(request.remote.host, address.data(), address.size());
    EXPECT_EQ(pair.client->now(request).result, vip::kNotReachable);
    EXPECT_EQ(pair.client->state(pair.client_vi), std::uint32_t{vip::kIdle});
    request.op = layout::Op::kPeerRequest;
    EXPECT_EQ(pair.client->now(request).result, vip::kSuccess);
    request.op = layout::Op::kPeerDone;
    EXPECT_EQ(pair.client->now(request).result, vip::kNotReachable);
    EXPECT_EQ(pair.client->state(pair.client_vi), std::uint32_t{vip::kIdle});
  }
}

}  // namespace
}  // namespace viaduct::sim
