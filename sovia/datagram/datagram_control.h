// The beginning and the end of datagram lanes: the background thread's part.
//
// A socket asks for a lane to a peer after some datagrams. This end's agent vouches for the socket
// (VipxClaim), a VI asks for that of the peer, which asks for it too after as many datagrams, the two greet
// each other, and each has the peer's agent confirm what it was greeted with (VipxVerify).
#ifndef VIADUCT_SOVIA_DATAGRAM_DATAGRAM_CONTROL_H
#define VIADUCT_SOVIA_DATAGRAM_DATAGRAM_CONTROL_H

#include <cstdint>

#include "sovia/lane/tcp_route.h"

namespace viaduct::sovia::datagram {

// The thread, as this room knows it.
struct Thread {
  bool (*start)() = nullptr;                       // makes it if there is none
  void (*poke)() = nullptr;                        // ... look at what has changed
  Reason (*open_nic)(const Flow& flow, Way& way) = nullptr;  // by the thread: the NIC towards this peer
};
void set_thread(const Thread& thread);

// ------------------------------------------------------------------ by the thread
void turn();
bool has_work();  // since the last turn
// When the next turn is due of itself.
std::uint64_t next_due(std::uint64_t now);
// No lane is left, whatever its state.
bool is_idle();
// The NIC's agent has gone for good: ends all lanes, also those of which the NIC told nothing.
void nic_lost();

// ------------------------------------------------------------------ by any other
// Waits a moment until the lanes of all sockets that have given them up have ended.
void await_ended();

// Around fork, with arrivals paused.
void before_fork();
void after_fork(bool in_child);

}  // namespace viaduct::sovia::datagram

#endif
