// Peer to peer connections: both sides ask, neither waits. connections.h says how.
#include <cstring>

#include "kagent/stack/backoff.h"
#include "kagent/stack/connections.h"

namespace viaduct {

using layout::CommandBody;
using layout::Op;
using state::RequestState;
using state::Vi;
using state::kNone;

namespace {

bool same(const layout::Address& address, const std::byte* discriminator, std::size_t length) {
  return address.discriminator_length == length &&
         std::memcmp(address.discriminator, discriminator, length) == 0;
}

}  // namespace

template <class Platform>
vip::Return Connections<Platform>::peer_request(std::uint32_t session, const CommandBody& body) {
  Vi* vi = find_vi(session, body.vi, body.generation);
  if (vi == nullptr || body.timeout_ms == 0) return vip::kInvalidParameter;
  if (vi->state != vip::kIdle) return vip::kInvalidState;
  if (root_->draining != 0) return vip::kErrorResource;
  begin_attempt(body.vi);
  attempts_[body.vi].local = body.local;
  attempts_[body.vi].remote = body.remote;
  attempts_[body.vi].peer = {};
  request_targets_.begin_asking(body.vi);
  vi->link.request = root_->next_request_number++;
  vi->link.command = kNone;
  vi->link.peer_to_peer = 1;
  vi->link.peer_result = vip::kNotDone;
  vi->link.connect_deadline =
      body.timeout_ms < ~0ull / kMs / 4 ? now_ + body.timeout_ms * kMs : TimerWheel::kNever;
  virtual_interfaces_.set_state(body.vi, vip::kConnectPending);
  list_peer_attempt(body.vi);
  MacAddress host;
  std::memcpy(host.data(), body.remote.host, host.size());
  if (!peer_table_.reachable(host)) {
    end_peer_attempt(body.vi, vip::kNotReachable);
    return vip::kSuccess;
  }
  wheel_.arm(vi_timer(body.vi), std::min(now_ + backoff(0), vi->link.connect_deadline));
  request_targets_.send_connect_requests(body.vi);
  meet_held_peer(body.vi);
  return vip::kSuccess;
}

// Looks for a held request of the peer that came before this VI's own.
template <class Platform>
void Connections<Platform>::meet_held_peer(ViIndex i) {
  for (std::uint32_t r = root_->live_requests.oldest; r != kNone; r = requests_[r].newer) {
    const state::Request& request = requests_[r];
    if (request.state != RequestState::kHeld || !awaits(i, request.body)) continue;
    if (request_proof_.must_prove() && !request.proven) continue;
    const wire::ConnectBody theirs = request.body;
    const MacAddress source = request.source;
    connect_requests_.drop_request(r);
    return meet_peer(i, source, theirs);
  }
}

// Leaves the peer that was met, as it says that its attempt is over. The request of its next attempt may come, or be
// held here already. If instead this attempt ended too, two sides that try again and again could miss each other for
// ever.
template <class Platform>
void Connections<Platform>::leave_peer(ViIndex i) {
  Vi& vi = vis_[i];
  peer_table_.unlink(i);
  vi.link.peer_linked = 0;
  vi.link.attempts = 0;
  attempts_[i].peer = {};
  list_peer_attempt(i);
  request_targets_.begin_asking(i);
  wheel_.arm(vi_timer(i), std::min(now_ + backoff(0), vi.link.connect_deadline));
  meet_held_peer(i);
}

// Whether this VI's attempt and that request are the two halves of one connection.
template <class Platform>
bool Connections<Platform>::awaits(ViIndex i, const wire::ConnectBody& body) const {
  const Vi& vi = vis_[i];
  const state::Attempt& attempt = attempts_[i];
  return (body.rdma_flags & wire::kPeerToPeer) &&
         std::memcmp(attempt.remote.host, body.host.data(), body.host.size()) == 0 &&
         body.key != vi.link.local_key &&
         same(attempt.remote, body.local.data(), body.local_length) &&
         same(attempt.local, body.remote.data(), body.remote_length);
}

template <class Platform>
bool Connections<Platform>::on_peer_request(const wire::Decoded& frame,
                                            const wire::ConnectBody& body) {
  for (ViIndex i = root_->peer_attempts; i != kNone; i = vis_[i].link.peer_next) {
    if (!awaits(i, body)) continue;
    meet_peer(i, frame.source, body);
    return true;
  }
  return false;
}

template <class Platform>
void Connections<Platform>::meet_peer(ViIndex i, const MacAddress& source,
                                      const wire::ConnectBody& body) {
  Vi& vi = vis_[i];
  vip::Return conflict = vip::kSuccess;
  if (vi.reliability != body.reliability) {
    conflict = vip::kInvalidReliabilityLevel;
  } else if (vi.max_transfer != body.max_transfer) {
    conflict = vip::kInvalidMtu;
  }
  if (conflict != vip::kSuccess) {
    frames_out_.send_short(wire::Type::kConnectReject, source, body.vi, body.key, body.request, 0,
                           conflict);
    request_targets_.forget_asked(i, source);
    return end_peer_attempt(i, conflict);
  }
  unlist_peer_attempt(i);
  if (!peer_table_.link(i, source, body)) {
    list_peer_attempt(i);
    return end_peer_attempt(i, vip::kErrorResource);
  }
  vi.link.peer_linked = 1;
  request_targets_.forget_asked(i, source);
  request_targets_.take_back(i);
  vi.link.remote_request = body.request;
  attempts_[i].peer = {body.reliability, body.max_transfer, 0,
                       (body.rdma_flags & wire::kRdmaWriteEnabled) != 0 ? 1u : 0u,
                       (body.rdma_flags & wire::kRdmaReadEnabled) != 0 ? 1u : 0u};
  send_connect_accept(i);
}

// The attempt is over; its result stays until the program fetches it.
template <class Platform>
void Connections<Platform>::end_peer_attempt(ViIndex i, vip::Return result) {
  Vi& vi = vis_[i];
  if (result != vip::kSuccess) {
    wheel_.disarm(vi_timer(i));
    if (vi.link.peer_linked) {
      peer_table_.unlink(i);
    } else {
      unlist_peer_attempt(i);
      request_targets_.take_back(i);
    }
    vi.link.peer_linked = 0;
    virtual_interfaces_.set_state(i, vip::kIdle);
  }
  vi.link.peer_result = result;
  const std::uint32_t command = vi.link.command;
  vi.link.command = kNone;
  if (command == kNone) return;
  vi.link.peer_to_peer = 0;
  CommandBody out{};
  out.op = Op::kPeerWait;
  out.vi_attributes = attempts_[i].peer;
  command_slots_.finish(vi.session, command, result, out);
}

template <class Platform>
vip::Return Connections<Platform>::peer_done(std::uint32_t session, CommandBody& body) {
  Vi* vi = find_vi(session, body.vi, body.generation);
  if (vi == nullptr) return vip::kInvalidParameter;
  if (!vi->link.peer_to_peer) return vip::kInvalidState;
  const auto result = static_cast<vip::Return>(vi->link.peer_result);
  if (result == vip::kNotDone) return result;
  vi->link.peer_to_peer = 0;
  body.vi_attributes = attempts_[body.vi].peer;
  return result;
}

template <class Platform>
void Connections<Platform>::peer_wait(std::uint32_t session, std::uint32_t command,
                                      CommandBody& body) {
  const vip::Return result = peer_done(session, body);
  if (result != vip::kNotDone) return command_slots_.finish(session, command, result, body);
  Vi& vi = vis_[body.vi];
  if (vi.link.command != kNone) return command_slots_.finish(session, command, vip::kInvalidState);
  vi.link.command = command;
  command_slots_.pending(session, command).op = Op::kPeerWait;
  command_slots_.pending(session, command).vi = body.vi;
}

template <class Platform>
void Connections<Platform>::list_peer_attempt(ViIndex i) {
  Vi& vi = vis_[i];
  vi.link.peer_previous = kNone;
  vi.link.peer_next = root_->peer_attempts;
  if (vi.link.peer_next != kNone) vis_[vi.link.peer_next].link.peer_previous = i;
  root_->peer_attempts = i;
  vi.link.listener = layout::kNoListener;
  publish_peer_listener(i);
}

// Publishes a listener so that the agent sends the other side's request to us. Tried again when there was no room.
template <class Platform>
void Connections<Platform>::publish_peer_listener(ViIndex i) {
  if (vis_[i].link.listener != layout::kNoListener) return;
  layout::Address awaited = attempts_[i].local;
  std::memcpy(awaited.host, attempts_[i].remote.host, sizeof awaited.host);
  vis_[i].link.listener = environment_.publish(awaited, true);
}

template <class Platform>
void Connections<Platform>::unlist_peer_attempt(ViIndex i) {
  Vi& vi = vis_[i];
  if (vi.link.listener != layout::kNoListener) environment_.withdraw(vi.link.listener);
  vi.link.listener = layout::kNoListener;
  if (vi.link.peer_next != kNone) {
    vis_[vi.link.peer_next].link.peer_previous = vi.link.peer_previous;
  }
  if (vi.link.peer_previous != kNone) {
    vis_[vi.link.peer_previous].link.peer_next = vi.link.peer_next;
  } else {
    root_->peer_attempts = vi.link.peer_next;
  }
}

}  // namespace viaduct
