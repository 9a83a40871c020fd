// Peer to peer connections: both sides ask, nobody waits.
//
// Each side repeats its CONNECT_REQUEST (with kPeerToPeer). A side that sees the other's matching
// request knows who the peer is and answers with CONNECT_ACCEPT; whoever gets an ACCEPT is connected
// and says so with CONNECT_CONFIRM. A request that comes before its counterpart was made is held.
#include <cstring>

#include "kagent/stack/repeat.h"
#include "kagent/stack/stack.h"

namespace viaduct {

using layout::CommandBody;
using layout::Op;
using state::kNone;
using state::RequestState;
using state::Vi;

namespace {

bool same(const layout::Address& address, const std::byte* discriminator, std::size_t length) {
  return address.discriminator_length == length &&
         std::memcmp(address.discriminator, discriminator, length) == 0;
}

}  // namespace

vip::Return Stack::peer_request(std::uint32_t session, const CommandBody& body) {
  Vi* vi = find_vi(session, body.vi, body.generation);
  if (vi == nullptr || body.timeout_ms == 0) return vip::kInvalidParameter;
  if (vi->state != vip::kIdle) return vip::kInvalidState;
  begin_attempt(body.vi);
  attempts_[body.vi].local = body.local;
  attempts_[body.vi].remote = body.remote;
  attempts_[body.vi].peer = {};
  begin_asking(body.vi);
  vi->request = root_->next_request_number++;
  vi->command = kNone;
  vi->peer_to_peer = 1;
  vi->peer_result = vip::kNotDone;
  vi->connect_deadline =
      body.timeout_ms < ~0ull / kMs / 4 ? now_ + body.timeout_ms * kMs : TimerWheel::kNever;
  set_state(body.vi, vip::kConnectPending);
  list_peer_attempt(body.vi);
  MacAddress host;
  std::memcpy(host.data(), body.remote.host, host.size());
  if (!reachable(host)) {
    end_peer_attempt(body.vi, vip::kNotReachable);
    return vip::kSuccess;
  }
  wheel_.arm(vi_timer(body.vi), std::min(now_ + repeat_after(0), vi->connect_deadline));
  send_connect_requests(body.vi);
  meet_held_peer(body.vi);
  return vip::kSuccess;
}

// The other half may have come before this one.
void Stack::meet_held_peer(ViIndex i) {
  for (std::uint32_t r = root_->live_requests.oldest; r != kNone; r = requests_[r].newer) {
    const state::Request& request = requests_[r];
    if (request.state != RequestState::kHeld || !awaits(i, request.body)) continue;
    if (must_prove() && !request.proven) continue;
    const wire::ConnectBody theirs = request.body;
    const MacAddress source = request.source;
    drop_request(r);
    return meet_peer(i, source, theirs);
  }
}

// What was met was the half of an attempt that is over, as its maker says: the half of the next one
// may come, or wait here already. If each side took the other's past for the end of its own attempt,
// two that try again and again could miss each other for ever.
void Stack::leave_peer(ViIndex i) {
  Vi& vi = vis_[i];
  unlink(i);
  vi.peer_linked = 0;
  vi.attempts = 0;
  attempts_[i].peer = {};
  list_peer_attempt(i);
  begin_asking(i);
  wheel_.arm(vi_timer(i), std::min(now_ + repeat_after(0), vi.connect_deadline));
  meet_held_peer(i);
}

// Whether this VI's attempt and that request are the two halves of one connection.
bool Stack::awaits(ViIndex i, const wire::ConnectBody& body) const {
  const Vi& vi = vis_[i];
  const state::Attempt& attempt = attempts_[i];
  return (body.rdma_flags & wire::kPeerToPeer) &&
         std::memcmp(attempt.remote.host, body.host.data(), body.host.size()) == 0 &&
         body.key != vi.local_key && same(attempt.remote, body.local.data(), body.local_length) &&
         same(attempt.local, body.remote.data(), body.remote_length);
}

bool Stack::on_peer_request(const wire::Decoded& frame, const wire::ConnectBody& body) {
  for (ViIndex i = root_->peer_attempts; i != kNone; i = vis_[i].peer_next) {
    if (!awaits(i, body)) continue;
    meet_peer(i, frame.source, body);
    return true;
  }
  return false;
}

void Stack::meet_peer(ViIndex i, const MacAddress& source, const wire::ConnectBody& body) {
  Vi& vi = vis_[i];
  vip::Return conflict = vip::kSuccess;
  if (vi.reliability != body.reliability) {
    conflict = vip::kInvalidReliabilityLevel;
  } else if (vi.max_transfer != body.max_transfer) {
    conflict = vip::kInvalidMtu;
  }
  if (conflict != vip::kSuccess) {
    send_short(wire::Type::kConnectReject, source, body.vi, body.key, body.request, 0, conflict);
    forget_asked(i, source);
    return end_peer_attempt(i, conflict);
  }
  unlist_peer_attempt(i);
  if (!link(i, source, body)) {
    list_peer_attempt(i);
    return end_peer_attempt(i, vip::kErrorResource);
  }
  vi.peer_linked = 1;
  forget_asked(i, source);
  take_back(i);
  vi.remote_request = body.request;
  attempts_[i].peer = {body.reliability, body.max_transfer, 0,
                       (body.rdma_flags & wire::kRdmaWriteEnabled) != 0 ? 1u : 0u,
                       (body.rdma_flags & wire::kRdmaReadEnabled) != 0 ? 1u : 0u};
  send_connect_accept(i);
}

// The attempt is over; its result stays until the program fetches it.
void Stack::end_peer_attempt(ViIndex i, vip::Return result) {
  Vi& vi = vis_[i];
  if (result != vip::kSuccess) {
    wheel_.disarm(vi_timer(i));
    if (vi.peer_linked) {
      unlink(i);
    } else {
      unlist_peer_attempt(i);
      take_back(i);
    }
    vi.peer_linked = 0;
    set_state(i, vip::kIdle);
  }
  vi.peer_result = result;
  const std::uint32_t command = vi.command;
  vi.command = kNone;
  if (command == kNone) return;
  vi.peer_to_peer = 0;
  CommandBody out{};
  out.op = Op::kPeerWait;
  out.vi_attributes = attempts_[i].peer;
  finish(vi.session, command, result, out);
}

vip::Return Stack::peer_done(std::uint32_t session, CommandBody& body) {
  Vi* vi = find_vi(session, body.vi, body.generation);
  if (vi == nullptr) return vip::kInvalidParameter;
  if (!vi->peer_to_peer) return vip::kInvalidState;
  const auto result = static_cast<vip::Return>(vi->peer_result);
  if (result == vip::kNotDone) return result;
  vi->peer_to_peer = 0;
  body.vi_attributes = attempts_[body.vi].peer;
  return result;
}

void Stack::peer_wait(std::uint32_t session, std::uint32_t command, CommandBody& body) {
  const vip::Return result = peer_done(session, body);
  if (result != vip::kNotDone) return finish(session, command, result, body);
  Vi& vi = vis_[body.vi];
  if (vi.command != kNone) return finish(session, command, vip::kInvalidState);
  vi.command = command;
  pending(session, command).op = Op::kPeerWait;
  pending(session, command).vi = body.vi;
}

void Stack::list_peer_attempt(ViIndex i) {
  Vi& vi = vis_[i];
  vi.peer_previous = kNone;
  vi.peer_next = root_->peer_attempts;
  if (vi.peer_next != kNone) vis_[vi.peer_next].peer_previous = i;
  root_->peer_attempts = i;
  vi.notice = layout::kNoNotice;
  put_up_peer_notice(i);
}

// So that the other side's request finds its way to us. Tried again when there was no room.
void Stack::put_up_peer_notice(ViIndex i) {
  if (vis_[i].notice != layout::kNoNotice) return;
  layout::Address awaited = attempts_[i].local;
  std::memcpy(awaited.host, attempts_[i].remote.host, sizeof awaited.host);
  vis_[i].notice = environment_.put_up(awaited, true);
}

void Stack::unlist_peer_attempt(ViIndex i) {
  Vi& vi = vis_[i];
  if (vi.notice != layout::kNoNotice) environment_.take_down(vi.notice);
  vi.notice = layout::kNoNotice;
  if (vi.peer_next != kNone) vis_[vi.peer_next].peer_previous = vi.peer_previous;
  if (vi.peer_previous != kNone) {
    vis_[vi.peer_previous].peer_next = vi.peer_next;
  } else {
    root_->peer_attempts = vi.peer_next;
  }
}

}  // namespace viaduct
