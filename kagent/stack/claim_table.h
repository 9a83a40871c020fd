// Claims: an agent vouches to other hosts that a TCP connection, or a UDP socket, is its program's.
//
//   program       agent of its host                    agent of the other host      program
//      | claim          |                                        |                     |
//      |--------------->| owns it? then a token                  |                     |
//      |<---------------|                                        |                     |
//      | the token, by whatever way -------------------------------------------------->|
//      |                |                                        |       verify        |
//      |                |  CLAIM_QUERY (repeated) <--------------|<--------------------|
//      |                |  CLAIM_REPLY ------------------------->|-------------------->|
//
// Programs with ports of their own can send neither CLAIM frame: the egress filter drops them.
#ifndef VIADUCT_KAGENT_STACK_CLAIM_TABLE_H
#define VIADUCT_KAGENT_STACK_CLAIM_TABLE_H

#include <cstdint>

#include "kagent/stack/budget.h"
#include "kagent/stack/command_slots.h"
#include "kagent/stack/frames_out.h"
#include "kagent/stack/peer_table.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"

namespace viaduct {

template <class Platform>
class ClaimTable : private Timers {
 public:
  ClaimTable(const Tables& tables, typename Platform::Environment& environment, Budget& budget,
             FramesOut<Platform>& frames_out, CommandSlots<Platform>& command_slots,
             PeerTable<Platform>& peer_table)
      : Timers(tables), limits_(tables.limits), now_(tables.now), root_(tables.root),
        sessions_(tables.sessions), claims_(tables.claims), address_(tables.address),
        ether_type_(tables.ether_type), environment_(environment), budget_(budget),
        frames_out_(frames_out), command_slots_(command_slots), peer_table_(peer_table) {}

  vip::Return claim(std::uint32_t session, layout::CommandBody& body);
  vip::Return unclaim(std::uint32_t session, const layout::CommandBody& body);
  void free_claim(state::Claim& claim);
  void verify(std::uint32_t session, std::uint32_t command, const layout::CommandBody& body);
  void ask_about_claim(std::uint32_t session, std::uint32_t command);
  void on_claim_query(const wire::Decoded& frame);
  void on_claim_reply(const wire::Decoded& frame);

 private:
  state::Claim* find_claim(const ClaimToken& token);
  bool vouches(const Flow& flow, const ClaimToken& token);
  void send_claim(wire::Type type, const MacAddress& to, const wire::ClaimBody& body);

  const StackLimits limits_;
  const std::uint64_t& now_;
  state::Root* root_;
  state::Session* sessions_;
  Pool<state::Claim> claims_;
  MacAddress address_;
  std::uint16_t ether_type_;
  typename Platform::Environment& environment_;
  Budget& budget_;
  FramesOut<Platform>& frames_out_;
  CommandSlots<Platform>& command_slots_;
  PeerTable<Platform>& peer_table_;
  std::uint64_t claim_epoch_ = 0;  // the millisecond in which claims_in_epoch_ questions were answered
  std::uint32_t claims_in_epoch_ = 0;
};

}  // namespace viaduct

#endif
