// Watches that peers live: a host that is silent is asked by a probe, and given up in the end.
#ifndef VIADUCT_KAGENT_STACK_KEEPALIVE_H
#define VIADUCT_KAGENT_STACK_KEEPALIVE_H

#include <cstdint>

#include "kagent/stack/connections.h"
#include "kagent/stack/disconnects.h"
#include "kagent/stack/frames_out.h"
#include "kagent/stack/peer_table.h"
#include "kagent/stack/stopped_peers.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class Keepalive : private ViTable {
 public:
  Keepalive(const Tables& tables, FramesOut<Platform>& frames_out, PeerTable<Platform>& peer_table,
            Disconnects<Platform>& disconnects, Connections<Platform>& connections,
            StoppedPeers<Platform>& stopped_peers)
      : ViTable(tables), peers_(tables.peers), frames_out_(frames_out), peer_table_(peer_table),
        disconnects_(disconnects), connections_(connections), stopped_peers_(stopped_peers) {}

  void on_reset(const wire::Decoded& frame);
  void peer_timeout(std::uint32_t peer);
  // Answers a probe. Returns the VI that an answer to a probe is for; kNone: the frame is no such answer, or is for
  // no VI.
  ViIndex on_probe(const wire::Decoded& frame);

 private:
  ViIndex probe(std::uint32_t peer);

  Pool<state::Peer> peers_;
  FramesOut<Platform>& frames_out_;
  PeerTable<Platform>& peer_table_;
  Disconnects<Platform>& disconnects_;
  Connections<Platform>& connections_;
  StoppedPeers<Platform>& stopped_peers_;
};

}  // namespace viaduct

#endif
