// This process's end of a lane: the protocol, the VI, and the socket that they are for.
#ifndef VIADUCT_SOVIA_SOCKET_LANE_ENDPOINT_H
#define VIADUCT_SOVIA_SOCKET_LANE_ENDPOINT_H

#include <atomic>
#include <cstdint>

#include <vipl/vipl_ext.h>

#include "sovia/lane/engine.h"
#include "sovia/lane/lane.h"
#include "sovia/lane/lane_vi.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/socket_ref.h"

namespace viaduct::sovia {

class LaneEndpoint final : public LaneOwner, public BackgroundLane {
 public:
  LaneEndpoint(SocketRef for_socket, Socket& of, LaneVi& on, const LaneOptions& options)
      : BackgroundLane(of),
        vi(on),
        lane(on.transport(), options, on.remote()),
        socket(static_cast<SocketRef&&>(for_socket)) {
    vi.receives.told = this;
  }

  void arrived(const ProcessNic::Arrival& arrival) override;
  void transport_failed() override { background::look_at(*this); }
  // Ends the VI of a lane that the peer does not leave, and takes in all that has come on it.
  void give_up();

  LaneVi& vi;
  Lane lane;
  const SocketRef socket;

  // Threads that look at it without the socket's locks: it is not freed meanwhile.
  std::atomic<int> pins{0};

  // --- the background thread's
  std::uint64_t asked_at = 0, give_up_at = 0;
  int fd = -1;                        // a descriptor of the socket, as long as it is open
  FlowEnd peer{};                     // what it is remembered by
  Role role = Role::kNeither;
  bool used = false;                  // it has carried enough to be worth it
  Flow tcp{};
  bool replaced = false;              // by one on a VI of the peer's VI cache
  bool fills_cache = false;           // its connection has ended before the VI was there
  bool may_park = false;
  std::uint64_t park_until = 0;       // for the peer to end its direction, so that both can park
  bool connected = false;             // the VI is
  bool opened = false;                // and the lane was, for both ends
  std::atomic<int> keeper{-1};        // a copy of the descriptor that the program has closed with data on its way
  bool claimed = false;               // our agent vouches for us
  std::uint8_t token[kTokenBytes] = {};
  VipxFlow flow{};
  std::uint8_t host[6] = {};          // the peer's
  std::uint64_t unclaim_at = 0;
  bool to_itself = false;             // the other end is of this process
  bool doubted = false;               // by the peer's agent; or has the connection ended?
  bool silent = false;                // the peer has not greeted in time
  bool closing = false;               // nothing is sent any more
  bool listed = false;                // was queued
  std::size_t last_unsent = 0;
  std::uint64_t corked_until = 0;     // what is held back for TCP_CORK; with the lane locked
};

}  // namespace viaduct::sovia

#endif
