#include "vipl/lanevi/routes.h"

#include <algorithm>

namespace viaduct::lanevi {

bool Routes::set_own(const std::vector<IpPrefix>& own) {
  const auto same = [](const IpPrefix& a, const IpPrefix& b) {
    return a.address == b.address && a.bits == b.bits;
  };
  if (std::equal(own.begin(), own.end(), own_.begin(), own_.end(), same)) return false;
  own_ = own;
  broadcasts_.clear();
  for (const IpPrefix& prefix : own_) {
    if (const auto all = prefix.broadcast()) broadcasts_.push_back(*all);
    peers_.erase(prefix.address);
  }
  return true;
}

const IpAddress* Routes::set(Peer* peer, const std::vector<IpAddress>& addresses) {
  remove(peer);
  const IpAddress* refused = nullptr;
  for (const IpAddress& address : addresses) {
    const bool is_own = std::any_of(own_.begin(), own_.end(), [&](const IpPrefix& prefix) {
      return prefix.address == address;
    });
    if (is_own || is_group(address) || !peers_.try_emplace(address, peer).second) {
      refused = &address;
    }
  }
  return refused;
}

void Routes::remove(Peer* peer) {
  std::erase_if(peers_, [&](const auto& entry) { return entry.second == peer; });
}

Peer* Routes::find(const IpAddress& address) const {
  const auto found = peers_.find(address);
  return found == peers_.end() ? nullptr : found->second;
}

bool Routes::is_group(const IpAddress& address) const {
  return address.is_group() ||
         std::find(broadcasts_.begin(), broadcasts_.end(), address) != broadcasts_.end();
}

}  // namespace viaduct::lanevi
