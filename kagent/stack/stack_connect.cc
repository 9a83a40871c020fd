// Connections: how they begin. stack_requests.cc has the table of requests, stack_disconnect.cc how
// connections end.
//
//   requester                                          acceptor
//   ConnectRequest -> CONNECT_REQUEST (repeated) --->  held, or given to a ConnectWait
//                <--- CONNECT_HELD                     (nobody waits / a program has it)
//                <--- CONNECT_ACCEPT (repeated)        ConnectAccept
//   Connected, CONNECT_CONFIRM --------------------->  Connected
#include <cstring>

#include "kagent/stack/repeat.h"
#include "kagent/stack/stack.h"

namespace viaduct {

using layout::CommandBody;
using layout::Op;
using state::kNone;
using state::Request;
using state::RequestState;
using state::Vi;
using wire::Type;

namespace {

constexpr std::uint64_t kAcceptTime = 1000 * kMs;    // ACCEPT is repeated that long
constexpr std::uint64_t kPollTime = 5 * kMs;  // a wait without a timeout, if others hold requests

bool same(const layout::Address& wanted, const wire::ConnectBody& body) {
  return wanted.discriminator_length == body.remote_length &&
         std::memcmp(wanted.discriminator, body.remote.data(), body.remote_length) == 0;
}

wire::ConnectBody body_of(const Vi& vi, std::uint32_t vi_index, const MacAddress& host,
                          std::uint32_t mtu, bool checksum) {
  wire::ConnectBody body{};
  body.host = host;
  body.request = vi.request;
  body.vi = vi_index;
  body.key = vi.local_key;
  body.first_psn = vi.send_next;
  body.max_transfer = vi.max_transfer;
  body.reliability = vi.reliability;
  body.mtu = static_cast<std::uint16_t>(std::min(mtu, 65535u));
  body.rdma_flags = static_cast<std::uint8_t>((vi.peer_to_peer ? wire::kPeerToPeer : 0) |
                                              (vi.enable_write ? wire::kRdmaWriteEnabled : 0) |
                                              (vi.enable_read ? wire::kRdmaReadEnabled : 0) |
                                              (checksum ? wire::kAsksForChecksum : 0));
  return body;
}

layout::ViAttributes attributes_of(const wire::ConnectBody& body) {
  return {body.reliability, body.max_transfer, 0,
          (body.rdma_flags & wire::kRdmaWriteEnabled) != 0 ? 1u : 0u,
          (body.rdma_flags & wire::kRdmaReadEnabled) != 0 ? 1u : 0u};
}

}  // namespace

// ---------------------------------------------------------------------------- requests that came

void Stack::send_request_answer(const Request& request, Type type, std::uint32_t detail) {
  send_short(type, request.source, request.body.vi, request.body.key, request.body.request, 0,
             detail);
}

void Stack::on_connect_request(const wire::Decoded& frame) {
  StackCounters& count = root_->counters;
  wire::ConnectBody body;
  if (!wire::decode(frame.payload, body) || body.remote_length > layout::kMaxDiscriminator ||
      body.local_length > layout::kMaxDiscriminator) {
    ++count.drop_bad_body;
    return;
  }
  const bool proven = is_proven(frame, body);
  const bool trusted = proven || !must_prove();
  body.credit = frame.header.window;
  std::uint32_t r = find_request(frame.source, body);
  if (r != kNone) {
    Request& request = requests_[r];
    if (proven) note_proven(request);
    switch (request.state) {
      case RequestState::kHeld:
        if (move_request(frame.source, body)) return drop_request(r);
        if (request.proven || trusted) {
          send_request_answer(request, Type::kConnectHeld, 0);
        } else {
          ask_for_proof(frame.source, body);
        }
        break;
      case RequestState::kMatched: send_request_answer(request, Type::kConnectHeld, 1); break;
      case RequestState::kAccepting: send_connect_accept(request.vi); break;
      default: ++count.drop_duplicate; return;
    }
    touch_request(r);
    return;
  }
  const ViIndex known = find_by_peer_key(frame.source, body.vi, body.key);
  if (known != kNone) {
    ++count.drop_duplicate;
    if ((body.rdma_flags & wire::kPeerToPeer) && vis_[known].peer_linked) {
      vis_[known].remote_request = body.request;
      send_connect_accept(known);
    }
    return;
  }
  const bool peer_to_peer = (body.rdma_flags & wire::kPeerToPeer) != 0;
  if (trusted && peer_to_peer && on_peer_request(frame, body)) return;

  std::uint32_t listener = peer_to_peer ? kNone : root_->listeners;
  while (listener != kNone && !same(pendings_[listener].local, body)) {
    listener = pendings_[listener].listener_next;
  }
  if (listener == kNone && move_request(frame.source, body)) return;
  if (!trusted) return ask_for_proof(frame.source, body);
  r = new_request();
  if (r == kNone) {
    ++count.drop_request_table_full;
    return;
  }
  hold_request(r, frame.source, body, proven);
  if (listener != kNone) {
    const std::uint32_t session = listener / layout::kCommands;
    const std::uint32_t command = listener % layout::kCommands;
    unlisten(session, command);
    return deliver_request(r, session, command);
  }
  // A notice that was put up since we looked may not have been announced to us: now it will be.
  if (root_->held_requests == 1 && move_request(frame.source, body)) return drop_request(r);
  send_request_answer(requests_[r], Type::kConnectHeld, 0);
}

// ---------------------------------------------------------------------------- waiting

void Stack::connect_wait(std::uint32_t session, std::uint32_t command, const CommandBody& body) {
  state::Pending& waiting = pending(session, command);
  for (std::uint32_t r = root_->live_requests.oldest; r != kNone; r = requests_[r].newer) {
    const Request& request = requests_[r];
    --credit_;
    if (request.state != RequestState::kHeld || !same(body.local, request.body) ||
        (request.body.rdma_flags & wire::kPeerToPeer) || (must_prove() && !request.proven)) {
      continue;
    }
    waiting.op = Op::kConnectWait;
    return deliver_request(r, session, command);
  }
  waiting.notice = environment_.put_up(body.local, false);
  std::uint64_t timeout_ms = body.timeout_ms;
  if (timeout_ms == 0) {
    // Requests may be held by somebody else, who needs a moment to hear that we ask for them.
    if (waiting.notice == layout::kNoNotice) return finish(session, command, vip::kTimeout);
    timeout_ms = kPollTime / kMs;
  }
  waiting.op = Op::kConnectWait;
  waiting.local = body.local;
  waiting.listener_next = kNone;
  const std::uint32_t self = session * layout::kCommands + command;
  if (root_->listeners == kNone) {
    root_->listeners = self;
  } else {
    pendings_[root_->listeners_tail].listener_next = self;
  }
  root_->listeners_tail = self;
  if (timeout_ms < ~0ull / kMs / 4) {
    wheel_.arm(command_timer(session, command), now_ + timeout_ms * kMs);
  }
}

void Stack::unlisten(std::uint32_t session, std::uint32_t command) {
  const std::uint32_t self = session * layout::kCommands + command;
  const std::uint32_t notice = pendings_[self].notice;
  if (notice != layout::kNoNotice) environment_.take_down(notice);
  std::uint32_t previous = kNone;
  for (std::uint32_t l = root_->listeners; l != kNone; l = pendings_[l].listener_next) {
    if (l == self) {
      const std::uint32_t next = pendings_[l].listener_next;
      if (previous == kNone) {
        root_->listeners = next;
      } else {
        pendings_[previous].listener_next = next;
      }
      if (root_->listeners_tail == self) root_->listeners_tail = previous;
      return;
    }
    previous = l;
  }
}

void Stack::deliver_request(std::uint32_t r, std::uint32_t session, std::uint32_t command) {
  Request& request = requests_[r];
  count_held(-1);
  request.state = RequestState::kMatched;
  request.session = session;
  request.program = pending(session, command).program;
  CommandBody out{};
  out.op = Op::kConnectWait;
  std::memcpy(out.remote.host, request.body.host.data(), request.body.host.size());
  out.remote.discriminator_length = request.body.local_length;
  std::memcpy(out.remote.discriminator, request.body.local.data(), request.body.local_length);
  out.vi_attributes = viaduct::attributes_of(request.body);
  out.handle = request.handle(r);
  finish(session, command, vip::kSuccess, out);
}

vip::Return Stack::connect_reject(std::uint32_t session, const CommandBody& body) {
  Request* request = request_of_handle(session, body.handle);
  if (request == nullptr || request->state == RequestState::kAccepting) {
    return vip::kInvalidParameter;
  }
  if (request->state == RequestState::kDone) {
    release_request(requests_.index(*request));
    return vip::kTimeout;
  }
  send_request_answer(*request, Type::kConnectReject, 0);
  release_request(requests_.index(*request));
  bury_request(requests_.index(*request));
  return vip::kSuccess;
}

void Stack::connect_accept(std::uint32_t session, std::uint32_t command, const CommandBody& body) {
  Request* request = request_of_handle(session, body.handle);
  Vi* vi = find_vi(session, body.vi, body.generation);
  if (request == nullptr || vi == nullptr || request->state == RequestState::kAccepting) {
    return finish(session, command, vip::kInvalidParameter);
  }
  if (request->state == RequestState::kDone) {
    release_request(requests_.index(*request));
    return finish(session, command, vip::kTimeout);
  }
  if (vi->state != vip::kIdle) return finish(session, command, vip::kInvalidState);
  if (vi->reliability != request->body.reliability) {
    return finish(session, command, vip::kInvalidReliabilityLevel);
  }
  if (vi->max_transfer != request->body.max_transfer) {
    return finish(session, command, vip::kInvalidMtu);
  }
  begin_attempt(body.vi);
  if (!link(body.vi, request->source, request->body)) {
    return finish(session, command, vip::kErrorResource);
  }
  request->state = RequestState::kAccepting;
  request->vi = body.vi;
  vi->accepting = 1;
  vi->request = requests_.index(*request);
  vi->remote_request = request->body.request;
  vi->command = command;
  vi->connect_deadline = now_ + kAcceptTime;
  pending(session, command).op = Op::kConnectAccept;
  pending(session, command).vi = body.vi;
  set_state(body.vi, vip::kConnectPending);
  send_connect_accept(body.vi);
  wheel_.arm(vi_timer(body.vi), now_ + repeat_after(0));
}

void Stack::send_connect_accept(ViIndex i) {
  Vi& vi = vis_[i];
  Frame frame;
  if (!reserve_frame(frame)) return;
  wire::ConnectBody body = body_of(vi, i, addresses_.host, mtu_, limits_.checksum);
  body.request = vi.remote_request;
  wire::Header header{};
  header.type = Type::kConnectAccept;
  header.window = standing_credit();
  header.vi = vi.peer_vi;
  header.key = vi.peer_key;
  header.payload_length = static_cast<std::uint16_t>(
      wire::encode(body, frame.data + wire::kEthernetBytes + wire::kHeaderBytes));
  submit_frame(frame,
               wire::encode(header, vi.peer_address, address_, ether_type_, frame.data));
}

// ---------------------------------------------------------------------------- requesting

void Stack::begin_attempt(ViIndex i) {
  Vi& vi = vis_[i];
  reset_transfer(i);
  vi.local_key = environment_.random();
  vi.send_next = vi.send_una = static_cast<std::uint32_t>(environment_.random());
  vi.attempts = 0;
  vi.accepting = 0;
  vi.peer_to_peer = 0;
  vi.peer_linked = 0;
  view(vi).vi(i).status.error.store(0, std::memory_order_relaxed);
}

void Stack::connect_request(std::uint32_t session, std::uint32_t command,
                            const CommandBody& body) {
  Vi* vi = find_vi(session, body.vi, body.generation);
  if (vi == nullptr || body.timeout_ms == 0) {
    return finish(session, command, vip::kInvalidParameter);
  }
  if (vi->state != vip::kIdle) return finish(session, command, vip::kInvalidState);
  MacAddress address;
  std::memcpy(address.data(), body.remote.host, address.size());
  if (!reachable(address)) return finish(session, command, vip::kNotReachable);
  begin_attempt(body.vi);
  attempts_[body.vi].local = body.local;
  attempts_[body.vi].remote = body.remote;
  begin_asking(body.vi);
  vi->request = root_->next_request_number++;
  vi->command = command;
  vi->connect_deadline =
      body.timeout_ms < ~0ull / kMs / 4 ? now_ + body.timeout_ms * kMs : TimerWheel::kNever;
  pending(session, command).op = Op::kConnectRequest;
  pending(session, command).vi = body.vi;
  set_state(body.vi, vip::kConnectPending);
  ask_known_way(body.vi);
  send_connect_requests(body.vi);
  wheel_.arm(vi_timer(body.vi), std::min(now_ + repeat_after(0), vi->connect_deadline));
}

// Whether a host can have this address, and frames could get there.
bool Stack::reachable(const MacAddress& address) const {
  const bool group = (address[0] & 1) != 0;
  return !group && address != MacAddress{} && port_.reaches(address);
}

void Stack::send_connect_request(ViIndex i, state::Asked& to) {
  const Vi& vi = vis_[i];
  if (to.unanswered != 0xff) ++to.unanswered;
  Frame frame;
  if (!reserve_frame(frame)) return;
  wire::ConnectBody body = body_of(vi, i, addresses_.host, mtu_, limits_.checksum);
  const state::Attempt& attempt = attempts_[i];
  body.local_length = static_cast<std::uint8_t>(attempt.local.discriminator_length);
  body.remote_length = static_cast<std::uint8_t>(attempt.remote.discriminator_length);
  std::memcpy(body.local.data(), attempt.local.discriminator, body.local_length);
  std::memcpy(body.remote.data(), attempt.remote.discriminator, body.remote_length);
  wire::Header header{};
  header.type = Type::kConnectRequest;
  header.window = standing_credit();
  header.vi = kToRequest;
  header.key = to.cookie;
  header.payload_length = static_cast<std::uint16_t>(
      wire::encode(body, frame.data + wire::kEthernetBytes + wire::kHeaderBytes));
  to.may_keep = 1;
  submit_frame(frame, wire::encode(header, to.address, address_, ether_type_, frame.data));
}

// The timer of a VI whose connection is pending.
void Stack::attempt_timeout(ViIndex i) {
  Vi& vi = vis_[i];
  if (vi.session == kNone || vi.state != vip::kConnectPending) return;
  if (now_ >= vi.connect_deadline) {
    if (vi.accepting && !requests_[vi.request].proven) suspect();
    return fail_attempt(i, vi.accepting || vi.peer_to_peer ? vip::kTimeout : unanswered(i));
  }
  ++vi.attempts;
  if (vi.attempts > 100) vi.attempts = 100;
  if (vi.accepting || vi.peer_linked) {
    send_connect_accept(i);
  } else {
    if (vi.peer_to_peer) put_up_peer_notice(i);
    send_connect_requests(i);
  }
  wheel_.arm(vi_timer(i), std::min(now_ + repeat_after(vi.attempts), vi.connect_deadline));
}

// Back to Idle; what was posted stays posted.
void Stack::fail_attempt(ViIndex i, vip::Return result) {
  Vi& vi = vis_[i];
  wheel_.disarm(vi_timer(i));
  if (vi.peer_to_peer) return end_peer_attempt(i, result);
  if (vi.accepting) {
    release_request(vi.request);
    bury_request(vi.request);
    unlink(i);
    vi.accepting = 0;
  } else {
    take_back(i);
  }
  const std::uint32_t command = vi.command;
  vi.command = kNone;
  set_state(i, vip::kIdle);
  if (command != kNone) finish(vi.session, command, result);
}

void Stack::on_connect_accept(const wire::Decoded& frame) {
  StackCounters& count = root_->counters;
  wire::ConnectBody body;
  if (!wire::decode(frame.payload, body)) {
    ++count.drop_bad_body;
    return;
  }
  body.credit = frame.header.window;
  const std::uint32_t i = frame.header.vi;
  if (i < vis_.fresh()) {
    Vi& vi = vis_[i];
    const bool ours = vi.session != kNone && vi.local_key == frame.header.key &&
                      vi.request == body.request && !vi.accepting;
    // Once the peer is known, nobody else will do.
    const bool peers = vi.peer_address == frame.source && vi.peer_key == body.key;
    if (ours && vi.state == vip::kConnected && peers) {
      return send_short(Type::kConnectConfirm, vi.peer_address, vi.peer_vi, vi.peer_key,
                        vi.send_next, vi.receive_next, 0);
    }
    const bool met = vi.peer_linked != 0;
    if (ours && vi.state == vip::kConnectPending && (!met || peers)) {
      if (vi.peer_to_peer && !met) {
        unlist_peer_attempt(i);
        attempts_[i].peer = viaduct::attributes_of(body);
      }
      if (!met && !link(i, frame.source, body)) {
        if (vi.peer_to_peer) list_peer_attempt(i);
        return fail_attempt(i, vip::kErrorResource);
      }
      if (vi.peer_to_peer) vi.peer_linked = 1;
      if (!met) {
        forget_asked(i, frame.source);
        take_back(i);
        if (!vi.peer_to_peer) remember_way(i, frame.source);
      }
      // Between peers, establish() finishes a command that waits.
      const std::uint32_t command = vi.peer_to_peer ? kNone : vi.command;
      establish(i);
      send_short(Type::kConnectConfirm, vi.peer_address, vi.peer_vi, vi.peer_key, vi.send_next,
                 vi.receive_next, 0);
      CommandBody out{};
      out.op = Op::kConnectRequest;
      out.vi_attributes = viaduct::attributes_of(body);
      if (command != kNone) finish(vi.session, command, vip::kSuccess, out);
      return;
    }
    // Whom we have met may turn out to be gone; then it is this one, who will say so again. A reset
    // would end what is about to stand.
    if (ours && vi.state == vip::kConnectPending) {
      ++count.drop_stale_answer;
      return;
    }
  }
  ++count.drop_stale_answer;
  send_reset(frame);
}

void Stack::on_connect_confirm(const wire::Decoded& frame) {
  if (Vi* vi = vi_for(frame, true)) {
    if (vi->state == vip::kConnectPending) establish(frame.header.vi);
  }
}

// CONNECT_REJECT, CONNECT_HELD and CONNECT_MOVED, the answers of those that were asked; and
// CONNECT_REJECT for kToRequest, with which a requester takes its request back.
void Stack::on_connect_answer(const wire::Decoded& frame) {
  const wire::Header& header = frame.header;
  if (header.type == Type::kConnectReject && header.vi == kToRequest) {
    wire::ConnectBody wanted{};
    wanted.key = header.key;
    wanted.request = header.psn;
    const std::uint32_t r = find_request(frame.source, wanted);
    if (r == kNone) return;
    switch (requests_[r].state) {
      case RequestState::kAccepting: fail_attempt(requests_[r].vi, vip::kTimeout); break;
      case RequestState::kHeld:
      case RequestState::kMatched: bury_request(r); break;
      default: break;
    }
    return;
  }
  if (header.vi < vis_.fresh()) {
    Vi& vi = vis_[header.vi];
    if (vi.session != kNone && vi.state == vip::kConnectPending && !vi.accepting &&
        vi.local_key == header.key && vi.request == header.psn) {
      if (header.type == Type::kConnectMoved) return on_moved(header.vi, frame);
      if (header.type == Type::kConnectReject) {
        forget_asked(header.vi, frame.source);
        // Between peers the reason is a conflict of attributes.
        const bool conflict = vi.peer_to_peer && (header.immediate == vip::kInvalidMtu ||
                                                  header.immediate ==
                                                      vip::kInvalidReliabilityLevel);
        return fail_attempt(header.vi, conflict ? static_cast<vip::Return>(header.immediate)
                                                : vip::kReject);
      }
      if (state::Asked* asked = ask_too(header.vi, frame.source)) {
        asked->answer = header.immediate == 0 ? state::Answer::kHeld : state::Answer::kTaken;
        asked->unanswered = 0;
        asked->may_keep = 1;
      }
      return;
    }
  }
  ++root_->counters.drop_stale_answer;
}

}  // namespace viaduct
