// VipConnectWait, VipConnectAccept, VipConnectReject, VipConnectRequest, VipDisconnect.
#include <chrono>
#include <thread>

#include "suite.h"

namespace conformance {
namespace {

using FunctionConnect = Conformance;
constexpr VIP_RELIABILITY_LEVEL kConnectLevel = VIP_SERVICE_UNRELIABLE;

Address no_host() { return {.host = {0x02, 0x77, 0x12, 0x34, 0x56, 0x78}, .discriminator = {1}}; }

// A client of near asks for an address of far.
struct Request {
  Vi vi;
  Address local, remote;
};
Request request_of(const Nic& from, const Nic& to, const std::string& discriminator) {
  return {from.vi(kConnectLevel), from.address("client of " + discriminator), to.address(discriminator)};
}
auto ask(const Request& request, std::uint64_t timeout = kSoon) {
  return start([=] { return request.vi.connect_request(request.local, request.remote, timeout); });
}

TEST_F(FunctionConnect, RequestWaitAndAcceptMakeAConnection) {
  CHECKLIST(5);
  const Request request = request_of(near, far, fresh());
  auto asked = ask(request);
  const Incoming incoming = must(far.connect_wait(request.remote));
  EXPECT_EQ(incoming.remote.host, near.attributes().address);
  EXPECT_EQ(incoming.remote.discriminator, request.local.discriminator) << "the client's own";
  EXPECT_FALSE(incoming.beyond);
  EXPECT_EQ(incoming.attributes.level, kConnectLevel);
  EXPECT_EQ(incoming.attributes.max_transfer_size, near.attributes().max_transfer_size);
  EXPECT_FALSE(asked.returned()) << "not before it is accepted";
  const Vi server = far.vi(kConnectLevel);
  EXPECT_EQ(far.connect_accept(incoming.conn, server).code, VIP_SUCCESS);
  const Outgoing answer = must(asked.get());
  EXPECT_EQ(answer.attributes.level, kConnectLevel);
  EXPECT_EQ(request.vi.state(), VIP_STATE_CONNECTED);
  EXPECT_EQ(server.state(), VIP_STATE_CONNECTED);
}

TEST_F(FunctionConnect, TheOtherSidesAttributesAreTold) {
  ViAttributes writable = near.rdma_vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY);
  ViAttributes plain = far.vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY);
  plain.max_transfer_size = writable.max_transfer_size = 40000;
  const std::string name = fresh();
  const Request request{must(near.create_vi(writable)), near.address("c"), far.address(name)};
  auto asked = ask(request);
  const Incoming incoming = must(far.connect_wait(request.remote));
  EXPECT_NE(incoming.attributes.rdma_write, VIP_FALSE);
  EXPECT_EQ(incoming.attributes.max_transfer_size, 40000U);
  must(far.connect_accept(incoming.conn, must(far.create_vi(plain))));
  const ViAttributes told = must(asked.get()).attributes;
  EXPECT_EQ(told.rdma_write, VIP_FALSE);
  EXPECT_EQ(told.max_transfer_size, 40000U);
}

TEST_F(FunctionConnect, WaitWritesTheWholeAddressWhateverWasThere) {
  CHECKLIST(5);
  for (const std::uint8_t prefill : {std::uint8_t{0}, std::uint8_t{0xff}}) {
    const Request request = request_of(near, far, fresh());
    auto asked = ask(request);
    const Incoming incoming = must(far.connect_wait(request.remote, kSoon, {}, prefill));
    EXPECT_EQ(incoming.remote.host, near.attributes().address);
    EXPECT_EQ(incoming.remote.discriminator, request.local.discriminator);
    must(far.connect_reject(incoming.conn));
    EXPECT_EQ(asked.get().code, VIP_REJECT);
  }
}

TEST_F(FunctionConnect, WaitRunsOutAndTakesItsTime) {
  const Address address = near.address(fresh());
  const Incoming poll = near.connect_wait(address, 0);
  EXPECT_EQ(poll.code, VIP_TIMEOUT);
  const Incoming wait = near.connect_wait(address, 100);
  EXPECT_EQ(wait.code, VIP_TIMEOUT);
  EXPECT_GE(wait.elapsed_ms(), 100U);
}

