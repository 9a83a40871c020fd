#include "xdp/grant/macvlan.h"

#include <linux/if_link.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netlink/addr.h>
#include <netlink/cache.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/link/inet6.h>
#include <netlink/route/link/macvlan.h>
#include <netlink/socket.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "xdp/port_error.h"

namespace viaduct {
namespace {

struct Free {
  void operator()(nl_sock* socket) const { nl_socket_free(socket); }
  void operator()(rtnl_link* link) const { rtnl_link_put(link); }
  void operator()(nl_cache* cache) const { nl_cache_free(cache); }
  void operator()(nl_addr* address) const { nl_addr_put(address); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

Owned<nl_sock> connect() {
  Owned<nl_sock> socket(nl_socket_alloc());
  if (socket != nullptr && nl_connect(socket.get(), NETLINK_ROUTE) != 0) socket.reset();
  return socket;
}

void check(int error, const std::string& lower, const std::string& what) {
  if (error >= 0) return;
  std::string text = lower + ": can't " + what + ": " + nl_geterror(error);
  if (error == -NLE_PERM) text += " (CAP_NET_ADMIN needed)";
  throw PortError(text);
}

Owned<rtnl_link> with_index(int ifindex) {
  Owned<rtnl_link> link(rtnl_link_alloc());
  rtnl_link_set_ifindex(link.get(), ifindex);
  return link;
}

template <class Visit>
void for_each_child(int lower, const std::string& prefix, Visit&& visit) {
  const Owned<nl_sock> socket = connect();
  nl_cache* all = nullptr;
  if (socket == nullptr || rtnl_link_alloc_cache(socket.get(), AF_UNSPEC, &all) != 0) return;
  const Owned<nl_cache> cache(all);
  for (nl_object* at = nl_cache_get_first(all); at != nullptr; at = nl_cache_get_next(at)) {
    auto* const link = reinterpret_cast<rtnl_link*>(at);
    const char* const name = rtnl_link_get_name(link);
    if (rtnl_link_get_link(link) != lower || name == nullptr) continue;
    if (!std::string_view(name).starts_with(prefix) || !rtnl_link_is_macvlan(link)) continue;
    visit(socket.get(), link);
  }
}

}  // namespace

MacAddress random_address(const Interface& lower) {
  MacAddress out{};
  if (getrandom(out.data(), out.size(), 0) != static_cast<ssize_t>(out.size())) {
    throw PortError(lower.name + ": can't draw an address: " + std::strerror(errno));
  }
  out[0] = static_cast<std::uint8_t>((out[0] & 0xfc) | 0x02);  // unicast, locally administered
  return out;
}

int create_child(const Interface& lower, const std::string& name, const std::string& alias,
                 const MacAddress& address) {
  const Owned<nl_sock> socket = connect();
  if (socket == nullptr) throw PortError(lower.name + ": no netlink socket");
  const Owned<rtnl_link> link(rtnl_link_macvlan_alloc());
  rtnl_link_set_name(link.get(), name.c_str());
  rtnl_link_set_link(link.get(), lower.index);
  rtnl_link_set_mtu(link.get(), lower.mtu);
  const Owned<nl_addr> mac(nl_addr_build(AF_LLC, address.data(), address.size()));
  rtnl_link_set_addr(link.get(), mac.get());
  rtnl_link_macvlan_set_mode(link.get(), MACVLAN_MODE_PRIVATE);
  check(rtnl_link_add(socket.get(), link.get(), NLM_F_CREATE | NLM_F_EXCL), lower.name,
        "make the macvlan interface " + name);
  const int ifindex = static_cast<int>(if_nametoindex(name.c_str()));
  try {
    const Owned<rtnl_link> self = with_index(ifindex);
    // The kernel's IPv6 would send frames of its own from an interface that comes up. A kernel without IPv6 refuses
    // this setting.
    Owned<rtnl_link> quiet = with_index(ifindex);
    rtnl_link_inet6_set_addr_gen_mode(quiet.get(), rtnl_link_inet6_str2addrgenmode("none"));
    rtnl_link_change(socket.get(), self.get(), quiet.get(), 0);
    Owned<rtnl_link> up = with_index(ifindex);
    rtnl_link_set_ifalias(up.get(), alias.c_str());  // new links can't have one from the start
    rtnl_link_set_flags(up.get(), IFF_UP | IFF_NOARP);
    check(rtnl_link_change(socket.get(), self.get(), up.get(), 0), lower.name,
          "set " + name + " up");
  } catch (...) {
    delete_child(ifindex);
    throw;
  }
  return ifindex;
}

void delete_child(int ifindex) {
  const Owned<nl_sock> socket = connect();
  if (socket != nullptr) rtnl_link_delete(socket.get(), with_index(ifindex).get());
}

std::vector<Child> finished_children(int lower, const std::string& prefix,
                                     const std::string& alias) {
  std::vector<Child> out;
  for_each_child(lower, prefix, [&](nl_sock*, rtnl_link* link) {
    const char* const said = rtnl_link_get_ifalias(link);
    nl_addr* const mac = rtnl_link_get_addr(link);
    Child child{rtnl_link_get_name(link), rtnl_link_get_ifindex(link), {}};
    if (said == nullptr || alias != said || (rtnl_link_get_flags(link) & IFF_UP) == 0 ||
        rtnl_link_macvlan_get_mode(link) != MACVLAN_MODE_PRIVATE || mac == nullptr ||
        nl_addr_get_len(mac) != child.address.size()) {
      return;
    }
    std::memcpy(child.address.data(), nl_addr_get_binary_addr(mac), child.address.size());
    out.push_back(child);
  });
  return out;
}

unsigned delete_children(int lower, const std::string& prefix, const std::string& alias,
                         const std::vector<int>& keep) {
  unsigned deleted = 0;
  for_each_child(lower, prefix, [&](nl_sock* socket, rtnl_link* link) {
    const char* const said = rtnl_link_get_ifalias(link);
    // An agent that was killed after it had made the child and before it gave it the alias has left it down.
    const bool half_made = said == nullptr && (rtnl_link_get_flags(link) & IFF_UP) == 0 &&
                           rtnl_link_macvlan_get_mode(link) == MACVLAN_MODE_PRIVATE;
    if (said != nullptr ? alias != said : !half_made) return;
    if (std::find(keep.begin(), keep.end(), rtnl_link_get_ifindex(link)) != keep.end()) return;
    deleted += rtnl_link_delete(socket, link) == 0;
  });
  return deleted;
}

}  // namespace viaduct
