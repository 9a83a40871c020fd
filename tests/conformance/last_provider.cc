// Tests of the provider's own end. They come last, for they end it.
#include "suite.h"

namespace conformance {
namespace {

using LastProvider = Conformance;
constexpr VIP_RELIABILITY_LEVEL kLevel = VIP_SERVICE_RELIABLE_DELIVERY;

TEST_F(LastProvider, ItsEndIsCatastrophicAndEverythingComesBack) {
  NEEDS_KILL();
  const Cq cq = must(near.create_cq(16)), empty = must(near.create_cq(16));
  const Vi a = must(near.create_vi(near.vi_attributes(kLevel), {}, cq.handle));
  const Vi b = far.vi(kLevel);
  connect(a, b);
  const Vi idle = near.vi(kLevel), pending = near.vi(kLevel);
  const Region in = near.memory(64);
  for (int i = 0; i < 3; ++i) must(a.post_recv({.segments = {in.all()}}));
  auto waiting = start([=] { return empty.wait(kInfinite); });
  auto requests = start([nic = near, address = near.address(fresh())] {
    return nic.connect_wait(address, kInfinite);
  });
  must(pending.connect_peer_request(near.address("p"), far.address("q"), kInfinite));
  NoProvider gone;

  const ErrorEvent event = near.await_error(VIP_ERROR_CATASTROPHIC);
  EXPECT_TRUE(event.came);
  EXPECT_EQ(event.resource, VIP_RESOURCE_NIC);
  EXPECT_EQ(a.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
  for (int i = 0; i < 3; ++i) {
    const Completion flushed = a.recv_wait();
    EXPECT_EQ(flushed.code, VIP_DESCRIPTOR_ERROR);
    EXPECT_NE(flushed.id, kNoDescriptor);
    EXPECT_NE(flushed.status.errors(), 0U);
  }
  EXPECT_EQ(waiting.get().code, VIP_ERROR_RESOURCE);
  EXPECT_EQ(requests.get().code, VIP_ERROR_RESOURCE);

  EXPECT_EQ(Nic::open(here, options.device).code, VIP_ERROR_RESOURCE);
  EXPECT_EQ(near.set_mem_attributes(in.address, in.handle, near.mem_attributes()).code,
            VIP_ERROR_RESOURCE);
  EXPECT_EQ(near.connect_wait(near.address("x"), 10).code, VIP_ERROR_RESOURCE);
  EXPECT_EQ(near.connect_accept(ConnHandle{}, idle).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(idle.connect_request(near.address("x"), far.address("y"), 10).code,
            VIP_ERROR_RESOURCE);
  EXPECT_EQ(idle.connect_peer_request(near.address("x"), far.address("y"), 10).code,
            VIP_ERROR_RESOURCE);
  EXPECT_EQ(pending.connect_peer_done().code, VIP_ERROR_RESOURCE);
  EXPECT_EQ(pending.connect_peer_wait().code, VIP_ERROR_RESOURCE);
  EXPECT_EQ(near.discover().code, VIP_ERROR_RESOURCE);
  EXPECT_EQ(near.create_cq(16).code, VIP_ERROR_RESOURCE);

  // The program's usual clean-up calls succeed.
  EXPECT_EQ(a.disconnect().code, VIP_SUCCESS);
  EXPECT_EQ(a.destroy().code, VIP_SUCCESS);
  EXPECT_EQ(near.close().code, VIP_SUCCESS);
  gone.start();
  EXPECT_EQ(open_near().close().code, VIP_SUCCESS) << "a new provider can be used at once";
}

TEST_F(LastProvider, AnAcceptThatItsEndMeetsFails) {
  NEEDS_KILL();
  const std::string name = fresh();
  const Vi client = far.vi(kLevel), server = near.vi(kLevel);
  auto asked = start([client, from = far.address("c"), to = near.address(name)] {
    return client.connect_request(from, to, 3000);
  });
  const Incoming incoming = must(near.connect_wait(near.address(name)));
  NoProvider gone;
  EXPECT_EQ(near.connect_accept(incoming.conn, server).code, VIP_ERROR_RESOURCE);
  EXPECT_NE(asked.get().code, VIP_SUCCESS);
}

TEST_F(LastProvider, ThePeersEndIsALostConnection) {
  NEEDS_KILL();
  const auto [a, b] = connected(kLevel);
  const Region in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}}));
  NoProvider gone;
  EXPECT_TRUE(far.await_error(VIP_ERROR_CONN_LOST).came);
  EXPECT_EQ(b.state(), VIP_STATE_ERROR);
  EXPECT_TRUE(b.recv_wait().status.has(VIP_STATUS_DESC_FLUSHED_ERROR));
}

}  // namespace
}  // namespace conformance
