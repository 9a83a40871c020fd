// Connections: how they begin, and what happens when they end.
//
//   requester                                          acceptor
//   ConnectRequest -> CONNECT_REQUEST (repeated) --->  held, or given to a ConnectWait
//                <--- CONNECT_HELD                     (no program waits / a program has it)
//                <--- CONNECT_ACCEPT (repeated)        ConnectAccept
//   Connected, CONNECT_CONFIRM --------------------->  Connected
//
// Peer to peer: both sides ask, neither waits.
//
// Each side repeats its CONNECT_REQUEST (with kPeerToPeer). A side that sees the other's matching
// request knows its peer and answers with CONNECT_ACCEPT; the receiver of an ACCEPT is connected and
// says so with CONNECT_CONFIRM. A request that comes before its counterpart was made is held.
#ifndef VIADUCT_KAGENT_STACK_CONNECTIONS_H
#define VIADUCT_KAGENT_STACK_CONNECTIONS_H

#include <cstdint>

#include "kagent/stack/budget.h"
#include "kagent/stack/command_slots.h"
#include "kagent/stack/completions.h"
#include "kagent/stack/connect_requests.h"
#include "kagent/stack/credit_grants.h"
#include "kagent/stack/disconnects.h"
#include "kagent/stack/forwarding.h"
#include "kagent/stack/frames_out.h"
#include "kagent/stack/history.h"
#include "kagent/stack/loss_recovery.h"
#include "kagent/stack/peer_table.h"
#include "kagent/stack/placer.h"
#include "kagent/stack/request_proof.h"
#include "kagent/stack/request_targets.h"
#include "kagent/stack/send_queue.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"
#include "kagent/stack/pending_disconnect.h"
#include "kagent/stack/vi_table.h"
#include "kagent/stack/virtual_interfaces.h"

namespace viaduct {

template <class Platform>
class Connections : private ViTable, private Timers {
 public:
  Connections(const Tables& tables, typename Platform::Environment& environment, Budget& budget,
              FramesOut<Platform>& frames_out, CommandSlots<Platform>& command_slots,
              Completions<Platform>& completions, SendQueue<Platform>& send_queue,
              CreditGrants<Platform>& credit_grants, PeerTable<Platform>& peer_table,
              LossRecovery<Platform>& loss_recovery, Placer<Platform>& placer,
              Disconnects<Platform>& disconnects, RequestProof<Platform>& request_proof,
              ConnectRequests<Platform>& connect_requests,
              VirtualInterfaces<Platform>& virtual_interfaces, RequestTargets<Platform>& request_targets,
              Forwarding<Platform>& forwarding)
      : ViTable(tables), Timers(tables), requests_(tables.requests), pendings_(tables.pendings),
        attempts_(tables.attempts), address_(tables.address), addresses_(tables.addresses),
        mtu_(tables.mtu), ether_type_(tables.ether_type), history_(tables),
        environment_(environment),
        budget_(budget), frames_out_(frames_out), command_slots_(command_slots),
        completions_(completions), send_queue_(send_queue), credit_grants_(credit_grants),
        peer_table_(peer_table), loss_recovery_(loss_recovery), placer_(placer),
        disconnects_(disconnects), request_proof_(request_proof),
        connect_requests_(connect_requests), virtual_interfaces_(virtual_interfaces),
        request_targets_(request_targets), forwarding_(forwarding) {}

  void on_connect_request(const wire::Decoded& frame);
  void connect_wait(std::uint32_t session, std::uint32_t command, const layout::CommandBody& body);
  void unlisten(std::uint32_t session, std::uint32_t command);
  vip::Return connect_reject(std::uint32_t session, const layout::CommandBody& body);
  void connect_accept(std::uint32_t session, std::uint32_t command,
                      const layout::CommandBody& body);
  void connect_request(std::uint32_t session, std::uint32_t command,
                       const layout::CommandBody& body);
  void attempt_timeout(ViIndex vi);
  void fail_attempt(ViIndex vi, vip::Return result);
  void on_connect_accept(const wire::Decoded& frame);
  void on_connect_confirm(const wire::Decoded& frame);
  void on_connect_answer(const wire::Decoded& frame);
  void establish(ViIndex vi);
  vip::Return disconnect(std::uint32_t session, const layout::CommandBody& body);
  // `index`: of the refused message in a packed frame.
  void end_connection(ViIndex vi, End end, std::uint32_t error, std::uint32_t refused_psn = 0,
                      std::uint32_t reason = 0, std::uint32_t index = 0);
  void on_disconnect(const wire::Decoded& frame);
  vip::Return peer_request(std::uint32_t session, const layout::CommandBody& body);
  void leave_peer(ViIndex vi);
  vip::Return peer_done(std::uint32_t session, layout::CommandBody& body);
  void peer_wait(std::uint32_t session, std::uint32_t command, layout::CommandBody& body);

 private:
  void on_known_request(std::uint32_t request, const MacAddress& source, const wire::ConnectBody& body,
                        bool proven, bool trusted);
  void on_answered_request(ViIndex known, const wire::ConnectBody& body);
  void deliver_request(std::uint32_t request, std::uint32_t session, std::uint32_t command);
  void send_connect_accept(ViIndex vi);
  void begin_attempt(ViIndex vi);
  void report_end(ViIndex vi, End end, std::uint32_t error);
  void meet_held_peer(ViIndex vi);
  bool awaits(ViIndex vi, const wire::ConnectBody& body) const;
  bool on_peer_request(const wire::Decoded& frame, const wire::ConnectBody& body);
  void meet_peer(ViIndex vi, const MacAddress& source, const wire::ConnectBody& body);
  void end_peer_attempt(ViIndex vi, vip::Return result);
  void list_peer_attempt(ViIndex vi);
  void publish_peer_listener(ViIndex vi);
  void unlist_peer_attempt(ViIndex vi);

  Pool<state::Request> requests_;
  state::Pending* pendings_;
  state::Attempt* attempts_;
  MacAddress address_;
  const StackAddresses& addresses_;
  std::uint32_t mtu_;
  std::uint16_t ether_type_;
  History history_;
  typename Platform::Environment& environment_;
  Budget& budget_;
  FramesOut<Platform>& frames_out_;
  CommandSlots<Platform>& command_slots_;
  Completions<Platform>& completions_;
  SendQueue<Platform>& send_queue_;
  CreditGrants<Platform>& credit_grants_;
  PeerTable<Platform>& peer_table_;
  LossRecovery<Platform>& loss_recovery_;
  Placer<Platform>& placer_;
  Disconnects<Platform>& disconnects_;
  RequestProof<Platform>& request_proof_;
  ConnectRequests<Platform>& connect_requests_;
  VirtualInterfaces<Platform>& virtual_interfaces_;
  RequestTargets<Platform>& request_targets_;
  Forwarding<Platform>& forwarding_;
};

}  // namespace viaduct

#endif
