// Connection requests that are sent on, from a host to the stack of a program there.
//
//   requester                             host's agent              granted program's stack
//   CONNECT_REQUEST ----------------------> sees its notice
//                <------- CONNECT_MOVED ---
//   CONNECT_REQUEST (repeated) --------------------------------------> as in stack_connect.cc
//
// A notice may be gone by the time the request arrives, and whoever put it up may be dead. So a
// requester without an answer, or one that hears that nobody waits, asks the host again too, and
// takes its request back from all others when the attempt is over.
#include <algorithm>
#include <cstring>

#include "kagent/stack/repeat.h"
#include "kagent/stack/stack.h"

namespace viaduct {

using state::Answer;
using state::Asked;
using state::kNone;
using state::RequestState;
using state::Vi;

namespace {

constexpr std::uint8_t kPatience = 3;      // unanswered requests before the host is asked too
constexpr std::uint8_t kMaxUnanswered = 10;  // before a stack is given up
constexpr std::uint32_t kMovesAtOnce = 3;   // between two repetitions of the request
constexpr std::uint32_t kMovesInHaste = 16;  // after which repetitions begin anew
// Notices that are looked at in a millisecond, so that a program that puts up many for nothing
// can't hold up everybody else. What is not found now is found when the request is repeated.
constexpr std::uint32_t kNoticesPerMs = 65536;

}  // namespace

// ---------------------------------------------------------------------------- the requester

// The address that reaches a host: from its own programs' stacks another one than from outside.
MacAddress Stack::way_to(const MacAddress& host) const {
  return host == addresses_.host ? addresses_.desk : host;
}

void Stack::begin_asking(ViIndex i) {
  state::Attempt& attempt = attempts_[i];
  MacAddress host;
  std::memcpy(host.data(), attempt.remote.host, host.size());
  attempt.asked[0] = {way_to(host), Answer::kNone, 0, 0};
  attempt.asked_count = 1;
  attempt.moves = attempt.moves_now = 0;
}

Stack::Way& Stack::way_of(ViIndex i, std::uint32_t& discriminator) {
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

// Asks where the last request of this kind has ended up, and the host only if nobody answers there:
// it saves the detour. Not repeated there in vain.
void Stack::ask_known_way(ViIndex i) {
  std::uint32_t discriminator;
  const Way& way = way_of(i, discriminator);
  state::Attempt& attempt = attempts_[i];
  if (way.discriminator != discriminator || way.host != attempt.asked[0].address) return;
  attempt.asked[1] = {way.stack, Answer::kNone, kPatience - 1, 0};
  attempt.asked_count = 2;
}

void Stack::remember_way(ViIndex i, const MacAddress& accepted_by) {
  std::uint32_t discriminator;
  Way& way = way_of(i, discriminator);
  const MacAddress& host = attempts_[i].asked[0].address;
  if (accepted_by != host) {
    way = {host, accepted_by, discriminator};
  } else if (way.host == host && way.discriminator == discriminator) {
    way = {};
  }
}

Asked* Stack::find_asked(ViIndex i, const MacAddress& address) {
  state::Attempt& attempt = attempts_[i];
  for (std::uint32_t a = 0; a < attempt.asked_count; ++a) {
    if (attempt.asked[a].address == address) return &attempt.asked[a];
  }
  return nullptr;
}

// The same, adding it to those that are asked. Null when there are too many of them.
Asked* Stack::ask_too(ViIndex i, const MacAddress& address) {
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

// It has said the last word about the request.
void Stack::forget_asked(ViIndex i, const MacAddress& address) {
  if (Asked* asked = find_asked(i, address)) asked->may_keep = 0;
}

// Repeats the request wherever an answer is hoped for.
void Stack::send_connect_requests(ViIndex i) {
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

// Who moves us forgets us. Where we are sent is asked at once, unless it is asked already. Whoever
// sends us round in circles must not make us busy.
void Stack::on_moved(ViIndex i, const wire::Decoded& frame) {
  MacAddress address;
  if (!wire::decode(frame.payload, address)) {
    ++root_->counters.drop_bad_body;
    return;
  }
  Vi& vi = vis_[i];
  const std::uint64_t asked_for =
      std::uint64_t{frame.header.offset} << 32 | frame.header.immediate;
  if (asked_for != 0 && !vi.peer_linked) return prove(i, frame.source, asked_for);
  address = way_to(address);
  if (vi.peer_linked || !reachable(address)) {
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
    // Those that have not answered so far are given up for it, or two would have the request.
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
  vi.attempts = 0;
  wheel_.arm(vi_timer(i), std::min(now_ + repeat_after(0), vi.connect_deadline));
}

// It asks whether we hear it. Whoever goes on asking must not make us busy.
void Stack::prove(ViIndex i, const MacAddress& to, std::uint64_t shown) {
  state::Attempt& attempt = attempts_[i];
  Asked* const asked = find_asked(i, to);
  if (asked == nullptr || attempt.moves_now == kMovesAtOnce) return;
  ++attempt.moves_now;
  asked->cookie = shown;
  asked->unanswered = 0;
  send_connect_request(i, *asked);
}

// The attempt is over: nobody shall be given the request any more.
void Stack::take_back(ViIndex i) {
  const Vi& vi = vis_[i];
  state::Attempt& attempt = attempts_[i];
  for (std::uint32_t a = 0; a < attempt.asked_count; ++a) {
    if (!attempt.asked[a].may_keep) continue;
    attempt.asked[a].may_keep = 0;
    send_short(wire::Type::kConnectReject, attempt.asked[a].address, kToRequest, vi.local_key,
               vi.request, 0, 0);
  }
}

// What to say of an attempt whose time has run out: a program that has the request has not
// answered, nobody waited for it, or nobody answered at all.
vip::Return Stack::unanswered(ViIndex i) const {
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

// ---------------------------------------------------------------------------- the agent

void Stack::delegate(std::uint32_t session, const MacAddress& address) {
  sessions_[session].delegate = address;
  sessions_[session].delegated = 1;
  ++root_->delegates;
  views_[session].notices().holding.store(root_->held_requests != 0 ? 1 : 0);
}

// Tells the granted programs whether it matters that they ring when they put up a notice.
void Stack::count_held(int change) {
  const bool before = root_->held_requests != 0;
  root_->held_requests += static_cast<std::uint32_t>(change);
  const bool after = root_->held_requests != 0;
  if (before == after || root_->delegates == 0) return;
  for (const std::uint32_t s : std::span(open_sessions_, open_count_)) {
    if (sessions_[s].delegated) views_[s].notices().holding.store(after ? 1 : 0);
  }
  // Against a notice that is put up at this moment: either we see it or its owner sees `holding`.
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Whether the session's program waits for this request. What lies in its segment may be nonsense,
// and may change while it is read; it could only send others to its own stack in vain.
bool Stack::has_notice(std::uint32_t session, const wire::ConnectBody& body) {
  const layout::Notices& notices = views_[session].notices();
  const bool peer = (body.rdma_flags & wire::kPeerToPeer) != 0;
  const std::uint32_t wanted = peer ? layout::kNoticePeer : layout::kNoticeWait;
  for (std::uint32_t word = 0; word < layout::kNotices / 64; ++word) {
    std::uint64_t active = notices.active[word].load(std::memory_order_acquire);
    for (; active != 0; active &= active - 1) {
      const layout::Notice& notice =
          notices.notice[word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(active))];
      ++root_->notices_seen;
      if (notice.state.load(std::memory_order_acquire) == wanted &&
          notice.local.discriminator_length == body.remote_length &&
          std::memcmp(notice.local.discriminator, body.remote.data(), body.remote_length) == 0 &&
          (!peer || std::memcmp(notice.local.host, body.host.data(), body.host.size()) == 0)) {
        return true;
      }
    }
  }
  return false;
}

// Sends a request on to a program that waits for it, taking turns among those that do. False if
// there is none.
bool Stack::move_request(const MacAddress& source, const wire::ConnectBody& body) {
  if (root_->delegates == 0) return false;
  const std::uint64_t epoch = now_ / kMs;
  if (epoch != root_->notice_epoch) {
    root_->notice_epoch = epoch;
    root_->notices_seen = 0;
  }
  if (root_->notices_seen >= kNoticesPerMs) return false;
  std::uint32_t turn = root_->notice_turn;
  for (std::uint32_t n = 0; n < open_count_; ++n) {
    if (turn >= open_count_) turn = 0;
    const std::uint32_t session = open_sessions_[turn++];
    if (!sessions_[session].delegated || !has_notice(session, body)) continue;
    root_->notice_turn = turn;
    send_moved(source, body, sessions_[session].delegate, 0);
    return true;
  }
  return false;
}

void Stack::send_moved(const MacAddress& source, const wire::ConnectBody& body,
                       const MacAddress& to, std::uint64_t wanted) {
  Frame frame;
  if (!reserve_frame(frame)) return;
  wire::Header header{};
  header.type = wire::Type::kConnectMoved;
  header.vi = body.vi;
  header.key = body.key;
  header.psn = body.request;
  header.offset = static_cast<std::uint32_t>(wanted >> 32);
  header.immediate = static_cast<std::uint32_t>(wanted);
  header.payload_length = static_cast<std::uint16_t>(to.size());
  std::memcpy(frame.data + wire::kEthernetBytes + wire::kHeaderBytes, to.data(), to.size());
  submit_frame(frame, wire::encode(header, source, address_, ether_type_, frame.data));
}

// A program has put up a notice, maybe for a request that is held. Once in a millisecond at most.
void Stack::move_held_requests() {
  if (root_->held_requests == 0) return;
  if (now_ - root_->notice_scan < kMs) {
    wheel_.arm(notice_timer(), root_->notice_scan + kMs);
    return;
  }
  root_->notice_scan = now_;
  for (std::uint32_t r = root_->live_requests.oldest; r != kNone;) {
    const std::uint32_t next = requests_[r].newer;
    const state::Request& request = requests_[r];
    if (request.state == RequestState::kHeld && move_request(request.source, request.body)) {
      drop_request(r);
    }
    r = next;
  }
}

}  // namespace viaduct
