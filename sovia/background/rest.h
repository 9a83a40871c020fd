// The end of the background thread and of the NIC where they are of no use.
//
// Where all connections stay with the kernel, as it is faster or the peers have no SOVIA, the NIC holds memory and the
// threads make each system call dearer: the kernel counts its uses of descriptors in processes with several threads. So
// both end after a while, and begin anew when a connection asks for a lane.
#ifndef VIADUCT_SOVIA_BACKGROUND_REST_H
#define VIADUCT_SOVIA_BACKGROUND_REST_H

#include <cstdint>

namespace viaduct::sovia::background {

// For the background thread alone.

// Whether the thread is to end now.
bool may_rest(std::uint64_t now);
// When to ask that again; kNever: when something has happened.
std::uint64_t rest_due();
// To be called before the thread ends: lets connections ask for lanes in a while.
void prepare_rest();

}  // namespace viaduct::sovia::background

#endif
