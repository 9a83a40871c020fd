// VipxClaim, VipxUnclaim, VipxVerify: what the agent is asked.
#include <arpa/inet.h>
#include <sys/socket.h>

#include "vipl/vipl_ext.h"
#include "tests/unit/vipl/fixture.h"

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
  ASSERT_EQ(VipxClaim(nic, &flow, token), VIP_SUCCESS);
  EXPECT_EQ(token[0], 40000 & 0xff);
  EXPECT_EQ(token[15], 40000 & 0xff);
  layout::CommandBody asked = agent->last_command();
  EXPECT_EQ(asked.op, layout::Op::kClaim);
  const Flow expected{Flow::kIpv4, 40000, 80, 0, {10, 0, 0, 1}, {10, 0, 0, 2}};
  EXPECT_EQ(asked.flow, expected);

  flow = flow_of(AF_INET6, "::ffff:10.0.0.1", "::ffff:10.0.0.2");
  ASSERT_EQ(VipxClaim(nic, &flow, token), VIP_SUCCESS);
  EXPECT_EQ(agent->last_command().flow, expected);

  flow = flow_of(AF_INET6, "fe80::1", "fe80::2");
  ASSERT_EQ(VipxClaim(nic, &flow, token), VIP_SUCCESS);
  asked = agent->last_command();
  EXPECT_EQ(asked.flow.family, Flow::kIpv6);
  EXPECT_EQ(std::memcmp(asked.flow.local, flow.LocalAddress, 16), 0);
  EXPECT_EQ(std::memcmp(asked.flow.remote, flow.RemoteAddress, 16), 0);

  ASSERT_EQ(VipxUnclaim(nic, token), VIP_SUCCESS);
  asked = agent->last_command();
  EXPECT_EQ(asked.op, layout::Op::kUnclaim);
  EXPECT_EQ(std::memcmp(asked.token.data(), token, sizeof token), 0);
}

TEST_F(ViplClaims, AreVerifiedByTheHost) {
  start();
  Host host;
  const VipxFlow flow = flow_of(AF_INET, "10.0.0.1", "10.0.0.2");
  unsigned char token[VIPX_TOKEN_BYTES] = {80};
  EXPECT_EQ(VipxVerify(nic, host.get(), &flow, token), VIP_SUCCESS);
  const layout::CommandBody asked = agent->last_command();
  EXPECT_EQ(asked.op, layout::Op::kVerify);
  EXPECT_EQ(std::memcmp(asked.remote.host, "\2\3\4\5\6\7", 6), 0);
  EXPECT_EQ(asked.flow.local_port, 40000);
  token[0] = 81;
  EXPECT_EQ(VipxVerify(nic, host.get(), &flow, token), VIP_ERROR_NAMESERVICE);
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
