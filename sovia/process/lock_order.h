// The order in which a thread takes locks, the outermost first. Clang compares what one function takes, or has to hold.
//
// A lock has a place between two marks: it is taken behind the one, and before the other.
//
// A thread that has a stream locked may wait for the turn (engine::take_all_in()), so a thread that has the turn only
// tries a stream (redirected_receive.cc); and fork, which takes the turn first, only tries the sets. Of sets that are in
// each other the outer one's lock comes first, but of what a set keeps for its outer sets (outer_mutex_) the inner one's.
#ifndef VIADUCT_SOVIA_PROCESS_LOCK_ORDER_H
#define VIADUCT_SOVIA_PROCESS_LOCK_ORDER_H

#include "xdp/thread_annotations.h"

namespace viaduct::sovia::lock_order {

struct VIADUCT_CAPABILITY("mark") Mark {};

inline constexpr Mark fork;                                       // the whole of a fork, before all
inline constexpr Mark sets VIADUCT_ACQUIRED_AFTER(fork);          // EpollSet
inline constexpr Mark receiver VIADUCT_ACQUIRED_AFTER(sets);      // MessageReceiver
inline constexpr Mark sender VIADUCT_ACQUIRED_AFTER(receiver);    // MessageSender
inline constexpr Mark rx VIADUCT_ACQUIRED_AFTER(sender);
inline constexpr Mark tx VIADUCT_ACQUIRED_AFTER(rx);
inline constexpr Mark turn VIADUCT_ACQUIRED_AFTER(tx);            // to process arrivals
inline constexpr Mark lane VIADUCT_ACQUIRED_AFTER(turn);
inline constexpr Mark sleepers VIADUCT_ACQUIRED_AFTER(lane);
inline constexpr Mark watchers VIADUCT_ACQUIRED_AFTER(sleepers);
inline constexpr Mark outer_sets VIADUCT_ACQUIRED_AFTER(watchers);
inline constexpr Mark ready VIADUCT_ACQUIRED_AFTER(outer_sets);
inline constexpr Mark requests VIADUCT_ACQUIRED_AFTER(ready);
inline constexpr Mark pool VIADUCT_ACQUIRED_AFTER(requests);

}  // namespace viaduct::sovia::lock_order

namespace viaduct::sovia {

// Held, alone or with others, by who has locked a stream of whichever socket (socket/stream_locks.h).
struct VIADUCT_CAPABILITY("stream") EitherStream {};
inline constexpr EitherStream either_stream;

}  // namespace viaduct::sovia

// A lock's place: behind the mark `before`, and before its own.
#define SOVIA_LOCK_ORDER(before, own) \
  VIADUCT_ACQUIRED_AFTER(::viaduct::sovia::lock_order::before) VIADUCT_ACQUIRED_BEFORE(::viaduct::sovia::lock_order::own)
// The caller has no stream locked.
#define SOVIA_UNLOCKED VIADUCT_EXCLUDES(::viaduct::sovia::either_stream)

#endif
