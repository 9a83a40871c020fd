// The beginning and the end of datagram lanes: the background thread's part.
//
// A socket asks for a lane to a peer after some datagrams. This end's agent vouches for the socket (VipxClaim), and a
// VI asks for the peer's VI, as the peer does after as many datagrams. The two ends greet each other, and each has the
// other's agent confirm the greeting (VipxVerify).
#ifndef VIADUCT_SOVIA_DATAGRAM_DATAGRAM_CONTROL_H
#define VIADUCT_SOVIA_DATAGRAM_DATAGRAM_CONTROL_H

#include <cstdint>

#include "sovia/lane/tcp_route.h"

namespace viaduct::sovia::datagram {

// The background thread's functions that the datagram lanes need.
struct Thread {
  bool (*start)() = nullptr;                       // makes the thread if there is none
  void (*poke)() = nullptr;                        // makes the thread call turn()
  Reason (*open_nic)(const Flow& flow, Way& way) = nullptr;  // called by the thread: opens the NIC towards a peer
};
void set_thread(const Thread& thread);

// ------------------------------------------------------------------ by the thread
void turn();
bool has_work();  // whether any has come since the last turn
// The time of the next turn that no event brings about.
std::uint64_t next_due(std::uint64_t now);
// Whether no lane is left, in any state.
bool is_idle();
// The NIC's agent has gone for good: ends all lanes, even if the NIC has reported nothing of them.
void nic_lost();

// ------------------------------------------------------------------ by any other
// Waits a moment until the lanes of all sockets that have given them up have ended.
void await_ended();

// Around fork, with arrivals paused.
void before_fork();
void after_fork(bool in_child);

}  // namespace viaduct::sovia::datagram

#endif
