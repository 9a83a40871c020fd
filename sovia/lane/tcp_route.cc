#include "sovia/lane/tcp_route.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>

#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"

namespace viaduct::sovia {
namespace {

bool end_of(const sockaddr_storage& from, bool& ipv6, FlowEnd& end) {
  end = {};
  if (from.ss_family == AF_INET) {
    const auto& a = reinterpret_cast<const sockaddr_in&>(from);
    ipv6 = false;
    memcpy(end.address, &a.sin_addr, 4);
    memcpy(end.port, &a.sin_port, 2);
    return true;
  }
  if (from.ss_family != AF_INET6) return false;
  const auto& a = reinterpret_cast<const sockaddr_in6&>(from);
  ipv6 = !IN6_IS_ADDR_V4MAPPED(&a.sin6_addr);
  if (ipv6) {
    memcpy(end.address, &a.sin6_addr, 16);
  } else {
    memcpy(end.address, reinterpret_cast<const std::uint8_t*>(&a.sin6_addr) + 12, 4);
  }
  memcpy(end.port, &a.sin6_port, 2);
  return true;
}

// A question to the kernel's routing tables.
class Question {
 public:
  Question(std::uint16_t type, std::size_t header) {
    memset(room_, 0, sizeof room_);
    message().nlmsg_type = type;
    message().nlmsg_flags = NLM_F_REQUEST;
    message().nlmsg_len = static_cast<std::uint32_t>(NLMSG_LENGTH(header));
  }

  template <class T>
  T& body() {
    return *static_cast<T*>(NLMSG_DATA(&message()));
  }

  void add(std::uint16_t type, const void* data, std::size_t bytes) {
    const std::size_t at = NLMSG_ALIGN(message().nlmsg_len);
    rtattr attribute{};
    attribute.rta_type = type;
    attribute.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(bytes));
    memcpy(room_ + at, &attribute, sizeof attribute);
    memcpy(room_ + at + RTA_LENGTH(0), data, bytes);
    message().nlmsg_len = static_cast<std::uint32_t>(at + RTA_ALIGN(attribute.rta_len));
  }

