// The table of connection requests that came from others: found by the requester's key, in two lists by
// age, those that are over apart from those that are not.
//
//   kHeld --ConnectWait--> kMatched --Accept--> kAccepting
//     \________________________\___________________\____ over: kDone, so that a late copy of the frame
//                                                        does not look like a new request
#ifndef VIADUCT_KAGENT_STACK_CONNECT_REQUESTS_H
#define VIADUCT_KAGENT_STACK_CONNECT_REQUESTS_H

#include <cstdint>

#include "kagent/stack/request_proof.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"

namespace viaduct {

template <class Platform>
class ConnectRequests : private Timers {
 public:
  ConnectRequests(const Tables& tables, RequestProof<Platform>& request_proof)
      : Timers(tables), limits_(tables.limits), now_(tables.now), root_(tables.root),
        sessions_(tables.sessions), requests_(tables.requests),
        request_buckets_(tables.request_buckets), views_(tables.views),
        open_sessions_(tables.open_sessions), open_count_(tables.open_count),
        request_proof_(request_proof) {}

  void count_held(int change);
  std::uint32_t find_request(const MacAddress& source, const wire::ConnectBody& body) const;
  state::Request* request_of_handle(std::uint32_t session, std::uint32_t handle);
  std::uint32_t new_request();
  void hold_request(std::uint32_t request, const MacAddress& source, const wire::ConnectBody& body,
                    bool proven);
  void touch_request(std::uint32_t request);
  void drop_request(std::uint32_t request);
  void bury_request(std::uint32_t request);
  void request_timeout(std::uint32_t request);
  void release_request(std::uint32_t request);

 private:
  std::uint32_t request_bucket(std::uint64_t key) const;
  std::uint32_t oldest_done() const;
  state::RequestList& list_of(const state::Request& request);
  void append_request(std::uint32_t request);
  void remove_request(std::uint32_t request);

  const StackLimits limits_;
  const std::uint64_t& now_;
  state::Root* root_;
  state::Session* sessions_;
  Pool<state::Request> requests_;
  std::uint32_t* request_buckets_;
  layout::View* views_;
  std::uint32_t* open_sessions_;
  const std::uint32_t& open_count_;
  RequestProof<Platform>& request_proof_;
};

}  // namespace viaduct

#endif
