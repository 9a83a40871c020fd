#include "vipl/lanevi/tun.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/if_tun.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>

#include "vipl/lanevi/failure.h"
#include "vipl/lanevi/message.h"

namespace viaduct::lanevi {
namespace {

constexpr char kDevice[] = "/dev/net/tun";
constexpr unsigned long kOffloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
constexpr unsigned long kUncutUdp = 0x20 | 0x40;  // TUN_F_USO4 | TUN_F_USO6, which headers before Linux 6.2 lack

ifreq request_for(const std::string& name) {
  ifreq out{};
  std::memcpy(out.ifr_name, name.c_str(), std::min(name.size(), sizeof out.ifr_name - 1));
  return out;
}

// A socket to ask about interfaces by.
class Asking {
 public:
  explicit Asking(int family) : descriptor_(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    if (descriptor_ < 0) fail("socket");
  }
  ~Asking() { close(descriptor_); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  void ask(unsigned long what, void* request, const std::string& text) {
    if (ioctl(descriptor_, what, request) != 0) fail(text);
  }

 private:
  const int descriptor_;
};

sockaddr ipv4_sockaddr(const void* four_bytes) {
  sockaddr out{};
  out.sa_family = AF_INET;
  std::memcpy(reinterpret_cast<char*>(&out) + 4, four_bytes, 4);
  return out;
}

void set_ipv4(const std::string& name, const IpPrefix& prefix) {
  Asking asking(AF_INET);
  ifreq request = request_for(name);
  request.ifr_addr = ipv4_sockaddr(prefix.address.ipv4_bytes());
  asking.ask(SIOCSIFADDR, &request, "address of " + name);
  std::uint8_t mask[4];
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned ones = std::min(8u, prefix.bits - std::min(prefix.bits, 8 * i));
    mask[i] = static_cast<std::uint8_t>(0xff00 >> ones);
  }
  request.ifr_netmask = ipv4_sockaddr(mask);
  asking.ask(SIOCSIFNETMASK, &request, "netmask of " + name);
}

void set_ipv6(const std::string& name, const IpPrefix& prefix) {
  Asking asking(AF_INET6);
  in6_ifreq request{};
  std::memcpy(&request.ifr6_addr, prefix.address.bytes.data(), 16);
  request.ifr6_prefixlen = prefix.bits;
  request.ifr6_ifindex = static_cast<int>(if_nametoindex(name.c_str()));
  asking.ask(SIOCSIFADDR, &request, "address of " + name);
}

// /proc/net/if_inet6 has prefixes too, but getifaddrs() has both versions.
unsigned prefix_bits(const sockaddr* mask) {
  unsigned bits = 0;
  if (mask == nullptr) return bits;
  const bool four = mask->sa_family == AF_INET;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(mask) + (four ? 4 : 8);
  for (int i = 0; i < (four ? 4 : 16); ++i) {
    bits += static_cast<unsigned>(std::popcount(static_cast<unsigned>(bytes[i])));
  }
  return bits;
}

}  // namespace

Tun::Tun(const Options& options) : name_(options.interface), offload_(options.offload) {
  open();
  try {
    configure(options);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

Tun::~Tun() { close(descriptor_); }

void Tun::open() {
  descriptor_ = ::open(kDevice, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (descriptor_ < 0) fail(kDevice);
  ifreq request = request_for(name_);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  int header = kPacketHeader;
  int little = 1;
  if (ioctl(descriptor_, TUNSETIFF, &request) != 0 ||
      ioctl(descriptor_, TUNSETVNETHDRSZ, &header) != 0 ||
      ioctl(descriptor_, TUNSETVNETLE, &little) != 0 || !set_offload(offload_ ? kOffloads : 0)) {
    const int reason = errno;
    close(descriptor_);
    errno = reason;
    fail("interface " + name_);
  }
  name_ = request.ifr_name;
  takes_uncut_udp_ = set_offload(kOffloads | kUncutUdp);
  set_offload(offload_ ? kOffloads : 0);
}

bool Tun::set_offload(unsigned long flags) { return ioctl(descriptor_, TUNSETOFFLOAD, flags) == 0; }

void Tun::leave_udp_uncut(bool uncut) {
  if (!offload_ || !takes_uncut_udp_ || uncut == udp_uncut_) return;
  if (set_offload(uncut ? kOffloads | kUncutUdp : kOffloads)) udp_uncut_ = uncut;
}

void Tun::configure(const Options& options) {
  Asking asking(AF_INET);
  ifreq request = request_for(name_);
  asking.ask(SIOCGIFMTU, &request, "MTU of " + name_);
  if (request.ifr_mtu != static_cast<int>(options.mtu)) {
    request.ifr_mtu = static_cast<int>(options.mtu);
    asking.ask(SIOCSIFMTU, &request, "MTU of " + name_);
  }
  const std::vector<IpPrefix> has = addresses();
  for (const IpPrefix& wanted : options.addresses) {
    const bool there = std::any_of(has.begin(), has.end(), [&](const IpPrefix& one) {
      return one.address == wanted.address && one.bits == wanted.bits;
    });
    if (there) continue;
    wanted.address.is_ipv4() ? set_ipv4(name_, wanted) : set_ipv6(name_, wanted);
  }
  asking.ask(SIOCGIFFLAGS, &request, "flags of " + name_);
  if ((request.ifr_flags & IFF_UP) == 0) {
    request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
    asking.ask(SIOCSIFFLAGS, &request, "setting " + name_ + " up");
  }
}

std::size_t Tun::read(std::uint8_t* to, std::size_t room) {
  const ssize_t got = ::read(descriptor_, to, room);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

bool Tun::write(const std::uint8_t* from, std::size_t bytes) {
  return ::write(descriptor_, from, bytes) == static_cast<ssize_t>(bytes);
}

std::vector<IpPrefix> Tun::addresses() const {
  std::vector<IpPrefix> out;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return out;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || name_ != one->ifa_name) continue;
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(one->ifa_addr);
    const unsigned bits = prefix_bits(one->ifa_netmask);
    if (one->ifa_addr->sa_family == AF_INET) out.push_back({IpAddress::of_ipv4(bytes + 4), bits});
    if (one->ifa_addr->sa_family == AF_INET6) out.push_back({IpAddress::of_ipv6(bytes + 8), bits});
  }
  freeifaddrs(all);
  return out;
}

}  // namespace viaduct::lanevi
