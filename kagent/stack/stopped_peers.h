// Granted programs that are stopped: by a signal, by a debugger, with their container. Their stacks
// are not driven, but the agent of their host sees that they live.
//
//   stack                    program's stack            agent of the program's host
//     | PROBE  ------------------> (stopped)                     |
//     | STOPPED_QUERY: VI, key, address of the stack ----------->| reads the stack's segment: this
//     |                                                          | connection is there, but the
//     | STOPPED_REPLY: as the program itself would write it <----| stack is not driven
//
// The stack that gets the reply goes on waiting and sending again, for limits.stopped_peer_ns of silence at most.
// Both ends know the connection's keys, and a granted program can't send a STOPPED_REPLY: the filter
// on its way out does not let it.
#ifndef VIADUCT_KAGENT_STACK_STOPPED_PEERS_H
#define VIADUCT_KAGENT_STACK_STOPPED_PEERS_H

#include <cstdint>

#include "kagent/stack/frames_out.h"
#include "kagent/stack/peer_table.h"
#include "kagent/stack/request_targets.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class StoppedPeers : private ViTable {
 public:
  StoppedPeers(const Tables& tables, typename Platform::Environment& environment,
               FramesOut<Platform>& frames_out, PeerTable<Platform>& peer_table,
               RequestTargets<Platform>& request_targets)
      : ViTable(tables), sessions_(tables.sessions), peers_(tables.peers),
        open_sessions_(tables.open_sessions), open_count_(tables.open_count),
        address_(tables.address), ether_type_(tables.ether_type), environment_(environment),
        frames_out_(frames_out), peer_table_(peer_table), request_targets_(request_targets) {}

  void ask_whether_stopped(ViIndex vi);
  void on_stopped_query(const wire::Decoded& query);
  void on_stopped_reply(const wire::Decoded& reply);

 private:
  void send_stopped(wire::Type type, const MacAddress& to, std::uint32_t vi, std::uint64_t key,
                    const MacAddress& whose);

  state::Session* sessions_;
  Pool<state::Peer> peers_;
  std::uint32_t* open_sessions_;
  const std::uint32_t& open_count_;
  MacAddress address_;
  std::uint16_t ether_type_;
  typename Platform::Environment& environment_;
  FramesOut<Platform>& frames_out_;
  PeerTable<Platform>& peer_table_;
  RequestTargets<Platform>& request_targets_;
};

}  // namespace viaduct

#endif
