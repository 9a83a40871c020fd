#include "kagent/stack/request_proof.h"

#include <cstring>

#include "kagent/stack/backoff.h"
#include "kagent/stack/siphash.h"

namespace viaduct {

using state::Request;
using state::RequestState;

namespace {

constexpr std::uint64_t kSuspicion = 10'000 * kMs;  // a proof is asked for that long

constexpr std::uint64_t kCookieTime = 4'000 * kMs;  // a cookie is good for once to twice that long

// A cookie travels in two fields of 32 bits, of which one is never 0.
constexpr std::uint64_t kCookieMark = 1;

}  // namespace

template <class Platform>
void RequestProof<Platform>::forget_unproven(const Request& request) {
  if (!request.proven && request.state != RequestState::kDone) --root_->unproven;
}

template <class Platform>
void RequestProof<Platform>::note_proven(Request& request) {
  forget_unproven(request);
  request.proven = 1;
}

template <class Platform>
void RequestProof<Platform>::suspect() {
  if (limits_.claims != 0) root_->proof_until = now_ + kSuspicion;
}

template <class Platform>
std::uint64_t RequestProof<Platform>::cookie(const MacAddress& source, const wire::ConnectBody& body,
                                             std::uint64_t epoch) const {
  std::uint64_t address = 0;
  std::memcpy(&address, source.data(), source.size());
  const std::uint64_t words[] = {body.key, std::uint64_t{body.request} << 32 | body.vi, epoch,
                                 address};
  return siphash(root_->cookie_key, words) | kCookieMark;
}

template <class Platform>
bool RequestProof<Platform>::is_proven(const wire::Decoded& frame,
                                       const wire::ConnectBody& body) const {
  const std::uint64_t shown = frame.header.key, epoch = now_ / kCookieTime;
  return shown != 0 && (shown == cookie(frame.source, body, epoch) ||
                        shown == cookie(frame.source, body, epoch - 1));
}

template <class Platform>
void RequestProof<Platform>::ask_for_proof(const MacAddress& source, const wire::ConnectBody& body) {
  ++root_->counters.proofs_asked;
  frames_out_.send_moved(source, body, address_, cookie(source, body, now_ / kCookieTime));
}

}  // namespace viaduct
