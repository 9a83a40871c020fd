// State of the background thread, shared by background.cc, which runs it, and background_lanes.cc, which opens and
// ends lanes.
#ifndef VIADUCT_SOVIA_BACKGROUND_BACKGROUND_STATE_H
#define VIADUCT_SOVIA_BACKGROUND_BACKGROUND_STATE_H

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "sovia/background/requests.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/process/reason.h"
#include "sovia/process/units.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia::background {

inline constexpr std::uint64_t kLingerNs = 120'000 * kMs;  // for the data of a closed socket or dead process, without moving

// Never destroyed: the thread runs until the process is gone.
struct State {
  bool running VIADUCT_GUARDED_BY(requests().lock) = false;
  std::vector<LaneEndpoint*> ends;  // changed by the thread alone, under the same lock

  // --- the thread's own
  std::vector<Falling> falling;
  struct Silence {
    std::uint64_t until = 0;
    unsigned times = 0;
    std::uint64_t answered_at = 0;  // when a lane with this peer was last opened; 0: never
  };
  std::map<FlowEnd, Silence> no_peer;
  unsigned early_claims = 0;  // of lanes whose peers have not connected yet
  struct KnownWay {
    Flow flow{};
    Way way{};
    std::uint64_t until = 0;
  } known_way;
  std::atomic<bool> nic_lost{false};  // set by any thread: the NIC's lanes are to be given up
  Reason nic_failure = Reason::kNone;  // the last opening of a NIC has failed, why
  bool timer_expired = false;  // the timer began this turn of the thread, not an event
  std::uint64_t nic_failed_at = 0;
  std::uint64_t useful_at = 0;  // when a lane ended that was worth its cost; 0: none has
};

State& state();

// Copies a descriptor of the program's socket for the library; -1: none can be had.
int copy_descriptor(Socket& socket);

// ------------------------------------------------------------------ for the thread alone
// The NIC of the process, for the first connection over some interface.
Reason open_nic(const Flow& flow);
// Options for a new lane of this socket.
LaneOptions lane_options(const SocketModes& socket);
Reason open_nic_for_datagrams(const Flow& flow, Way& way);
// Asks the peer of the task's connection for a lane.
Reason open_lane(Task& task);
// Takes the next step of a lane's life. False if the lane is to be freed.
bool advance(LaneEndpoint& end, std::uint64_t now);
// The lane has broken: takes the socket to the kernel.
void fall_back(LaneEndpoint& end);
// Whether the agent need not vouch for the lane any more: the peer trusts it, or has had time enough to ask.
bool claim_has_served(LaneEndpoint& end, std::uint64_t now);
void unclaim(LaneEndpoint& end);
// Reports that the peer's agent does not vouch for the peer. To be called when it is clear that this is not because the
// connection has ended.
void tell_doubt(LaneEndpoint& end);
// Closes the copy of a closed socket's descriptor (LaneEndpoint::keeper), by which the kernel ends the connection.
void close_kept_descriptor(LaneEndpoint& end);
// Removes the lane's end at an index of state().ends and frees it. False if another thread has pinned it.
bool free_end(std::size_t index);

}  // namespace viaduct::sovia::background

#endif
