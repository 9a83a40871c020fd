// The locks of a socket's two streams, for Clang's analysis.
//
// Some state concerns both streams: it is read under either lock, and changed under both. It is guarded by
// `either_stream`: who has one of the locks has a share of it, who has both has it alone.
#ifndef VIADUCT_SOVIA_SOCKET_STREAM_LOCKS_H
#define VIADUCT_SOVIA_SOCKET_STREAM_LOCKS_H

#include "sovia/process/lock_order.h"
#include "xdp/thread_annotations.h"

// The caller has locked the receiving stream; the sending one; either of them; both.
#define SOVIA_RX_LOCKED(socket) VIADUCT_REQUIRES((socket).rx.lock) VIADUCT_REQUIRES_SHARED(::viaduct::sovia::either_stream)
#define SOVIA_TX_LOCKED(socket) VIADUCT_REQUIRES((socket).tx.lock) VIADUCT_REQUIRES_SHARED(::viaduct::sovia::either_stream)
#define SOVIA_STREAM_LOCKED VIADUCT_REQUIRES_SHARED(::viaduct::sovia::either_stream)
#define SOVIA_BOTH_LOCKED(socket) \
  VIADUCT_REQUIRES((socket).rx.lock, (socket).tx.lock, ::viaduct::sovia::either_stream)
// The caller has locked the socket's lane.
#define SOVIA_LANE_LOCKED(socket) VIADUCT_REQUIRES((socket).link.end->lane.lock())

#endif
