// VipxClaim, VipxUnclaim, VipxVerify: questions to the agent.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "vipl/session/command.h"
#include "vipl/session/session_guard.h"

using namespace viaduct::vipl;
using viaduct::ClaimToken;
using viaduct::Flow;
using viaduct::layout::Op;

namespace {

constexpr std::uint8_t kMapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::size_t kIpv4Bytes = 4;

// IPv4 in the addresses of IPv6 sockets is IPv4. False if it is no family of ours.
bool flow_in(const VipxFlow& given, Flow& flow) {
  static_assert(sizeof given.LocalAddress == Flow::kAddressBytes);
  flow = {};
  flow.local_port = ntohs(given.LocalPort);
  flow.remote_port = ntohs(given.RemotePort);
  flow.protocol = given.Protocol == IPPROTO_TCP ? Flow::kTcp : given.Protocol;
  const bool mapped = std::memcmp(given.LocalAddress, kMapped, sizeof kMapped) == 0 &&
                      std::memcmp(given.RemoteAddress, kMapped, sizeof kMapped) == 0;
  if (given.Family == AF_INET || (given.Family == AF_INET6 && mapped)) {
    const std::size_t at = given.Family == AF_INET ? 0 : sizeof kMapped;
    flow.family = Flow::kIpv4;
    std::memcpy(flow.local, given.LocalAddress + at, kIpv4Bytes);
    std::memcpy(flow.remote, given.RemoteAddress + at, kIpv4Bytes);
    return true;
  }
  flow.family = Flow::kIpv6;
  std::memcpy(flow.local, given.LocalAddress, sizeof flow.local);
  std::memcpy(flow.remote, given.RemoteAddress, sizeof flow.remote);
  return given.Family == AF_INET6;
}

ClaimToken token_in(const unsigned char* bytes) {
  static_assert(sizeof(ClaimToken) == VIPX_TOKEN_BYTES);
  ClaimToken token;
  std::memcpy(token.data(), bytes, token.size());
  return token;
}

}  // namespace

VIP_RETURN VipxClaim(VIP_NIC_HANDLE nic, const VipxFlow* flow, unsigned char* token) {
  const SessionGuard inside(nic, Kind::kNic);
  if (!inside || flow == nullptr || token == nullptr) return VIP_INVALID_PARAMETER;
  Command command(inside.session(), Op::kClaim);
  if (!flow_in(*flow, command->flow)) return VIP_INVALID_PARAMETER;
  const VIP_RETURN result = command.run();
  if (result == VIP_SUCCESS) std::memcpy(token, command->token.data(), VIPX_TOKEN_BYTES);
  return result;
}

VIP_RETURN VipxUnclaim(VIP_NIC_HANDLE nic, const unsigned char* token) {
  const SessionGuard inside(nic, Kind::kNic);
  if (!inside || token == nullptr) return VIP_INVALID_PARAMETER;
  Command command(inside.session(), Op::kUnclaim);
  command->token = token_in(token);
  return command.run();
}

VIP_RETURN VipxVerify(VIP_NIC_HANDLE nic, const VIP_NET_ADDRESS* host, const VipxFlow* flow,
                      const unsigned char* token) {
  const SessionGuard inside(nic, Kind::kNic);
  if (!inside || host == nullptr || flow == nullptr || token == nullptr ||
      host->HostAddressLen != viaduct::layout::kHostBytes) {
    return VIP_INVALID_PARAMETER;
  }
  Command command(inside.session(), Op::kVerify);
  if (!flow_in(*flow, command->flow)) return VIP_INVALID_PARAMETER;
  std::memcpy(command->remote.host,
              reinterpret_cast<const std::uint8_t*>(host) + offsetof(VIP_NET_ADDRESS, HostAddress),
              viaduct::layout::kHostBytes);
  command->token = token_in(token);
  return command.run();
}
