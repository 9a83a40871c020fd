#include "kagent/stack/request_targets.h"

#include <algorithm>
#include <cstring>

#include "kagent/stack/backoff.h"
#include "kagent/stack/connect_body.h"

namespace viaduct {

using state::Answer;
using state::Asked;
using state::Vi;
using wire::Type;

namespace {

constexpr std::uint8_t kPatience = 3;      // unanswered requests before the host is asked too

constexpr std::uint8_t kMaxUnanswered = 10;  // before a stack is given up

constexpr std::uint32_t kMovesAtOnce = 3;   // between two repetitions of the request

constexpr std::uint32_t kMovesInHaste = 16;  // after which repetitions begin anew

}  // namespace

template <class Platform>
void RequestTargets<Platform>::send_connect_request(ViIndex i, state::Asked& to) {
  const Vi& vi = vis_[i];
  if (to.unanswered != 0xff) ++to.unanswered;
  Frame frame;
  if (!frames_out_.reserve_frame(frame)) return;
  wire::ConnectBody body = body_of(vi, i, addresses_.host, mtu_, limits_.checksum, limits_.train_checksum);
  const state::Attempt& attempt = attempts_[i];
  body.local_length = static_cast<std::uint8_t>(attempt.local.discriminator_length);
  body.remote_length = static_cast<std::uint8_t>(attempt.remote.discriminator_length);
  std::memcpy(body.local.data(), attempt.local.discriminator, body.local_length);
  std::memcpy(body.remote.data(), attempt.remote.discriminator, body.remote_length);
  wire::Header header{};
  header.type = Type::kConnectRequest;
  header.window = credit_grants_.standing_credit();
  header.vi = kToRequest;
  header.key = to.cookie;
  header.payload_length = static_cast<std::uint16_t>(
      wire::encode(body, frame.data + wire::kEthernetBytes + wire::kHeaderBytes));
  to.may_keep = 1;
  frames_out_.submit_frame(frame,
                           wire::encode(header, to.address, address_, ether_type_, frame.data));
}

// The address that reaches a host. The stacks of the host's own programs use another one than stacks outside.
template <class Platform>
MacAddress RequestTargets<Platform>::way_to(const MacAddress& host) const {
  return host == addresses_.host ? addresses_.control_session : host;
}

template <class Platform>
void RequestTargets<Platform>::begin_asking(ViIndex i) {
  state::Attempt& attempt = attempts_[i];
  MacAddress host;
  std::memcpy(host.data(), attempt.remote.host, host.size());
  attempt.asked[0] = {way_to(host), Answer::kNone, 0, 0};
  attempt.asked_count = 1;
  attempt.moves = attempt.moves_now = 0;
}

template <class Platform>
typename RequestTargets<Platform>::Way& RequestTargets<Platform>::way_of(ViIndex i,
                                                                         std::uint32_t& discriminator) {
  const state::Attempt& attempt = attempts_[i];
  std::uint32_t hash = 2166136261u;
  const auto add = [&hash](std::uint8_t byte) { hash = (hash ^ byte) * 16777619u; };
  for (std::uint32_t n = 0; n < attempt.remote.discriminator_length; ++n) {
    add(attempt.remote.discriminator[n]);
  }
  discriminator = hash;
  for (const std::uint8_t byte : attempt.asked[0].address) add(byte);
  return ways_[(hash ^ hash >> 16) % kWays];
}

// Asks the stack that accepted the last request of this kind, which saves the detour by the host. If the first
// request there is not answered, the host is asked too.
template <class Platform>
void RequestTargets<Platform>::ask_known_way(ViIndex i) {
  std::uint32_t discriminator;
  const Way& way = way_of(i, discriminator);
  state::Attempt& attempt = attempts_[i];
  if (way.discriminator != discriminator || way.host != attempt.asked[0].address) return;
  attempt.asked[1] = {way.stack, Answer::kNone, kPatience - 1, 0};
  attempt.asked_count = 2;
}

template <class Platform>
void RequestTargets<Platform>::remember_way(ViIndex i, const MacAddress& accepted_by) {
  std::uint32_t discriminator;
  Way& way = way_of(i, discriminator);
  const MacAddress& host = attempts_[i].asked[0].address;
  if (accepted_by != host) {
    way = {host, accepted_by, discriminator};
  } else if (way.host == host && way.discriminator == discriminator) {
    way = {};
  }
}

template <class Platform>
Asked* RequestTargets<Platform>::find_asked(ViIndex i, const MacAddress& address) {
  state::Attempt& attempt = attempts_[i];
  for (std::uint32_t a = 0; a < attempt.asked_count; ++a) {
    if (attempt.asked[a].address == address) return &attempt.asked[a];
  }
  return nullptr;
}

// As find_asked(), but adds the address to those that are asked. Null when there are too many.
template <class Platform>
Asked* RequestTargets<Platform>::ask_too(ViIndex i, const MacAddress& address) {
  if (Asked* known = find_asked(i, address)) return known;
  state::Attempt& attempt = attempts_[i];
  Asked* place = nullptr;
  if (attempt.asked_count < state::kMaxAsked) {
    place = &attempt.asked[attempt.asked_count++];
  } else {
    for (std::uint32_t a = 1; a < attempt.asked_count && place == nullptr; ++a) {
      if (attempt.asked[a].unanswered >= kMaxUnanswered) place = &attempt.asked[a];
    }
  }
  if (place != nullptr) *place = {address, Answer::kNone, 0, 0};
  return place;
}

// The stack at this address has said its last word about the request.
template <class Platform>
void RequestTargets<Platform>::forget_asked(ViIndex i, const MacAddress& address) {
  if (Asked* asked = find_asked(i, address)) asked->may_keep = 0;
}

// Repeats the request to all stacks that may still answer.
template <class Platform>
void RequestTargets<Platform>::send_connect_requests(ViIndex i) {
  state::Attempt& attempt = attempts_[i];
  attempt.moves_now = 0;
  bool promising = false;
  for (std::uint32_t a = 1; a < attempt.asked_count; ++a) {
    Asked& asked = attempt.asked[a];
    if (asked.unanswered >= kMaxUnanswered) continue;
    promising |= asked.unanswered < kPatience && asked.answer != Answer::kHeld;
    send_connect_request(i, asked);
  }
  if (!promising) send_connect_request(i, attempt.asked[0]);
}

// The sender of CONNECT_MOVED does not keep the request. The address that it names is asked at once,
// unless it is asked already. Moves in circles must not make this stack busy.
template <class Platform>
void RequestTargets<Platform>::on_moved(ViIndex i, const wire::Decoded& frame) {
  MacAddress address;
  if (!wire::decode(frame.payload, address)) {
    ++root_->counters.drop_bad_body;
    return;
  }
  Vi& vi = vis_[i];
  const std::uint64_t asked_for =
      std::uint64_t{frame.header.offset} << 32 | frame.header.immediate;
  if (asked_for != 0 && !vi.link.peer_linked) return prove(i, frame.source, asked_for);
  address = way_to(address);
  if (vi.link.peer_linked || !peer_table_.reachable(address)) {
    ++root_->counters.drop_stale_answer;
    return;
  }
  if (Asked* from = find_asked(i, frame.source)) {
    from->answer = Answer::kNone;
    from->unanswered = 0;
    from->may_keep = 0;
  }
  state::Attempt& attempt = attempts_[i];
  if (attempt.moves_now == kMovesAtOnce) return;
  Asked* there = find_asked(i, address);
  if (there == nullptr) {
    // Gives up the stacks that have not answered so far, or two of them would have the request.
    for (Asked& other : std::span(attempt.asked).subspan(1)) {
      if (other.answer == Answer::kNone) other.unanswered = kMaxUnanswered;
    }
    there = ask_too(i, address);
    if (there == nullptr) return;
  } else if (there->unanswered < kMaxUnanswered) {
    return;
  } else {
    there->answer = Answer::kNone;
    there->unanswered = 0;
  }
  send_connect_request(i, *there);
  ++attempt.moves_now;
  if (++attempt.moves > kMovesInHaste) return;
  vi.link.attempts = 0;
  wheel_.arm(vi_timer(i), std::min(now_ + backoff(0), vi.link.connect_deadline));
}

// A host asks for a proof that we hear it. A host that goes on asking must not make us busy.
template <class Platform>
void RequestTargets<Platform>::prove(ViIndex i, const MacAddress& to, std::uint64_t shown) {
  state::Attempt& attempt = attempts_[i];
  Asked* const asked = find_asked(i, to);
  if (asked == nullptr || attempt.moves_now == kMovesAtOnce) return;
  ++attempt.moves_now;
  asked->cookie = shown;
  asked->unanswered = 0;
  send_connect_request(i, *asked);
}

// The attempt is over: no program shall be given the request any more.
template <class Platform>
void RequestTargets<Platform>::take_back(ViIndex i) {
  const Vi& vi = vis_[i];
  state::Attempt& attempt = attempts_[i];
  for (std::uint32_t a = 0; a < attempt.asked_count; ++a) {
    if (!attempt.asked[a].may_keep) continue;
    attempt.asked[a].may_keep = 0;
    frames_out_.send_short(wire::Type::kConnectReject, attempt.asked[a].address, kToRequest,
                           vi.link.local_key, vi.link.request, 0, 0);
  }
}

// The result of an attempt whose time has run out: a program that has the request has not answered, no
// program waited for it, or no host answered at all.
template <class Platform>
vip::Return RequestTargets<Platform>::unanswered(ViIndex i) const {
  const state::Attempt& attempt = attempts_[i];
  bool held = false;
  for (std::uint32_t a = 0; a < attempt.asked_count; ++a) {
    const Asked& asked = attempt.asked[a];
    if (a != 0 && asked.unanswered >= kMaxUnanswered) continue;
    if (asked.answer == Answer::kTaken) return vip::kTimeout;
    held |= asked.answer == Answer::kHeld;
  }
  return held ? vip::kNoMatch : vip::kTimeout;
}

}  // namespace viaduct