  // The answer takes the question's place. kOffLink: there is none.
  Reason ask() {
    const int fd = own_descriptors::adopt(libc::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (fd < 0) return is_forbidden(errno) ? Reason::kSandbox : Reason::kOffLink;
    const std::uint16_t asked = message().nlmsg_type;
    ssize_t got = -1;
    if (libc::send(fd, room_, message().nlmsg_len, 0) > 0) {
      got = libc::recv(fd, room_, sizeof room_, 0);
    }
    own_descriptors::close(fd);
    // RTM_GETx is answered by RTM_NEWx.
    const bool answered = got >= static_cast<ssize_t>(sizeof(nlmsghdr)) && NLMSG_OK(&message(), got) &&
                          message().nlmsg_type == asked - 2;
    return answered ? Reason::kNone : Reason::kOffLink;
  }

  const void* find(std::size_t header, std::uint16_t type, std::size_t bytes) {
    const std::size_t end = message().nlmsg_len;
    for (std::size_t at = NLMSG_SPACE(header); at + sizeof(rtattr) <= end;) {
      const auto& attribute = *reinterpret_cast<const rtattr*>(room_ + at);
      if (attribute.rta_len < sizeof(rtattr) || at + attribute.rta_len > end) break;
      if (attribute.rta_type == type && attribute.rta_len >= RTA_LENGTH(bytes)) {
        return room_ + at + RTA_LENGTH(0);
      }
      at += RTA_ALIGN(attribute.rta_len);
    }
    return nullptr;
  }

 private:
  nlmsghdr& message() { return *reinterpret_cast<nlmsghdr*>(room_); }
  alignas(nlmsghdr) std::uint8_t room_[4096];
};

// tcpi_state, as in the kernel's tcp_states.h.
enum : std::uint8_t {
  kEstablished = 1,
  kFinWait1 = 4,
  kFinWait2 = 5,
  kTimeWait = 6,
  kCloseWait = 8,
  kLastAck = 9,
  kClosing = 11,
};

bool information(int fd, tcp_info& info) {
  socklen_t length = sizeof info;
  info = {};
  return libc::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
         length >= offsetof(tcp_info, tcpi_bytes_retrans) + sizeof info.tcpi_bytes_retrans;
}

bool end_received(std::uint8_t state) {
  switch (state) {
    case kCloseWait:
    case kLastAck:
    case kClosing:
    case kTimeWait:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool flow_of(int fd, Flow& flow) {
  sockaddr_storage local{}, remote{};
  socklen_t length = sizeof remote;
  if (libc::getpeername(fd, reinterpret_cast<sockaddr*>(&remote), &length) != 0) return false;
  length = sizeof local;
  if (libc::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) != 0) return false;
  bool ipv6;
  if (end_of(remote, flow.ipv6, flow.remote) && end_of(local, ipv6, flow.local) &&
      ipv6 == flow.ipv6) {
    return true;
  }
  return failed(EAFNOSUPPORT, false);
}

bool is_loopback(const Flow& flow) {
  if (memcmp(flow.local.address, flow.remote.address, sizeof flow.local.address) == 0) return true;
  if (!flow.ipv6) return flow.remote.address[0] == 127;
  in6_addr remote;
  memcpy(&remote, flow.remote.address, sizeof remote);
  return IN6_IS_ADDR_LOOPBACK(&remote);
}

bool is_forbidden(int error) { return error == EPERM || error == EACCES || error == EAFNOSUPPORT; }

Reason find_way(const Flow& flow, Way& way) {
  const std::size_t bytes = flow.ipv6 ? 16 : 4;
  const auto family = static_cast<std::uint8_t>(flow.ipv6 ? AF_INET6 : AF_INET);
  Question route(RTM_GETROUTE, sizeof(rtmsg));
  route.body<rtmsg>().rtm_family = family;
  route.body<rtmsg>().rtm_dst_len = static_cast<std::uint8_t>(bytes * 8);
  route.add(RTA_DST, flow.remote.address, bytes);
  route.add(RTA_SRC, flow.local.address, bytes);
  route.body<rtmsg>().rtm_src_len = static_cast<std::uint8_t>(bytes * 8);
  if (const Reason why = route.ask(); why != Reason::kNone) return why;
  if (route.body<rtmsg>().rtm_type == RTN_LOCAL) return Reason::kLocal;
  if (route.body<rtmsg>().rtm_type != RTN_UNICAST) return Reason::kOffLink;
  if (route.find(sizeof(rtmsg), RTA_GATEWAY, 4) != nullptr) return Reason::kOffLink;
  const void* const out = route.find(sizeof(rtmsg), RTA_OIF, 4);
  if (out == nullptr) return Reason::kOffLink;
  std::uint32_t index;
  memcpy(&index, out, sizeof index);

  Question neighbour(RTM_GETNEIGH, sizeof(ndmsg));
  neighbour.body<ndmsg>().ndm_family = family;
  neighbour.body<ndmsg>().ndm_ifindex = static_cast<int>(index);
  neighbour.add(NDA_DST, flow.remote.address, bytes);
  if (const Reason why = neighbour.ask(); why != Reason::kNone) return why;
  const void* const mac = neighbour.find(sizeof(ndmsg), NDA_LLADDR, sizeof way.peer);
  if (mac == nullptr) return Reason::kOffLink;
  memcpy(way.peer, mac, sizeof way.peer);
  return if_indextoname(index, way.interface) != nullptr ? Reason::kNone : Reason::kOffLink;
}

// tcpi_bytes_sent also counts bytes that could not leave the host, as its link was down. So the result is the bytes
// that the peer has acknowledged plus those that it has not. The former count the SYN as one byte if this end has
// opened the connection.
bool bytes_written(int fd, Opener opener, std::uint64_t& bytes, std::uint64_t& unsent) {
  for (;;) {
    tcp_info before, after;
    int queued;
    if (!information(fd, before) || libc::ioctl(fd, SIOCOUTQ, &queued) != 0 || !information(fd, after)) {
      return false;
    }
    if (before.tcpi_bytes_acked != after.tcpi_bytes_acked) continue;
    if (after.tcpi_state != kEstablished && after.tcpi_state != kCloseWait) return false;
    const std::uint64_t with_syn = after.tcpi_bytes_acked + static_cast<std::uint64_t>(queued);
    const std::uint64_t tried = after.tcpi_bytes_sent - after.tcpi_bytes_retrans + after.tcpi_notsent_bytes;
    if (opener == Opener::kUnknown && tried != with_syn && tried + 1 != with_syn) return false;
    unsent = after.tcpi_notsent_bytes;
    bytes = opener == Opener::kUnknown ? tried : with_syn - (opener == Opener::kThisEnd ? 1 : 0);
    return true;
  }
}

bool reads_no_more(int fd) {
  char byte;
  return libc::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 && may_get_more(fd);
}

bool may_get_more(int fd) {
  tcp_info now;
  return information(fd, now) &&
         (now.tcpi_state == kEstablished || now.tcpi_state == kFinWait1 || now.tcpi_state == kFinWait2);
}

bool has_only_error(int fd) {
  pollfd at{fd, 0, 0};
  if (libc::poll(&at, 1, 0) <= 0 || (at.revents & POLLERR) == 0) return false;
  int unread = 0;
  return libc::ioctl(fd, SIOCINQ, &unread) == 0 && unread == 0;
}

// Setting TCP_NODELAY flushes pending data, even with TCP_CORK (tcp(7)).
void push(int fd) {
  int before = 0;
  socklen_t length = sizeof before;
  libc::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &before, &length);
  const int on = 1;
  libc::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (before == 0) libc::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &before, sizeof before);
}

bool bytes_read(int fd, std::uint64_t& bytes) {
  for (;;) {
    tcp_info before, after;
    int unread;
    if (!information(fd, before) || libc::ioctl(fd, SIOCINQ, &unread) != 0 ||
        !information(fd, after)) {
      return false;
    }
    if (before.tcpi_bytes_received != after.tcpi_bytes_received) continue;
    bytes = before.tcpi_bytes_received - static_cast<std::uint64_t>(unread);
    // The kernel counts the end of the stream like a byte.
    if (end_received(before.tcpi_state)) --bytes;
    return true;
  }
}

bool has_end_before_error(int fd, std::uint64_t read) {
  tcp_info now;
  int unread = 0;
  if (!information(fd, now) || libc::ioctl(fd, SIOCINQ, &unread) != 0) return false;
  // The kernel counts the end of the stream like a byte.
  return now.tcpi_bytes_received == read + static_cast<std::uint64_t>(unread) + 1;
}

}  // namespace viaduct::sovia
