// This process's end of a lane: the protocol, the VI, and the socket that both are for.
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

namespace held_sends {
extern constinit Lock g_lock SOVIA_LOCK_ORDER(lane, sleepers);  // of the list of lanes that hold data
}

class LaneEndpoint final : public LaneOwner, public BackgroundLane {
 public:
  LaneEndpoint(SocketRef for_socket, Socket& of, LaneVi& on, const LaneOptions& options)
      VIADUCT_REQUIRES(engine::g_turn)
      : BackgroundLane(of),
        vi(on),
        lane(on.transport(), options, on.remote()),
        socket(static_cast<SocketRef&&>(for_socket)) {
    vi.receives.told = this;
  }

  void arrived(const ProcessNic::Arrival& arrival) override VIADUCT_REQUIRES(engine::g_turn);
  void transport_failed() override { background::look_at(*this); }
  // Ends a lane that the peer does not leave: disconnects its VI, and takes in the packets that have come.
  void give_up() VIADUCT_EXCLUDES(engine::g_turn);

  LaneVi& vi;
  Lane lane;
  const SocketRef socket;

  // The number of threads that use this end without the socket's locks. It is not freed while there are any. Increased
  // with one of these locks held.
  std::atomic<int> pins{0};
  // The background thread has found it pinned: whoever gives the last pin back calls that thread again.
  std::atomic<bool> skipped{false};
  // For the background thread.
  bool is_pinned() {
    if (pins == 0) return false;
    skipped = true;
    return pins != 0;
  }

  // The program's TCP_KEEPIDLE while the kernel's connection gives a sign of life (background/kernel_watch.h); -1: it does
  // not. Set with the lane locked.
  std::atomic<int> kept_idle{-1};
  static constexpr int kProbeAtOnce = 1;  // of TCP_KEEPIDLE, in seconds
  // The options of the kernel's connection are the program's again. `fd`: a descriptor of the socket.
  void end_sign_of_life(int fd);

  // --- the background thread's
  std::uint64_t asked_at = 0, give_up_at = 0;
  int fd = -1;                        // a descriptor of the socket, as long as it is open
  FlowEnd peer{};                     // the key of PeerHistory
  Role role = Role::kNeither;
  bool used = false;                  // the lane has carried enough to be worth its cost
  bool connected = false;             // the VI has its peer
  bool opened = false;                // the lane was open for both ends
  std::atomic<int> keeper{-1};        // a copy of the descriptor that the program has closed with data on its way
  bool claimed = false;               // this host's agent vouches for this end
  std::uint8_t token[kTokenBytes] = {};
  VipxFlow flow{};
  std::uint8_t host[6] = {};          // the MAC address of the peer's host
  std::uint64_t unclaim_at = 0;
  bool to_itself = false;             // the other end is in this process
  bool doubted = false;               // the peer's agent does not vouch, perhaps as the connection has ended
  bool not_wanted = false;            // before it was open it has turned out that the kernel is faster
  bool heard_slower = false;          // the peer has said that the kernel is faster
  bool silent = false;                // the peer has not greeted in time
  bool closing = false;               // the sending direction ends: no new data is sent
  bool listed = false;                // taken off the queue (look_at()), to be looked at
  std::size_t last_unsent = 0;
  std::uint64_t life_at = 0;          // when the kernel's connection is to give a sign of life, or has given it
  std::uint64_t foreign_at = 0;       // when bytes that passed by the lane were first seen; 0: there are none
  int kept_alive = 0;                 // the program's SO_KEEPALIVE meanwhile; written before kept_idle

  std::uint64_t corked_until VIADUCT_GUARDED_BY(lane.lock()) = 0;  // time limit of data held back for TCP_CORK
  // Posts what held_sends.h holds back, but not what the program does.
  void push_held() VIADUCT_REQUIRES(lane.lock()) {
    if (corked_until == 0) lane.tx.push();
  }

  bool is_held VIADUCT_GUARDED_BY(held_sends::g_lock) = false;  // in its list
  LaneEndpoint* next_held VIADUCT_GUARDED_BY(held_sends::g_lock) = nullptr;
};

}  // namespace viaduct::sovia

#endif
