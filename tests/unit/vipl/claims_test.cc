// VipxClaim, VipxUnclaim, VipxVerify: their questions to the agent.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "vipl/vipl_ext.h"
#include "tests/unit/vipl/fixture.h"
#include "xdp/descriptor.h"

namespace viaduct::test {
namespace {

using ViplClaims = ViplTest;

VipxFlow flow_of(int family, const char* local, const char* remote) {
  VipxFlow flow = {};
  flow.Family = static_cast<VIP_UINT16>(family);
  flow.LocalPort = htons(40000);
  flow.RemotePort = htons(80);
  EXPECT_EQ(inet_pton(family, local, flow.LocalAddress), 1);
  EXPECT_EQ(inet_pton(family, remote, flow.RemoteAddress), 1);
  return flow;
}

struct Host {
  alignas(VIP_NET_ADDRESS) unsigned char room[16] = {6, 0, 0, 0, 2, 3, 4, 5, 6, 7};
  VIP_NET_ADDRESS* get() { return reinterpret_cast<VIP_NET_ADDRESS*>(room); }
};

TEST_F(ViplClaims, AreAskedForAsTheFlowIs) {
  start();
  unsigned char token[VIPX_TOKEN_BYTES] = {};
  VipxFlow flow = flow_of(AF_INET, "10.0.0.1", "10.0.0.2");
  std::memset(flow.LocalAddress + 4, 0xee, 12);  // does not count
  // That connection does not exist.
  const auto claim = [&] { EXPECT_EQ(VipxClaim(nic, &flow, token), VIP_ERROR_NAMESERVICE); };
  layout::CommandBody asked = asked_by(claim);
  EXPECT_EQ(asked.op, layout::Op::kClaim);
  const Flow expected{Flow::kIpv4, 40000, 80, 0, {10, 0, 0, 1}, {10, 0, 0, 2}};
  EXPECT_EQ(asked.flow, expected);

  flow = flow_of(AF_INET6, "::ffff:10.0.0.1", "::ffff:10.0.0.2");
  EXPECT_EQ(asked_by(claim).flow, expected);

  flow.Protocol = IPPROTO_TCP;
  EXPECT_EQ(asked_by(claim).flow, expected);
  flow.Protocol = IPPROTO_UDP;
  Flow of_udp = expected;
  of_udp.protocol = Flow::kUdp;
  EXPECT_EQ(asked_by(claim).flow, of_udp);

  flow = flow_of(AF_INET6, "fe80::1", "fe80::2");
  asked = asked_by(claim);
  EXPECT_EQ(asked.flow.family, Flow::kIpv6);
  EXPECT_EQ(std::memcmp(asked.flow.local, flow.LocalAddress, 16), 0);
  EXPECT_EQ(std::memcmp(asked.flow.remote, flow.RemoteAddress, 16), 0);

  for (unsigned i = 0; i < sizeof token; ++i) token[i] = static_cast<unsigned char>(i + 1);
  asked = asked_by([&] { EXPECT_EQ(VipxUnclaim(nic, token), VIP_INVALID_PARAMETER); });
  EXPECT_EQ(asked.op, layout::Op::kUnclaim);
  EXPECT_EQ(std::memcmp(asked.token.data(), token, sizeof token), 0);
}

TEST_F(ViplClaims, AreVerifiedByTheHost) {
  start();
  Host host;
  const VipxFlow flow = flow_of(AF_INET, "10.0.0.1", "10.0.0.2");
  unsigned char token[VIPX_TOKEN_BYTES] = {80};
  const layout::CommandBody asked = asked_by([&] {
    EXPECT_EQ(VipxVerify(nic, host.get(), &flow, token), VIP_ERROR_NAMESERVICE);
  });
  EXPECT_EQ(asked.op, layout::Op::kVerify);
  EXPECT_EQ(std::memcmp(asked.remote.host, "\2\3\4\5\6\7", 6), 0);
  EXPECT_EQ(asked.flow.local_port, 40000);
}

// On the NIC of this host's loopback interface: a connection of this program with itself.
TEST_F(ViplClaims, AreGoodAsLongAsTheyAreHeld) {
  agent = std::make_unique<TestAgent>();
  ASSERT_EQ(VipOpenNic("via_lo", &nic), VIP_SUCCESS);
  VIP_NIC_ATTRIBUTES attributes;
  ASSERT_EQ(VipQueryNic(nic, &attributes), VIP_SUCCESS);
  Host host;
  std::memcpy(host.room + 4, attributes.LocalNicAddress, 6);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Descriptor ours(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto* const there = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listener.get(), there, bytes) | listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), there, &bytes), 0);
  ASSERT_EQ(::connect(ours.get(), there, bytes), 0);
  VipxFlow flow = flow_of(AF_INET, "127.0.0.1", "127.0.0.1");
  flow.RemotePort = address.sin_port;
  ASSERT_EQ(getsockname(ours.get(), there, &bytes), 0);
  flow.LocalPort = address.sin_port;
  unsigned char token[VIPX_TOKEN_BYTES] = {};
  ASSERT_EQ(VipxClaim(nic, &flow, token), VIP_SUCCESS);
  VipxFlow theirs = flow;
  std::swap(theirs.LocalPort, theirs.RemotePort);
  EXPECT_EQ(VipxVerify(nic, host.get(), &theirs, token), VIP_SUCCESS);
  for (unsigned char& byte : token) {
    byte ^= 1;
    EXPECT_EQ(VipxVerify(nic, host.get(), &theirs, token), VIP_ERROR_NAMESERVICE);
    byte ^= 1;
  }
  EXPECT_EQ(VipxUnclaim(nic, token), VIP_SUCCESS);
  EXPECT_EQ(VipxVerify(nic, host.get(), &theirs, token), VIP_ERROR_NAMESERVICE);
}

TEST_F(ViplClaims, RefuseWhatMakesNoSense) {
  start();
  Host host;
  VipxFlow flow = flow_of(AF_INET, "10.0.0.1", "10.0.0.2");
  unsigned char token[VIPX_TOKEN_BYTES] = {};
  EXPECT_EQ(VipxClaim(nullptr, &flow, token), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipxClaim(nic, nullptr, token), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipxClaim(nic, &flow, nullptr), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipxUnclaim(nic, nullptr), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipxVerify(nic, nullptr, &flow, token), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipxVerify(nic, host.get(), nullptr, token), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipxVerify(nic, host.get(), &flow, nullptr), VIP_INVALID_PARAMETER);
  host.get()->HostAddressLen = 5;
  EXPECT_EQ(VipxVerify(nic, host.get(), &flow, token), VIP_INVALID_PARAMETER);
  flow.Family = AF_UNIX;
  EXPECT_EQ(VipxClaim(nic, &flow, token), VIP_INVALID_PARAMETER);
  agent->die();
  flow.Family = AF_INET;
  EXPECT_EQ(VipxClaim(nic, &flow, token), VIP_ERROR_RESOURCE);
}

}  // namespace
}  // namespace viaduct::test
