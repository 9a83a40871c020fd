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
  // The addresses of the own interface: no peer can have them. True if they were others before.
  bool set_own(const std::vector<IpPrefix>& own);
  const std::vector<IpPrefix>& own() const { return own_; }

  // The peer loses addresses that are not in the list. Returns an address that it may not have, as it
  // is the own or another peer's, or nothing: the first one that has it keeps it.
  const IpAddress* set(Peer* peer, const std::vector<IpAddress>& addresses);
  void remove(Peer* peer);

  Peer* find(const IpAddress& address) const;
  // Whether packets to it are for all.
  bool is_group(const IpAddress& address) const;

 private:
  std::unordered_map<IpAddress, Peer*, IpAddressHash> peers_;
  std::vector<IpPrefix> own_;
  std::vector<IpAddress> broadcasts_;
};

}  // namespace viaduct::lanevi

#endif
