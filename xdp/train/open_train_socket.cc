#include "xdp/train/open_train_socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "xdp/port_error.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace viaduct {
namespace {

constexpr int kSocketBytes = 8 << 20;

[[noreturn]] void fail(const std::string& interface, const char* what) {
  throw PortError(interface + ": no trains: " + what + ": " + std::strerror(errno));
}

void find_addresses(const std::string& interface, TrainAddress& out) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) fail(interface, "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(list, freeifaddrs);
  bool any = false;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || interface != each->ifa_name) continue;
    if (each->ifa_addr->sa_family == AF_INET && out.v4[0] == 0) {
      const auto* const v4 = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
      std::memcpy(out.v4.data(), &v4->sin_addr, out.v4.size());
      any = true;
    } else if (each->ifa_addr->sa_family == AF_INET6 && out.v6[0] == 0) {
      const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
      if (!IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
      std::memcpy(out.v6.data(), &v6->sin6_addr, out.v6.size());
      any = true;
    }
  }
  if (!any) throw PortError(interface + ": no trains: it has no IP address");
}

// Lets the port be shared while the two sockets are bound to it. SO_REUSEPORT shares a port only among sockets of one
// user, so no other user can get it meanwhile.
bool share_port(int fd, bool shares) {
  const int value = shares ? 1 : 0;
  return setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &value, sizeof value) == 0;
}

void receive_nothing(const std::string& interface, int fd) {
  sock_filter drop[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog filter{1, drop};
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) fail(interface, "SO_ATTACH_FILTER");
}

// A port that is free on all interfaces. A socket loses a port of the kernel's choice when it is connected and then
// disconnected: so the kernel chooses the port for the guard, and the socket binds to it by name.
void bind_with_guard(const std::string& interface, OpenedTrainSocket& out) {
  out.guard = Descriptor(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int guard = out.guard.get(), fd = out.socket.get(), off = 0;
  if (guard < 0) fail(interface, "socket");
  if (setsockopt(guard, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) fail(interface, "IPV6_V6ONLY");
  receive_nothing(interface, guard);
  sockaddr_in6 at{};
  at.sin6_family = AF_INET6;
  socklen_t bytes = sizeof at;
  const auto name = reinterpret_cast<sockaddr*>(&at);
  if (bind(guard, name, sizeof at) != 0) fail(interface, "bind");
  if (getsockname(guard, name, &bytes) != 0) fail(interface, "getsockname");
  if (!share_port(guard, true) || !share_port(fd, true)) fail(interface, "SO_REUSEPORT");
  if (bind(fd, name, sizeof at) != 0) fail(interface, "bind");
  if (!share_port(guard, false) || !share_port(fd, false)) fail(interface, "SO_REUSEPORT");
  out.address.port = ntohs(at.sin6_port);
}

}  // namespace

OpenedTrainSocket open_train_socket(const std::string& interface) {
  OpenedTrainSocket out;
  find_addresses(interface, out.address);
  out.socket = Descriptor(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = out.socket.get();
  if (fd < 0) fail(interface, "socket");
  const int on = 1, off = 0;
  if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(),
                 static_cast<socklen_t>(interface.size() + 1)) != 0) {
    fail(interface, "SO_BINDTODEVICE");
  }
  // Frames do not leave the link, whatever address a peer tells.
  if (setsockopt(fd, SOL_SOCKET, SO_DONTROUTE, &on, sizeof on) != 0) fail(interface, "SO_DONTROUTE");
  if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) fail(interface, "IPV6_V6ONLY");
  if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on) != 0) fail(interface, "UDP_GRO");
  // Asks for as much as the system allows if the agent may not go beyond the system's limit.
  for (const int name : {SO_RCVBUFFORCE, SO_SNDBUFFORCE}) {
    if (setsockopt(fd, SOL_SOCKET, name, &kSocketBytes, sizeof kSocketBytes) == 0) continue;
    setsockopt(fd, SOL_SOCKET, name == SO_RCVBUFFORCE ? SO_RCVBUF : SO_SNDBUF, &kSocketBytes,
               sizeof kSocketBytes);
  }
  bind_with_guard(interface, out);
  return out;
}

}  // namespace viaduct
