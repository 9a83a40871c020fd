// The stacks that a connection request is sent to: a host may send it on to a program's stack there.
//
//   requester                             host's agent              granted program's stack
//   CONNECT_REQUEST ----------------------> sees its listener
//                <------- CONNECT_MOVED ---
//   CONNECT_REQUEST (repeated) --------------------------------------> as in connections.h
//
// A listener may be gone by the time the request arrives, and its program may be dead. So a
// requester without an answer, or one that hears that no program waits, asks the host again too, and
// takes its request back from all others when the attempt is over.
#ifndef VIADUCT_KAGENT_STACK_REQUEST_TARGETS_H
#define VIADUCT_KAGENT_STACK_REQUEST_TARGETS_H

#include <cstdint>

#include "kagent/stack/credit_grants.h"
#include "kagent/stack/frames_out.h"
#include "kagent/stack/peer_table.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class RequestTargets : private ViTable, private Timers {
 public:
  RequestTargets(const Tables& tables, FramesOut<Platform>& frames_out,
                 CreditGrants<Platform>& credit_grants, PeerTable<Platform>& peer_table)
      : ViTable(tables), Timers(tables), attempts_(tables.attempts), address_(tables.address),
        addresses_(tables.addresses), mtu_(tables.mtu), ether_type_(tables.ether_type),
        frames_out_(frames_out), credit_grants_(credit_grants), peer_table_(peer_table) {}

  MacAddress way_to(const MacAddress& host) const;
  void begin_asking(ViIndex vi);
  void ask_known_way(ViIndex vi);
  void remember_way(ViIndex vi, const MacAddress& accepted_by);
  state::Asked* ask_too(ViIndex vi, const MacAddress& address);
  void forget_asked(ViIndex vi, const MacAddress& address);
  void send_connect_requests(ViIndex vi);
  void on_moved(ViIndex vi, const wire::Decoded& frame);
  void take_back(ViIndex vi);
  vip::Return unanswered(ViIndex vi) const;

 private:
  // Which stack of a host has accepted a request for a discriminator that the host itself would have sent on. Only a
  // guess: a new entry takes the place of an older one.
  struct Way {
    MacAddress host, stack;
    std::uint32_t discriminator;  // a hash
  };
  static constexpr std::uint32_t kWays = 64;

  void send_connect_request(ViIndex vi, state::Asked& to);
  Way& way_of(ViIndex vi, std::uint32_t& discriminator);
  state::Asked* find_asked(ViIndex vi, const MacAddress& address);
  void prove(ViIndex vi, const MacAddress& to, std::uint64_t cookie);

  state::Attempt* attempts_;
  MacAddress address_;
  const StackAddresses& addresses_;
  std::uint32_t mtu_;
  std::uint16_t ether_type_;
  FramesOut<Platform>& frames_out_;
  CreditGrants<Platform>& credit_grants_;
  PeerTable<Platform>& peer_table_;
  Way ways_[kWays] = {};
};

}  // namespace viaduct

#endif
