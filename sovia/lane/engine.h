// Shared by all lanes of the process: the NIC, and the right to process arrivals.
#ifndef VIADUCT_SOVIA_LANE_ENGINE_H
#define VIADUCT_SOVIA_LANE_ENGINE_H

#include <atomic>
#include <cstdint>

#include "sovia/lane/process_nic.h"
#include "sovia/lane/turn.h"

namespace viaduct::sovia {

// Gives the lanes a turn: processes arrivals. True if there were any. Costs next to nothing without a lane.
bool progress() VIADUCT_EXCLUDES(engine::g_turn) SOVIA_UNLOCKED;

namespace engine {

// The process's NIC once it is open, or nullptr. Set by the background thread.
ProcessNic* nic();
void set_nic(ProcessNic* nic);

// Whether there are lanes, in any state: without any, no thread need listen to the NIC. The background thread counts
// them.
bool has_lanes();
void count_lanes(int more);

// As progress(), even if options().handling leaves arrivals to another thread.
bool turn() VIADUCT_EXCLUDES(g_turn) SOVIA_UNLOCKED;
// Processes all that has arrived; waits for a thread that does so. No lock may be held but that of a socket's stream.
void take_all_in() VIADUCT_EXCLUDES(g_turn);
// Whether another thread was processing arrivals at this thread's last turn().
bool found_turn_taken();

// As turn(), for an entry that has been taken off the completion queue already.
void take_in(VIP_VI_HANDLE vi) VIADUCT_EXCLUDES(g_turn) SOVIA_UNLOCKED;

// Call between two polls of a thread that found nothing. A hosted program gets its packets from the agent, which may
// need this processor for that.
void after_look_in_vain();

// Number of times that a thread of the program has made progress; only its change matters.
std::uint32_t turns();

// The NIC's agent has gone: tells the NIC's lanes, whatever options().handling says.
void lost(ProcessNic& nic) VIADUCT_EXCLUDES(g_turn) SOVIA_UNLOCKED;
// A NIC that was lost, to be closed when its lanes have gone; nullptr: none.
ProcessNic* take_lost();

// Keeps all threads from processing arrivals, while a transport is destroyed.
void pause() VIADUCT_ACQUIRE(g_turn);
bool try_pause() VIADUCT_TRY_ACQUIRE(true, g_turn);
void go_on() VIADUCT_RELEASE(g_turn);

// At the end of the process: leaves the NIC to the finisher, which begins when no thread is in the middle of an arrival.
void leave() VIADUCT_EXCLUDES(g_turn);
// For the finisher: frees the turn that a thread had when it was killed. Returns the owner of the arrival that the
// thread was handing over, nullptr if there is none.
const ReceiveOwner* take_over();

// Ends a pause that began before the fork: there is no NIC any more.
void after_fork_in_child() VIADUCT_RELEASE(g_turn);

}  // namespace engine
}  // namespace viaduct::sovia

#endif
