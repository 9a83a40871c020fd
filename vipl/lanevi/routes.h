// Which peer has an address of IP.
#ifndef VIADUCT_VIPL_LANEVI_ROUTES_H
#define VIADUCT_VIPL_LANEVI_ROUTES_H

#include <unordered_map>
#include <vector>

#include "vipl/lanevi/ip_address.h"

namespace viaduct::lanevi {

class Peer;

class Routes {
 public:
  // Sets the addresses of the own interface, which no peer can have. True if they were others before.
  bool set_own(const std::vector<IpPrefix>& own);
  const std::vector<IpPrefix>& own() const { return own_; }

  // Sets a peer's addresses; it loses those that are not in the list. Returns an address that it may not have, as it
  // is our own or another peer's, or nullptr: the first peer that has an address keeps it.
  const IpAddress* set(Peer* peer, const std::vector<IpAddress>& addresses);
  void remove(Peer* peer);

  Peer* find(const IpAddress& address) const;
  // Whether packets to this address are for all hosts.
  bool is_group(const IpAddress& address) const;

 private:
  std::unordered_map<IpAddress, Peer*, IpAddressHash> peers_;
  std::vector<IpPrefix> own_;
  std::vector<IpAddress> broadcasts_;
};

}  // namespace viaduct::lanevi

#endif
