// VipErrorCallback and what is told to it, VipQuerySystemManagementInfo, one vendor's additions.
#include "suite.h"

namespace conformance {
namespace {

using FunctionErrors = Conformance;
constexpr VIP_RELIABILITY_LEVEL kErrorLevel = VIP_SERVICE_RELIABLE_DELIVERY;

#define EXPECT_VI_EVENT(event, whose)                 \
  do {                                                \
    const ErrorEvent seen = (event);                  \
    EXPECT_TRUE(seen.came);                           \
    EXPECT_EQ(seen.nic, (whose).nic);                 \
    EXPECT_EQ(seen.resource, VIP_RESOURCE_VI);        \
    EXPECT_EQ(seen.vi, (whose).handle);               \
  } while (false)

TEST_F(FunctionErrors, ThePeersDisconnectIsALostConnection) {
  CHECKLIST(11);
  for (const VIP_RELIABILITY_LEVEL level : kLevels) {
    if (!near.supports(level)) continue;
    const auto [a, b] = connected(level);
    must(b.disconnect());
    EXPECT_VI_EVENT(near.await_error(VIP_ERROR_CONN_LOST), a);
    EXPECT_TRUE(far.errors().empty()) << "who disconnects knows it";
  }
}

TEST_F(FunctionErrors, ThePeersDeathIsALostConnection) {
  CHECKLIST(11);
  CHECKLIST(28);
  NEEDS_TWO_PROCESSES();
  const HostPtr other = another_there();
  const Nic nic = must(Nic::open(other, options.peer_device));
  const Vi a = near.vi(kErrorLevel), b = nic.vi(kErrorLevel);
  connect(near, a, nic, b);
  kill_peer(other);
  EXPECT_VI_EVENT(near.await_error(VIP_ERROR_CONN_LOST), a);
  EXPECT_EQ(a.state(), VIP_STATE_ERROR);
}

TEST_F(FunctionErrors, ABrokenLinkIsALostConnection) {
  NEEDS_CUT();
  const auto [a, b] = connected(kErrorLevel);
  Cut cut;
  EXPECT_VI_EVENT(near.await_error(VIP_ERROR_CONN_LOST), a);
  EXPECT_VI_EVENT(far.await_error(VIP_ERROR_CONN_LOST), b);
}

TEST_F(FunctionErrors, RdmaOverABrokenLinkIsATransportError) {
  NEEDS_CUT();
  const auto [a, b] = connected_rdma(kErrorLevel);
  const Region out = near.rdma_memory(64), in = far.rdma_memory(64);
  Cut cut;
  must(a.post_send({.op = Op::kRdmaWrite, .segments = {out.all()}, .remote = in.part(0, 0)}));
  EXPECT_VI_EVENT(near.await_error(VIP_ERROR_RDMA_TRANSPORT), a);
  EXPECT_TRUE(a.send_wait().status.has(VIP_STATUS_TRANSPORT_ERROR));
}

TEST_F(FunctionErrors, AMessageWithoutAReceive) {
  for (const VIP_RELIABILITY_LEVEL level : kLevels) {
    if (!near.supports(level)) continue;
    const auto [a, b] = connected(level);
    const Region out = near.memory(64);
    must(a.post_send({.segments = {out.all()}}));
    EXPECT_VI_EVENT(far.await_error(VIP_ERROR_RECVQ_EMPTY), b);
    if (level == VIP_SERVICE_UNRELIABLE) {
      EXPECT_EQ(b.state(), VIP_STATE_CONNECTED);
    } else {
      EXPECT_VI_EVENT(far.await_error(VIP_ERROR_CONN_LOST), b);
      EXPECT_VI_EVENT(near.await_error(VIP_ERROR_CONN_LOST), a);
    }
    must(a.disconnect());
    if (level == VIP_SERVICE_UNRELIABLE) {
      EXPECT_VI_EVENT(far.await_error(VIP_ERROR_CONN_LOST), b);
    }
  }
}

TEST_F(FunctionErrors, RdmaThatIsNotAllowed) {
  for (const bool read : {false, true}) {
    if (read && !near.supports_rdma_read(kErrorLevel)) continue;
    const auto [a, b] = connected_rdma(kErrorLevel);
    const Region out = near.rdma_memory(64), in = far.memory(64);
    must(a.post_send({.op = read ? Op::kRdmaRead : Op::kRdmaWrite,
                      .segments = {out.all()},
                      .remote = in.part(0, 0)}));
    EXPECT_VI_EVENT(far.await_error(read ? VIP_ERROR_RDMAR_PROT : VIP_ERROR_RDMAW_PROT), b);
    EXPECT_VI_EVENT(far.await_error(VIP_ERROR_CONN_LOST), b);
  }
}

TEST_F(FunctionErrors, AnRdmaWriteToMemoryThatIsGone) {
  const auto [a, b] = connected_rdma(kErrorLevel);
  const Region out = near.rdma_memory(4096), in = far.rdma_memory(4096);
  in.unmap();
  must(a.post_send({.op = Op::kRdmaWrite, .segments = {out.all()}, .remote = in.part(0, 0)}));
  const Completion sent = a.send_wait();
  if (sent.code == VIP_SUCCESS) GTEST_SKIP() << "the provider has kept the memory";
  EXPECT_VI_EVENT(far.await_error(VIP_ERROR_RDMAW_DATA), b);
}

TEST_F(FunctionErrors, AnRdmaWriteThatIsCutOff) {
  // A provider may fetch much of the data before it sends any.
  const std::uint64_t bytes = near.attributes().max_transfer_size;
  NEEDS(bytes >= 200000, "needs long messages");
  const auto [a, b] = connected_rdma(kErrorLevel);
  const Region first = near.rdma_memory(bytes - 4096), second = near.rdma_memory(4096);
  const Region in = far.rdma_memory(bytes);
  second.unmap();
  must(a.post_send({.op = Op::kRdmaWrite,
                    .segments = {first.all(), second.all()},
                    .remote = in.part(0, 0)}));
  const Completion sent = a.send_wait();
  if (sent.code == VIP_SUCCESS) GTEST_SKIP() << "the provider has kept the memory";
  EXPECT_VI_EVENT(far.await_error(VIP_ERROR_RDMAW_ABORT), b);
  EXPECT_VI_EVENT(far.await_error(VIP_ERROR_CONN_LOST), b);
}

TEST_F(FunctionErrors, ADescriptorOutsideItsRegion) {
  const auto [a, b] = connected(kErrorLevel);
  const Region out = near.memory(64), descriptors = near.memory(4096), other = near.memory(64);
  const Posted send = must(a.post_send({.segments = {out.all()},
                                        .at = descriptors.address,
                                        .memory_handle = other.handle}));
  const ErrorEvent event = near.await_error(VIP_ERROR_POST_DESC);
  EXPECT_TRUE(event.came);
  EXPECT_EQ(event.resource, VIP_RESOURCE_DESCRIPTOR);
  EXPECT_EQ(event.descriptor, send.id);
  EXPECT_TRUE(a.send_wait().status.has(VIP_STATUS_PROTECTION_ERROR));
}

TEST_F(FunctionErrors, AReceiveOutsideItsRegion) {
  const auto [a, b] = connected(kErrorLevel);
  const Region out = near.memory(64), in = far.memory(64), descriptors = far.memory(4096),
               other = far.memory(64);
  const Posted receive = must(b.post_recv({.segments = {in.all()},
                                           .at = descriptors.address,
                                           .memory_handle = other.handle}));
  must(a.post_send({.segments = {out.all()}}));
  const ErrorEvent event = far.await_error(VIP_ERROR_COMP_PROT);
  EXPECT_TRUE(event.came);
  EXPECT_EQ(event.resource, VIP_RESOURCE_DESCRIPTOR);
  EXPECT_EQ(event.descriptor, receive.id);
  EXPECT_TRUE(b.recv_wait().status.has(VIP_STATUS_PROTECTION_ERROR));
}

TEST_F(FunctionErrors, AQueueThatIsFull) {
  const Vi vi = near.vi(kErrorLevel);
  const Region in = near.memory(64);
  for (std::uint64_t i = 0; i < near.attributes().max_descriptors_per_queue; ++i) {
    must(vi.post_recv({.segments = {in.all()}}));
  }
  EXPECT_EQ(vi.post_recv({.segments = {in.all()}}).code, VIP_ERROR_RESOURCE);
  EXPECT_VI_EVENT(near.await_error(VIP_ERROR_VI_OVERRUN), vi);
}

TEST_F(FunctionErrors, AnotherNicHandleHearsNothing) {
  const Nic other = open_near();
  const auto [a, b] = connected(kErrorLevel);
  must(b.disconnect());
  EXPECT_TRUE(near.await_error(VIP_ERROR_CONN_LOST).came);
  EXPECT_TRUE(other.errors().empty());
}

TEST_F(FunctionErrors, NullBringsTheDefaultBack) {
  CHECKLIST(15);
  EXPECT_EQ(near.error_callback(OnError::kDefault).code, VIP_SUCCESS);
  const auto [a, b] = connected(kErrorLevel);
  must(b.disconnect());
  EXPECT_EQ(a.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR);
  EXPECT_FALSE(near.await_error(VIP_ERROR_CONN_LOST, 50).came);
  EXPECT_EQ(near.error_callback(OnError::kKeep).code, VIP_SUCCESS);
  const auto [c, d] = connected(kErrorLevel);
  must(d.disconnect());
  EXPECT_VI_EVENT(near.await_error(VIP_ERROR_CONN_LOST), c);
}

TEST_F(FunctionErrors, AHandlerMayCallTheLibrary) {
  CHECKLIST(15);
  must(near.error_callback(OnError::kDisconnect));
  const auto [a, b] = connected(kErrorLevel);
  must(b.disconnect());
  EXPECT_EQ(a.await_state(VIP_STATE_IDLE), VIP_STATE_IDLE) << "the handler has disconnected";
}

TEST_F(FunctionErrors, AHandlerMayEndTheProcess) {
  CHECKLIST(15);
  NEEDS_TWO_PROCESSES();
  const HostPtr other = another_there();
  const Nic nic = must(Nic::open(other, options.peer_device));
  const Vi a = near.vi(kErrorLevel), b = nic.vi(kErrorLevel), c = near.vi(kErrorLevel), d = nic.vi(kErrorLevel);
  connect(near, a, nic, b);
  connect(near, c, nic, d);
  must(nic.error_callback(OnError::kExit));
  must(a.disconnect());
  peer_ends(other);
  EXPECT_EQ(c.await_state(VIP_STATE_ERROR), VIP_STATE_ERROR) << "the process has ended";
}

TEST_F(FunctionErrors, AHandlerThatBlocksHoldsNobodyElseUp) {
  CHECKLIST(15);
  must(near.error_callback(OnError::kBlock));
  const auto [a, b] = connected(kErrorLevel);
  must(b.disconnect());
  EXPECT_TRUE(near.await_error(VIP_ERROR_CONN_LOST).came);
  const auto [c, d] = connected(kErrorLevel);
  const Region out = near.memory(64), in = far.memory(64);
  must(d.post_recv({.segments = {in.all()}}));
  must(c.post_send({.segments = {out.all()}}));
  EXPECT_EQ(d.recv_wait().code, VIP_SUCCESS);
  EXPECT_EQ(c.send_wait().code, VIP_SUCCESS);
  near.release_handlers();
}

TEST_F(FunctionErrors, CallbackRefusesABadHandle) {
  EXPECT_EQ(here->call<op::error_callback>(NicHandle{}, OnError::kKeep).code,
            VIP_INVALID_PARAMETER);
}

TEST_F(FunctionErrors, AutodiscoveryFindsTheOtherHost) {
  const Discovery found = must(near.discover());
  bool peer = false;
  for (const Address& address : found.addresses) {
    EXPECT_EQ(address.host.size(), 6U);
    peer |= address.host == far.attributes().address;
  }
  if (two_hosts()) {
    EXPECT_TRUE(peer);
    EXPECT_GE(found.hops, 1U);
  }
}

TEST_F(FunctionErrors, SystemManagementInfoRefusesNonsense) {
  EXPECT_EQ(near.query_system_management_info(77).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(near.discover(null(3)).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionErrors, UserDataIsKeptWithTheVi) {
  const auto set = optional_function<void(VIP_VI_HANDLE, VIP_PVOID)>("VipSetUserData");
  const auto get = optional_function<VIP_PVOID(VIP_VI_HANDLE)>("VipGetUserData");
  if (set == nullptr || get == nullptr) GTEST_SKIP() << "one vendor's addition is not there";
  const Vi a = near.vi(kErrorLevel), b = near.vi(kErrorLevel);
  const auto keep = [&](const Vi& vi, void* data) {
    make_recorded(Function::kSetUserData, [&] {
      set(Nic::raw_handle(vi.handle), data);
      return VIP_SUCCESS;
    });
  };
  const auto kept = [&](const Vi& vi) {
    void* data = nullptr;
    make_recorded(Function::kGetUserData, [&] {
      data = get(Nic::raw_handle(vi.handle));
      return VIP_SUCCESS;
    });
    return data;
  };
  int data[2];
  EXPECT_EQ(kept(a), nullptr);
  keep(a, &data[0]);
  keep(b, &data[1]);
  EXPECT_EQ(kept(a), &data[0]);
  EXPECT_EQ(kept(b), &data[1]);
}

}  // namespace
}  // namespace conformance