TEST_F(FunctionConnect, WaitWithTimeoutZeroTakesARequestThatIsThere) {
  const Request request = request_of(near, far, fresh());
  auto asked = ask(request);
  Incoming incoming;
  do incoming = far.connect_wait(request.remote, 0);
  while (incoming.code == VIP_TIMEOUT && !asked.returned());
  must(far.connect_reject(must(incoming).conn));
  EXPECT_EQ(asked.get().code, VIP_REJECT);
}

TEST_F(FunctionConnect, WaitForEverWaitsUntilARequestComes) {
  const Request request = request_of(near, far, fresh());
  auto waiting = start([far = far, remote = request.remote] {
    return far.connect_wait(remote, kInfinite);
  });
  EXPECT_FALSE(waiting.returned_within(100));
  auto asked = ask(request);
  must(far.connect_reject(must(waiting.get()).conn));
  EXPECT_EQ(asked.get().code, VIP_REJECT);
}

TEST_F(FunctionConnect, WaitRefusesNonsense) {
  const Address address = near.address(fresh());
  for (const unsigned argument : {2U, 4U, 5U, 6U}) {
    EXPECT_EQ(near.connect_wait(address, 0, null(argument)).code, VIP_INVALID_PARAMETER)
        << argument;
  }
  Address bad = address;
  bad.discriminator_len = 60000;
  EXPECT_EQ(near.connect_wait(bad, 0).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(here->call<op::connect_wait>(NicHandle{}, address, std::uint64_t{0},
                                         std::uint8_t{0}, Nulls{})
                .code,
            VIP_INVALID_PARAMETER);
}

TEST_F(FunctionConnect, WaitsForDifferentDiscriminatorsGetTheirOwn) {
  CHECKLIST(4);
  const Request first = request_of(near, far, fresh()), second = request_of(near, far, fresh());
  auto wait_first = start([far = far, a = first.remote] { return far.connect_wait(a); });
  auto asked_second = ask(second);
  // The second one's request must not be swallowed by the first one's wait.
  EXPECT_FALSE(wait_first.returned_within(50));
  const Incoming of_second = must(far.connect_wait(second.remote));
  EXPECT_EQ(of_second.remote.discriminator, second.local.discriminator);
  auto asked_first = ask(first);
  const Incoming of_first = must(wait_first.get());
  EXPECT_EQ(of_first.remote.discriminator, first.local.discriminator);
  must(far.connect_reject(of_first.conn));
  must(far.connect_reject(of_second.conn));
  EXPECT_EQ(asked_first.get().code, VIP_REJECT);
  EXPECT_EQ(asked_second.get().code, VIP_REJECT);
}

TEST_F(FunctionConnect, DiscriminatorsOfDifferentLengthNeverMatch) {
  CHECKLIST(4);
  const std::string name = fresh();
  const Request request = request_of(near, far, name);
  auto waiting = start([far = far, name] { return far.connect_wait(far.address(name + "x"), 1000); });
  EXPECT_FALSE(waiting.returned_within(20));
  EXPECT_EQ(request.vi.connect_request(request.local, request.remote, 200).code, VIP_NO_MATCH);
  EXPECT_EQ(waiting.get().code, VIP_TIMEOUT);
}

TEST_F(FunctionConnect, AnEmptyAndALongDiscriminatorWork) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{16},
                                  static_cast<std::size_t>(far.attributes().max_discriminator_len)}) {
    const std::string name = (fresh() + std::string(256, 'd')).substr(0, bytes);
    const Request request{near.vi(kConnectLevel), near.address(""), far.address(name)};
    auto asked = ask(request);
    const Incoming incoming = must(far.connect_wait(request.remote));
    EXPECT_TRUE(incoming.remote.discriminator.empty());
    must(far.connect_reject(incoming.conn));
    EXPECT_EQ(asked.get().code, VIP_REJECT);
  }
}

// The result of a request that no program waits for. A host that is slow to answer is given more time.
VIP_RETURN without_a_waiter(const Request& request) {
  std::uint64_t timeout = 50;
  VIP_RETURN code;
  do {
    code = request.vi.connect_request(request.local, request.remote, timeout).code;
    timeout *= 4;
  } while (code == VIP_TIMEOUT && timeout <= kSoon);
  return code;
}

