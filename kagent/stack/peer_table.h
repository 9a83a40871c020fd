// The hosts that VIs are connected to, and which VI a frame of theirs is for.
#ifndef VIADUCT_KAGENT_STACK_PEER_TABLE_H
#define VIADUCT_KAGENT_STACK_PEER_TABLE_H

#include <cstdint>

#include "kagent/stack/credit_grants.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class PeerTable : private ViTable, private Timers {
 public:
  PeerTable(const Tables& tables, typename Platform::Port& port, CreditGrants<Platform>& credit_grants)
      : ViTable(tables), Timers(tables), peers_(tables.peers), key_buckets_(tables.key_buckets),
        peer_buckets_(tables.peer_buckets), key_bucket_mask_(tables.key_bucket_mask),
        address_(tables.address), host_(tables.addresses.host), mtu_(tables.mtu), port_(port),
        bulk_path_(port.bulk_path()), credit_grants_(credit_grants) {}

  inline state::Vi* vi_for(const wire::Decoded& frame, bool pending_too = false);
  bool reachable(const MacAddress& address) const;
  ViIndex find_by_peer_key(const MacAddress& source, std::uint32_t peer_vi,
                           std::uint64_t key) const;
  bool link(ViIndex vi, const MacAddress& peer, const wire::ConnectBody& body);
  void unlink(ViIndex vi);
  // Whether frames to the peer may go by the local path; if so, they must from now on. To be asked when no frame of
  // this VI is under way by the other path.
  bool take_local_path(state::Vi& vi);
  void watch_peer(std::uint32_t peer, std::uint64_t until);
  bool is_excused(const state::Peer& peer) const;
  bool may_be_stopped(const state::Peer& peer) const;
  // Whether the peer is a program with a stack of its own.
  bool is_granted(const state::Peer& peer) const { return peer.host != peer.address; }

 private:
  std::uint32_t find_peer(const MacAddress& address, bool create);

  Pool<state::Peer> peers_;
  std::uint32_t* key_buckets_;
  std::uint32_t* peer_buckets_;
  std::uint32_t key_bucket_mask_;
  MacAddress address_;
  MacAddress host_;
  std::uint32_t mtu_;
  typename Platform::Port& port_;
  typename Platform::BulkPath& bulk_path_;
  CreditGrants<Platform>& credit_grants_;
};

}  // namespace viaduct

#endif
