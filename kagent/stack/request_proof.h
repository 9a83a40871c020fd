// Whether the sender of a connection request has the address that it claims.
//
// Requests can be forged. While few unproven requests stand, the agent takes them as they come, so that connecting
// costs no more than it must. When they fill a good part of the table, or a request that a program has accepted turns
// out to have no requester, the agent asks for a proof for some time: it answers CONNECT_MOVED to itself, with a
// cookie that only a host that hears it can put into the request, and keeps nothing. Unproven requests that it has
// kept before wait until that time is over. A program's own stack asks for no proof: a requester that knows its
// address has heard the agent's CONNECT_MOVED.
#ifndef VIADUCT_KAGENT_STACK_REQUEST_PROOF_H
#define VIADUCT_KAGENT_STACK_REQUEST_PROOF_H

#include <cstdint>

#include "kagent/stack/frames_out.h"
#include "kagent/stack/tables.h"

namespace viaduct {

template <class Platform>
class RequestProof {
 public:
  RequestProof(const Tables& tables, FramesOut<Platform>& frames_out)
      : limits_(tables.limits), now_(tables.now), root_(tables.root), address_(tables.address),
        frames_out_(frames_out) {}

  void forget_unproven(const state::Request& request);
  void note_proven(state::Request& request);
  void suspect();
  bool is_proven(const wire::Decoded& frame, const wire::ConnectBody& body) const;
  void ask_for_proof(const MacAddress& source, const wire::ConnectBody& body);
  bool must_prove() const { return now_ < root_->proof_until; }

 private:
  std::uint64_t cookie(const MacAddress& source, const wire::ConnectBody& body,
                       std::uint64_t epoch) const;

  const StackLimits limits_;
  const std::uint64_t& now_;
  state::Root* root_;
  MacAddress address_;
  FramesOut<Platform>& frames_out_;
};

}  // namespace viaduct

#endif