TEST_F(FunctionConnect, RequestWithoutAWaiterIsNoMatchAndCanBeRepeated) {
  CHECKLIST(3);
  CHECKLIST(17);
  const Request request = request_of(near, far, fresh());
  const Region in = near.memory(64), out = far.memory(64);
  const Posted posted = must(request.vi.post_recv({.segments = {in.all()}}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(without_a_waiter(request), VIP_NO_MATCH);
    EXPECT_EQ(request.vi.state(), VIP_STATE_IDLE);
  }
  auto asked = ask(request);
  const Incoming incoming = must(far.connect_wait(request.remote));
  const Vi server = far.vi(kConnectLevel);
  must(far.connect_accept(incoming.conn, server));
  must(asked.get());
  must(server.post_send({.segments = {out.all()}}));
  EXPECT_EQ(must(request.vi.recv_wait()).id, posted.id) << "posted before all that";
}

TEST_F(FunctionConnect, RequestWaitsForAWaiterThatComesLater) {
  CHECKLIST(17);
  const Request request = request_of(near, far, fresh());
  auto asked = ask(request, kInfinite);
  EXPECT_FALSE(asked.returned_within(200)) << "it is held until somebody waits";
  must(far.connect_reject(must(far.connect_wait(request.remote)).conn));
  EXPECT_EQ(asked.get().code, VIP_REJECT);
}

TEST_F(FunctionConnect, RequestThatIsNotAnsweredTimesOut) {
  CHECKLIST(17);
  const Request request = request_of(near, far, fresh());
  auto asked = ask(request, 300);
  const Incoming incoming = must(far.connect_wait(request.remote));
  const Outgoing answer = asked.get();
  EXPECT_EQ(answer.code, VIP_TIMEOUT) << "matched, but neither accepted nor rejected";
  EXPECT_GE(answer.elapsed_ms(), 300U);
  EXPECT_EQ(request.vi.state(), VIP_STATE_IDLE);
  // The requester is told to be gone by the time that the acceptor hears of it.
  Result accept;
  const Vi server = far.vi(kConnectLevel);
  for (int i = 0; i < 100; ++i) {
    accept = far.connect_accept(incoming.conn, server);
    if (accept.code != VIP_SUCCESS) break;
    must(server.disconnect());
  }
  EXPECT_EQ(accept.code, VIP_TIMEOUT);
  EXPECT_EQ(server.state(), VIP_STATE_IDLE);
}

TEST_F(FunctionConnect, RequestToAHostThatDoesNotExistTimesOut) {
  NEEDS(options.device.find("lo") == std::string::npos, "the loopback device knows that");
  const Vi vi = near.vi(kConnectLevel);
  const Outgoing answer = vi.connect_request(near.address("c"), no_host(), 200);
  EXPECT_EQ(answer.code, VIP_TIMEOUT);
  EXPECT_GE(answer.elapsed_ms(), 200U);
}

TEST_F(FunctionConnect, RequestToWhereNoHostCanBeIsNotReachable) {
  const Vi vi = near.vi(kConnectLevel);
  for (const std::uint8_t byte : {std::uint8_t{0}, std::uint8_t{0xff}}) {
    const Address nowhere{.host = std::vector<std::uint8_t>(6, byte), .discriminator = {1}};
    EXPECT_EQ(vi.connect_request(near.address("c"), nowhere, 200).code, VIP_NOT_REACHABLE);
    EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
  }
}

TEST_F(FunctionConnect, RequestRefusesNonsense) {
  const Request r = request_of(near, far, fresh());
  EXPECT_EQ(r.vi.connect_request(r.local, r.remote, 0).code, VIP_INVALID_PARAMETER);
  for (const unsigned argument : {2U, 3U, 5U}) {
    EXPECT_EQ(r.vi.connect_request(r.local, r.remote, 10, null(argument)).code,
              VIP_INVALID_PARAMETER)
        << argument;
  }
  Address bad = r.remote;
  bad.host_len = 60000;
  EXPECT_EQ(r.vi.connect_request(r.local, bad, 10).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(here->call<op::connect_request>(ViHandle{}, r.local, r.remote, std::uint64_t{10},
                                            Nulls{})
                .code,
            VIP_INVALID_PARAMETER);
}

TEST_F(FunctionConnect, RequestTakesALocalAddressOfAnybody) {
  CHECKLIST(5);
  Request request = request_of(near, far, fresh());
  request.local.host = {0xde, 0xad, 0xbe, 0xef, 0x00, 0x01};
  auto asked = ask(request);
  must(far.connect_reject(must(far.connect_wait(request.remote)).conn));
  EXPECT_EQ(asked.get().code, VIP_REJECT);
}

TEST_F(FunctionConnect, RequestWantsAnIdleVi) {
  const auto [a, b] = connected(kConnectLevel);
  EXPECT_EQ(a.connect_request(near.address("c"), far.address("s"), 100).code, VIP_INVALID_STATE);
  EXPECT_EQ(a.state(), VIP_STATE_CONNECTED);
}

TEST_F(FunctionConnect, AcceptComparesTheAttributes) {
  ViAttributes attributes = near.vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY);
  attributes.max_transfer_size = 50000;
  const std::string name = fresh();
  const Request request{must(near.create_vi(attributes)), near.address("c"), far.address(name)};
  auto asked = ask(request);
  const Incoming incoming = must(far.connect_wait(request.remote));

  ViAttributes other = far.vi_attributes(kConnectLevel);
  other.max_transfer_size = 50000;
  EXPECT_EQ(far.connect_accept(incoming.conn, must(far.create_vi(other))).code,
            VIP_INVALID_RELIABILITY_LEVEL);
  other = far.vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY);
  other.max_transfer_size = 49999;
  const Vi server = must(far.create_vi(other));
  EXPECT_EQ(far.connect_accept(incoming.conn, server).code, VIP_INVALID_MTU);
  EXPECT_FALSE(asked.returned()) << "the client is not told";
  other.max_transfer_size = 50000;
  must(server.set_attributes(other));
  EXPECT_EQ(far.connect_accept(incoming.conn, server).code, VIP_SUCCESS);
  must(asked.get());
}

