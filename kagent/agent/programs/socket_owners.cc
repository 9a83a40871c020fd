#include "kagent/agent/programs/socket_owners.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace viaduct {
namespace {

constexpr int kTries = 16;  // answers to questions given up earlier may come first

struct Request {
  nlmsghdr head;
  inet_diag_req_v2 body;
};

// Whether the kernel has found a connection, half of which may be shut down already. If there is none the kernel
// names the socket that listens at the local port.
bool is_connection(const inet_diag_msg& found) {
  switch (found.idiag_state) {
    case TCP_ESTABLISHED:
    case TCP_FIN_WAIT1:
    case TCP_FIN_WAIT2:
    case TCP_CLOSE_WAIT: return true;
    default: return false;
  }
}

// A socket that every program has closed has no inode. Of UDP the kernel names the socket that a datagram of this
// flow would be delivered to.
bool is_held(const Flow& flow, const inet_diag_msg& found) {
  return found.idiag_inode != 0 && (flow.protocol == Flow::kUdp || is_connection(found));
}

}  // namespace

SocketOwners::SocketOwners()
    : socket_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG)) {
  Flow nobody{};
  nobody.family = Flow::kIpv4;
  for (const std::uint16_t protocol : {Flow::kTcp, Flow::kUdp}) {
    nobody.protocol = protocol;
    ask(nobody, 0);
  }
}

bool SocketOwners::send(const Flow& asked, unsigned interface) {
  // For UDP the kernel takes the source for the end that sends, for TCP for its own end.
  const bool udp = asked.protocol == Flow::kUdp;
  const Flow flow = udp ? asked.reversed() : asked;
  Request request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST;
  request.head.nlmsg_seq = ++sequence_;
  inet_diag_req_v2& body = request.body;
  body.sdiag_family = flow.family == Flow::kIpv4 ? AF_INET : AF_INET6;
  body.sdiag_protocol = udp ? IPPROTO_UDP : IPPROTO_TCP;
  body.idiag_states = ~0u;
  body.id.idiag_sport = htons(flow.local_port);
  body.id.idiag_dport = htons(flow.remote_port);
  static_assert(sizeof body.id.idiag_src == Flow::kAddressBytes);
  std::memcpy(body.id.idiag_src, flow.local, sizeof flow.local);
  std::memcpy(body.id.idiag_dst, flow.remote, sizeof flow.remote);
  body.id.idiag_if = interface;
  body.id.idiag_cookie[0] = body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return ::send(socket_.get(), &request, sizeof request, 0) == sizeof request;
}

// The kernel answers while it is asked: nothing here waits.
SocketOwners::Answer SocketOwners::ask(const Flow& flow, unsigned interface) {
  if (!socket_ || !send(flow, interface)) return {false, std::nullopt};
  for (int i = 0; i < kTries; ++i) {
    alignas(nlmsghdr) char room[1024];
    const ssize_t bytes = recv(socket_.get(), room, sizeof room, MSG_DONTWAIT);
    if (bytes < static_cast<ssize_t>(sizeof(nlmsghdr))) return {false, std::nullopt};
    nlmsghdr head;
    std::memcpy(&head, room, sizeof head);
    if (head.nlmsg_seq != sequence_) continue;
    const char* const body = room + NLMSG_HDRLEN;
    if (head.nlmsg_type == NLMSG_ERROR) {
      nlmsgerr error;
      if (bytes < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof error)) return {false, std::nullopt};
      std::memcpy(&error, body, sizeof error);
      return {error.error == -ENOENT, std::nullopt};
    }
    inet_diag_msg found;
    if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        bytes < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof found)) {
      return {false, std::nullopt};
    }
    std::memcpy(&found, body, sizeof found);
    if (!is_held(flow, found)) return {true, std::nullopt};
    return {true, found.idiag_uid};
  }
  return {false, std::nullopt};
}

}  // namespace viaduct
