// How a connection ends, as the part that finds out says it. The parts that move data only say so;
// dispatch (stack.cc) ends the connection when they have returned.
#ifndef VIADUCT_KAGENT_STACK_PENDING_DISCONNECT_H
#define VIADUCT_KAGENT_STACK_PENDING_DISCONNECT_H

#include <cstdint>

#include "kagent/stack/tables.h"

namespace viaduct {

// A connection is ended by: our program; our program, because it is gone; the peer's program; loss of the peer; an
// error that the peer is told of.
enum class End { kLocal, kGone, kRemote, kLost, kFailed };

class PendingDisconnect {
 public:
  // `refused_psn`, `reason` (wire::Refusal) and `index` (of the message in a packed frame): which
  // of the peer's messages is at fault, for kFailed.
  void end(ViIndex vi, End end, std::uint32_t error, std::uint32_t refused_psn = 0,
           std::uint32_t reason = 0, std::uint32_t index = 0) {
    vi_ = vi, end_ = end, error_ = error, refused_psn_ = refused_psn, reason_ = reason,
    index_ = index;
  }

  // A connection is to end; until dispatch does so, nothing more is done on it.
  bool pending() const { return vi_ != state::kNone; }

  // Ends it: end_connection(vi, end, error, refused_psn, reason, index).
  template <class EndConnection>
  void settle(EndConnection&& end_connection) {
    const ViIndex vi = vi_;
    vi_ = state::kNone;
    end_connection(vi, end_, error_, refused_psn_, reason_, index_);
  }

 private:
  ViIndex vi_ = state::kNone;
  End end_ = End::kLocal;
  std::uint32_t error_ = 0, refused_psn_ = 0, reason_ = 0, index_ = 0;
};

}  // namespace viaduct

#endif