// A request that has come to the far end, and that the near end has given up. On a busy machine a request may time out
// on its way: then it is made again.
Incoming ask_in_vain(const Nic& far, const Request& request) {
  auto waiting = start([=] { return far.connect_wait(request.remote, kInfinite); });
  bool timed_out = false;
  do {
    const VIP_RETURN told = ask(request, 50).get().code;
    EXPECT_TRUE(told == VIP_TIMEOUT || told == VIP_NO_MATCH) << told;
    timed_out = timed_out || told == VIP_TIMEOUT;
  } while (!waiting.returned());
  EXPECT_TRUE(timed_out);
  return must(waiting.get());
}

TEST_F(FunctionConnect, AcceptThatComesSecondsTooLateTimesOut) {
  const Request request = request_of(near, far, fresh());
  const Incoming incoming = ask_in_vain(far, request);
  std::this_thread::sleep_for(std::chrono::milliseconds(3500));
  const Vi server = far.vi(kConnectLevel);
  EXPECT_EQ(far.connect_accept(incoming.conn, server).code, VIP_TIMEOUT);
  EXPECT_EQ(server.state(), VIP_STATE_IDLE);
}

TEST_F(FunctionConnect, RejectThatComesTooLateTimesOut) {
  const Request request = request_of(near, far, fresh());
  const Incoming incoming = ask_in_vain(far, request);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(far.connect_reject(incoming.conn).code, VIP_TIMEOUT);
}

