#include "kagent/stack/connect_requests.h"

#include <algorithm>
#include <cstring>

#include "kagent/stack/backoff.h"

namespace viaduct {

using state::Request;
using state::RequestState;
using state::kBucketMask;
using state::kHandleBits;
using state::kNone;

namespace {

constexpr std::uint64_t kRequestSilence = 1000 * kMs;  // a requester this silent has given up

constexpr std::uint64_t kTombstoneTime = 2000 * kMs;
constexpr unsigned kEvictionTries = 64;
constexpr std::uint32_t kUnprovenShare = 4;         // 1 / this of the table

}  // namespace

// Tells the granted programs whether they must ring when they have published a listener: only while requests are
// held.
template <class Platform>
void ConnectRequests<Platform>::count_held(int change) {
  const bool before = root_->held_requests != 0;
  root_->held_requests += static_cast<std::uint32_t>(change);
  const bool after = root_->held_requests != 0;
  if (before == after || root_->delegates == 0) return;
  for (const std::uint32_t s : std::span(open_sessions_, open_count_)) {
    if (sessions_[s].delegated) views_[s].listeners().holding.store(after ? 1 : 0);
  }
  // A listener may be published at this moment. With this fence either we see it, or its owner sees `holding`.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

template <class Platform>
std::uint32_t ConnectRequests<Platform>::find_request(const MacAddress& source,
                                                      const wire::ConnectBody& body) const {
  for (std::uint32_t r = request_buckets_[request_bucket(body.key)]; r != kNone;
       r = requests_[r].bucket_next) {
    const Request& request = requests_[r];
    if (request.body.key == body.key && request.body.request == body.request &&
        request.source == source) {
      return r;
    }
  }
  return kNone;
}

template <class Platform>
Request* ConnectRequests<Platform>::request_of_handle(std::uint32_t session, std::uint32_t handle) {
  const std::uint32_t r = (handle & ((1u << kHandleBits) - 1)) - 1;
  if (r >= requests_.fresh()) return nullptr;
  Request& request = requests_[r];
  const bool valid = request.state != RequestState::kFree && request.session == session &&
                     request.handle(r) == handle;
  return valid ? &request : nullptr;
}

// Requesters draw the keys and must not know which requests share a bucket.
template <class Platform>
std::uint32_t ConnectRequests<Platform>::request_bucket(std::uint64_t key) const {
  return static_cast<std::uint32_t>((key ^ key >> 32) * root_->request_secret >> 48) & kBucketMask;
}

// The oldest one that is over, if possible one of which no program has a handle: by its handle a program
// learns that the requester gave up.
template <class Platform>
std::uint32_t ConnectRequests<Platform>::oldest_done() const {
  std::uint32_t r = root_->done_requests.oldest;
  for (unsigned i = 0; r != kNone && i < kEvictionTries; ++i, r = requests_[r].newer) {
    if (requests_[r].session == kNone) return r;
  }
  return root_->done_requests.oldest;
}

// Room for one more request: a free record, else the record of one that is over, else of the oldest one that no
// program waits for. If that one's requester is still there, it asks again.
template <class Platform>
std::uint32_t ConnectRequests<Platform>::new_request() {
  const std::uint32_t r = requests_.take();
  if (r != kNone) return r;
  std::uint32_t oldest = oldest_done();
  if (oldest == kNone) {
    oldest = root_->live_requests.oldest;
    for (unsigned i = 0; oldest != kNone && requests_[oldest].state != RequestState::kHeld; ++i) {
      oldest = i < kEvictionTries ? requests_[oldest].newer : kNone;
    }
    if (oldest == kNone) return kNone;
    ++root_->counters.drop_request_table_full;
  }
  drop_request(oldest);
  return requests_.take();
}

// Keeps a new request, which no program has yet.
template <class Platform>
void ConnectRequests<Platform>::hold_request(std::uint32_t r, const MacAddress& source,
                                             const wire::ConnectBody& body, bool proven) {
  Request& request = requests_[r];
  request.state = RequestState::kHeld;
  request.proven = proven;
  if (!proven && ++root_->unproven >= std::max(limits_.requests / kUnprovenShare, 1u)) {
    request_proof_.suspect();
  }
  request.source = source;
  request.body = body;
  request.session = kNone;
  request.last_seen = now_;
  std::uint32_t& bucket = request_buckets_[request_bucket(body.key)];
  request.bucket_next = bucket;
  bucket = r;
  append_request(r);
  wheel_.arm(request_timer(r), now_ + kRequestSilence);
  count_held(+1);
}

template <class Platform>
state::RequestList& ConnectRequests<Platform>::list_of(const Request& request) {
  return request.state == RequestState::kDone ? root_->done_requests : root_->live_requests;
}

template <class Platform>
void ConnectRequests<Platform>::append_request(std::uint32_t r) {
  Request& request = requests_[r];
  state::RequestList& list = list_of(request);
  request.newer = kNone;
  request.older = list.newest;
  (request.older == kNone ? list.oldest : requests_[request.older].newer) = r;
  list.newest = r;
}

template <class Platform>
void ConnectRequests<Platform>::remove_request(std::uint32_t r) {
  const Request& request = requests_[r];
  state::RequestList& list = list_of(request);
  (request.older == kNone ? list.oldest : requests_[request.older].newer) = request.newer;
  (request.newer == kNone ? list.newest : requests_[request.newer].older) = request.older;
}

// Moves a request to the young end of its list.
template <class Platform>
void ConnectRequests<Platform>::touch_request(std::uint32_t r) {
  requests_[r].last_seen = now_;
  remove_request(r);
  append_request(r);
}

template <class Platform>
void ConnectRequests<Platform>::drop_request(std::uint32_t r) {
  Request& request = requests_[r];
  wheel_.disarm(request_timer(r));
  if (request.state == RequestState::kHeld) count_held(-1);
  request_proof_.forget_unproven(request);
  remove_request(r);
  std::uint32_t* link = &request_buckets_[request_bucket(request.body.key)];
  while (*link != r) link = &requests_[*link].bucket_next;
  *link = request.bucket_next;
  request.state = RequestState::kFree;
  request.generation = (request.generation + 1) & (~0u >> kHandleBits);
  requests_.give(r);
}

// The request is over, but a late copy of its frame must not look like a new one.
template <class Platform>
void ConnectRequests<Platform>::bury_request(std::uint32_t r) {
  remove_request(r);
  if (requests_[r].state == RequestState::kHeld) count_held(-1);
  request_proof_.forget_unproven(requests_[r]);
  requests_[r].state = RequestState::kDone;
  append_request(r);
  wheel_.arm(request_timer(r), now_ + kTombstoneTime);
}

template <class Platform>
void ConnectRequests<Platform>::request_timeout(std::uint32_t r) {
  Request& request = requests_[r];
  const std::uint64_t limit =
      request.state == RequestState::kDone ? kTombstoneTime : kRequestSilence;
  if (now_ - request.last_seen < limit && request.state != RequestState::kDone) {
    wheel_.arm(request_timer(r), request.last_seen + limit);
    return;
  }
  if (request.state == RequestState::kAccepting) return;  // the VI's own timer decides
  if (request.state == RequestState::kMatched) {
    if (!request.proven) request_proof_.suspect();
    return bury_request(r);
  }
  // A program that has its handle must be able to learn, however late, that the requester gave up.
  if (request.state == RequestState::kDone && request.session != kNone) return;
  drop_request(r);
}

// The handle of a request is used up.
template <class Platform>
void ConnectRequests<Platform>::release_request(std::uint32_t r) {
  requests_[r].session = kNone;
  if (requests_[r].state == RequestState::kDone && !wheel_.armed(request_timer(r))) {
    drop_request(r);
  }
}

}  // namespace viaduct
