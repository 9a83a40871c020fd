#include "xdp/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netdb.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "xdp/port_error.h"

namespace viaduct {
namespace {

ifreq request_for(const std::string& name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name.c_str(), sizeof request.ifr_name - 1);
  return request;
}

// The queues that sysfs lists; 1 if it does not know the interface.
std::uint32_t listed_queues(const std::string& name) {
  std::uint32_t n = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/sys/class/net/" + name + "/queues", error), end;
       !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with("rx-")) ++n;
  }
  return std::max(n, 1u);
}

// Receive queues in use.
std::uint32_t receive_queues(int fd, const std::string& name) {
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  ifreq request = request_for(name);
  request.ifr_data = reinterpret_cast<char*>(&channels);
  if (ioctl(fd, SIOCETHTOOL, &request) != 0) return listed_queues(name);
  const std::uint32_t queues = channels.rx_count + channels.combined_count;
  return queues == 0 ? 1 : queues;
}

// Whether there is hardware: the kernel names the bus of every device. (sysfs would tell too, but it may be that of
// another name space.)
bool has_hardware(int fd, const std::string& name) {
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  ifreq request = request_for(name);
  request.ifr_data = reinterpret_cast<char*>(&driver);
  return ioctl(fd, SIOCETHTOOL, &request) == 0 && driver.bus_info[0] != '\0';
}

}  // namespace

Interface query_interface(const std::string& name) {
  if (name.empty() || name.size() >= IFNAMSIZ || if_nametoindex(name.c_str()) == 0) {
    throw PortError("no interface named \"" + name + "\"");
  }
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw PortError(name + ": socket: " + std::strerror(errno));
  Interface out{name, static_cast<int>(if_nametoindex(name.c_str())), {}, 0, 1, false, false};
  ifreq request = request_for(name);
  bool known = ioctl(fd, SIOCGIFHWADDR, &request) == 0;
  const bool ethernet = known && request.ifr_hwaddr.sa_family == ARPHRD_ETHER;
  if (known) std::memcpy(out.address.data(), request.ifr_hwaddr.sa_data, out.address.size());
  request = request_for(name);
  known = known && ioctl(fd, SIOCGIFMTU, &request) == 0;
  out.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
  request = request_for(name);
  known = known && ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  out.up = (request.ifr_flags & IFF_UP) != 0;
  const int error = errno;
  out.receive_queues = receive_queues(fd, name);
  out.hardware = has_hardware(fd, name);
  close(fd);
  if (!known) throw PortError(name + ": can't query the interface: " + std::strerror(error));
  if (!ethernet) throw PortError(name + " is not an Ethernet interface");
  return out;
}

bool is_running(const std::string& name) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  ifreq request = request_for(name);
  constexpr int kBoth = IFF_UP | IFF_RUNNING;
  const bool running =
      ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & kBoth) == kBoth;
  close(fd);
  return running;
}

bool is_unchanged(const Interface& interface) {
  ifreq request{};
  if (if_indextoname(static_cast<unsigned>(interface.index), request.ifr_name) == nullptr) {
    return false;
  }
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool known = fd >= 0 && ioctl(fd, SIOCGIFHWADDR, &request) == 0;
  if (fd >= 0) close(fd);
  // The interface may have been renamed in between: the next look tells.
  return !known || std::memcmp(interface.address.data(), request.ifr_hwaddr.sa_data,
                               interface.address.size()) == 0;
}

std::vector<std::string> interface_addresses(const std::string& interface) {
  std::vector<std::string> v4, v6;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return v4;
  for (const ifaddrs* a = all; a != nullptr; a = a->ifa_next) {
    if (a->ifa_addr == nullptr || interface != a->ifa_name) continue;
    char text[INET6_ADDRSTRLEN];
    if (a->ifa_addr->sa_family == AF_INET) {
      const auto* in = reinterpret_cast<const sockaddr_in*>(a->ifa_addr);
      if (inet_ntop(AF_INET, &in->sin_addr, text, sizeof text)) v4.emplace_back(text);
    } else if (a->ifa_addr->sa_family == AF_INET6) {
      const auto* in6 = reinterpret_cast<const sockaddr_in6*>(a->ifa_addr);
      if (inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof text)) v6.emplace_back(text);
    }
  }
  freeifaddrs(all);
  v4.insert(v4.end(), v6.begin(), v6.end());
  return v4;
}

}  // namespace viaduct