TEST_F(FunctionConnect, AcceptWantsAnIdleViOfTheSameNic) {
  const Request request = request_of(near, far, fresh());
  const auto [a, b] = connected(kConnectLevel);
  auto asked = ask(request);
  const Incoming incoming = must(far.connect_wait(request.remote));
  EXPECT_EQ(far.connect_accept(incoming.conn, b).code, VIP_INVALID_STATE);
  EXPECT_EQ(far.connect_accept(incoming.conn, open_far().vi(kConnectLevel)).code, VIP_INVALID_PARAMETER);
  const Vi server = far.vi(kConnectLevel);
  EXPECT_EQ(far.connect_accept(ConnHandle{0x1234}, server).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(far.connect_accept(incoming.conn, server).code, VIP_SUCCESS);
  must(asked.get());
  const Vi another = far.vi(kConnectLevel);
  const VIP_RETURN again = far.connect_accept(incoming.conn, another).code;
  EXPECT_EQ(again, VIP_INVALID_PARAMETER) << "used up";
  EXPECT_NE(far.connect_reject(incoming.conn).code, VIP_SUCCESS) << "used up";
}

TEST_F(FunctionConnect, RejectIsToldToTheClient) {
  const Request request = request_of(near, far, fresh());
  auto asked = ask(request);
  const Incoming incoming = must(far.connect_wait(request.remote));
  EXPECT_EQ(far.connect_reject(incoming.conn).code, VIP_SUCCESS);
  EXPECT_EQ(asked.get().code, VIP_REJECT);
  EXPECT_EQ(request.vi.state(), VIP_STATE_IDLE);
  EXPECT_NE(far.connect_reject(incoming.conn).code, VIP_SUCCESS) << "used up";
  EXPECT_EQ(far.connect_reject(ConnHandle{}).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionConnect, AReceivePostedBeforeIsThereAfterARejection) {
  CHECKLIST(3);
  const Request request = request_of(near, far, fresh());
  const Region in = near.memory(64);
  must(request.vi.post_recv({.segments = {in.all()}}));
  auto asked = ask(request);
  must(far.connect_reject(must(far.connect_wait(request.remote)).conn));
  EXPECT_EQ(asked.get().code, VIP_REJECT);
  EXPECT_EQ(must(request.vi.query()).recv_empty, VIP_FALSE);
  EXPECT_EQ(request.vi.recv_done().code, VIP_NOT_DONE);
}

TEST_F(FunctionConnect, ManyClientsConnectAtATime) {
  constexpr int kClients = 20;
  const std::string name = fresh();
  std::vector<Started<Outgoing>> asked;
  for (int i = 0; i < kClients; ++i) {
    asked.push_back(ask({near.vi(kConnectLevel), near.address(std::to_string(i)), far.address(name)}));
  }
  for (int i = 0; i < kClients; ++i) {
    must(far.connect_accept(must(far.connect_wait(far.address(name))).conn, far.vi(kConnectLevel)));
  }
  for (auto& one : asked) EXPECT_EQ(one.get().code, VIP_SUCCESS);
}

TEST_F(FunctionConnect, DisconnectIsHarmlessInEveryState) {
  CHECKLIST(11);
  CHECKLIST(23);
  const Vi idle = near.vi(kConnectLevel);
  EXPECT_EQ(idle.disconnect().code, VIP_SUCCESS);
  const auto [a, b] = connected(kConnectLevel);
  EXPECT_EQ(b.disconnect().code, VIP_SUCCESS);
  EXPECT_EQ(b.disconnect().code, VIP_SUCCESS) << "twice";
  EXPECT_EQ(b.state(), VIP_STATE_IDLE);
  EXPECT_EQ(a.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
  EXPECT_EQ(a.disconnect().code, VIP_SUCCESS) << "the peer has left";
  EXPECT_EQ(a.state(), VIP_STATE_IDLE);
  EXPECT_EQ(here->call<op::disconnect>(ViHandle{}).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionConnect, DisconnectEndsAPendingRequest) {
  const Request request = request_of(near, far, fresh());
  auto asked = ask(request, kInfinite);
  EXPECT_EQ(request.vi.await_state(VIP_STATE_CONNECT_PENDING), VIP_STATE_CONNECT_PENDING);
  EXPECT_EQ(request.vi.disconnect().code, VIP_SUCCESS);
  EXPECT_NE(asked.get().code, VIP_SUCCESS);
  EXPECT_EQ(request.vi.state(), VIP_STATE_IDLE);
}

TEST_F(FunctionConnect, TheSameViConnectsAgainAndAgain) {
  const Vi client = near.vi(kConnectLevel), server = far.vi(kConnectLevel);
  for (int i = 0; i < 20; ++i) {
    connect(client, server);
    must((i % 2 == 0 ? client : server).disconnect());
    const Vi& other = i % 2 == 0 ? server : client;
    EXPECT_EQ(other.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
    must(other.disconnect());
  }
}

}  // namespace
}  // namespace conformance
