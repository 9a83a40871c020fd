// The table of connection requests that came from others: found by the requester's key, in two lists by
// age, those that are over apart from those that are not.
//
//   kHeld --ConnectWait--> kMatched --Accept--> kAccepting
//     \________________________\___________________\____ over: kDone, so that a late copy of the frame
//                                                        does not look like a new request
//
// Requests can be forged. The agent takes them as they come while few of them stand that might be:
// connecting costs no more than it must. When they fill a good part of the table, or one that a
// program has accepted turns out to have nobody behind it, the agent asks for a proof for some time:
// it answers CONNECT_MOVED to itself, with a cookie that only who hears it can put into the request,
// and keeps nothing. Unproven requests that it has kept wait until then. A program's own stack asks for
// none: who knows its address has heard the agent's CONNECT_MOVED.
#include "kagent/stack/siphash.h"
#include "kagent/stack/stack.h"

namespace viaduct {

using state::kBucketMask;
using state::kHandleBits;
using state::kNone;
using state::Request;
using state::RequestState;

namespace {

constexpr std::uint64_t kRequestSilence = 1000 * kMs;  // a requester this silent has given up
constexpr std::uint64_t kTombstoneTime = 2000 * kMs;
constexpr unsigned kEvictionTries = 64;
constexpr std::uint64_t kSuspicion = 10'000 * kMs;  // a proof is asked for that long
constexpr std::uint64_t kCookieTime = 4'000 * kMs;  // a cookie is good for once to twice that long
constexpr std::uint32_t kUnprovenShare = 4;         // 1 / this of the table

// A cookie travels in two fields of 32 bits, of which one is never 0.
constexpr std::uint64_t kCookieMark = 1;

}  // namespace

std::uint32_t Stack::find_request(const MacAddress& source, const wire::ConnectBody& body) const {
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

Request* Stack::request_of_handle(std::uint32_t session, std::uint32_t handle) {
  const std::uint32_t r = (handle & ((1u << kHandleBits) - 1)) - 1;
  if (r >= requests_.fresh()) return nullptr;
  Request& request = requests_[r];
  const bool valid = request.state != RequestState::kFree && request.session == session &&
                     request.handle(r) == handle;
  return valid ? &request : nullptr;
}

// Who draws the keys must not know which requests share a bucket.
std::uint32_t Stack::request_bucket(std::uint64_t key) const {
  return static_cast<std::uint32_t>((key ^ key >> 32) * root_->request_secret >> 48) & kBucketMask;
}

// Room for one more request: a free record, else that of the oldest one that is over, else of the
// oldest one that nobody waits for: if its requester is still there, it asks again.
std::uint32_t Stack::new_request() {
  const std::uint32_t r = requests_.take();
  if (r != kNone) return r;
  std::uint32_t oldest = root_->done_requests.oldest;
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

// A new one, that nobody has yet.
void Stack::hold_request(std::uint32_t r, const MacAddress& source, const wire::ConnectBody& body,
                         bool proven) {
  Request& request = requests_[r];
  request.state = RequestState::kHeld;
  request.proven = proven;
  if (!proven && ++root_->unproven >= std::max(limits_.requests / kUnprovenShare, 1u)) suspect();
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

state::RequestList& Stack::list_of(const Request& request) {
  return request.state == RequestState::kDone ? root_->done_requests : root_->live_requests;
}

void Stack::append_request(std::uint32_t r) {
  Request& request = requests_[r];
  state::RequestList& list = list_of(request);
  request.newer = kNone;
  request.older = list.newest;
  (request.older == kNone ? list.oldest : requests_[request.older].newer) = r;
  list.newest = r;
}

void Stack::remove_request(std::uint32_t r) {
  const Request& request = requests_[r];
  state::RequestList& list = list_of(request);
  (request.older == kNone ? list.oldest : requests_[request.older].newer) = request.newer;
  (request.newer == kNone ? list.newest : requests_[request.newer].older) = request.older;
}

// Moves a request to the young end of its list.
void Stack::touch_request(std::uint32_t r) {
  requests_[r].last_seen = now_;
  remove_request(r);
  append_request(r);
}

void Stack::drop_request(std::uint32_t r) {
  Request& request = requests_[r];
  wheel_.disarm(request_timer(r));
  if (request.state == RequestState::kHeld) count_held(-1);
  forget_unproven(request);
  remove_request(r);
  std::uint32_t* link = &request_buckets_[request_bucket(request.body.key)];
  while (*link != r) link = &requests_[*link].bucket_next;
  *link = request.bucket_next;
  request.state = RequestState::kFree;
  request.generation = (request.generation + 1) & (~0u >> kHandleBits);
  requests_.give(r);
}

// The request is over, but a late copy of its frame must not look like a new one.
void Stack::bury_request(std::uint32_t r) {
  remove_request(r);
  if (requests_[r].state == RequestState::kHeld) count_held(-1);
  forget_unproven(requests_[r]);
  requests_[r].state = RequestState::kDone;
  append_request(r);
  wheel_.arm(request_timer(r), now_ + kTombstoneTime);
}

void Stack::request_timeout(std::uint32_t r) {
  Request& request = requests_[r];
  const std::uint64_t limit =
      request.state == RequestState::kDone ? kTombstoneTime : kRequestSilence;
  if (now_ - request.last_seen < limit && request.state != RequestState::kDone) {
    wheel_.arm(request_timer(r), request.last_seen + limit);
    return;
  }
  if (request.state == RequestState::kAccepting) return;  // the VI's own timer decides
  if (request.state == RequestState::kMatched) {
    if (!request.proven) suspect();
    return bury_request(r);
  }
  // A program that has its handle must be able to learn, however late, that the requester gave up.
  if (request.state == RequestState::kDone && request.session != kNone) return;
  drop_request(r);
}

// The handle of a request is used up.
void Stack::release_request(std::uint32_t r) {
  requests_[r].session = kNone;
  if (requests_[r].state == RequestState::kDone && !wheel_.armed(request_timer(r))) {
    drop_request(r);
  }
}

// ---------------------------------------------------------------------------- forged ones

void Stack::forget_unproven(const Request& request) {
  if (!request.proven && request.state != RequestState::kDone) --root_->unproven;
}

void Stack::note_proven(Request& request) {
  forget_unproven(request);
  request.proven = 1;
}

void Stack::suspect() {
  if (limits_.claims != 0) root_->proof_until = now_ + kSuspicion;
}

std::uint64_t Stack::cookie(const MacAddress& source, const wire::ConnectBody& body,
                            std::uint64_t epoch) const {
  std::uint64_t address = 0;
  std::memcpy(&address, source.data(), source.size());
  const std::uint64_t words[] = {body.key, std::uint64_t{body.request} << 32 | body.vi, epoch,
                                 address};
  return siphash(root_->cookie_key, words) | kCookieMark;
}

bool Stack::is_proven(const wire::Decoded& frame, const wire::ConnectBody& body) const {
  const std::uint64_t shown = frame.header.key, epoch = now_ / kCookieTime;
  return shown != 0 && (shown == cookie(frame.source, body, epoch) ||
                        shown == cookie(frame.source, body, epoch - 1));
}

void Stack::ask_for_proof(const MacAddress& source, const wire::ConnectBody& body) {
  ++root_->counters.proofs_asked;
  send_moved(source, body, address_, cookie(source, body, now_ / kCookieTime));
}

}  // namespace viaduct
