#include "kagent/stack/connections.h"

#include <algorithm>
#include <cstring>

#include "kagent/stack/backoff.h"
#include "kagent/stack/connect_body.h"

namespace viaduct {

using layout::CommandBody;
using layout::Op;
using state::Request;
using state::RequestState;
using state::Vi;
using state::kNone;
using wire::Type;

namespace {

constexpr std::uint64_t kAcceptTime = 1000 * kMs;    // ACCEPT is repeated that long
// ... and so many times at least: a stack that was not driven meanwhile has lost the time, and perhaps the CONFIRM.
constexpr unsigned kFewestAccepts = 8;
constexpr std::uint64_t kPollTime = 5 * kMs;  // a wait without a timeout, if others hold requests
constexpr std::uint32_t kFlushedAtOnce = 64;  // when the peer has ended the connection

bool same(const layout::Address& wanted, const wire::ConnectBody& body) {
  return wanted.discriminator_length == body.remote_length &&
         std::memcmp(wanted.discriminator, body.remote.data(), body.remote_length) == 0;
}

layout::ViAttributes attributes_of(const wire::ConnectBody& body) {
  return {body.reliability, body.max_transfer, 0,
          (body.rdma_flags & wire::kRdmaWriteEnabled) != 0 ? 1u : 0u,
          (body.rdma_flags & wire::kRdmaReadEnabled) != 0 ? 1u : 0u};
}

}  // namespace

// Handles a repeated request that waits here already.
template <class Platform>
void Connections<Platform>::on_known_request(std::uint32_t r, const MacAddress& source,
                                             const wire::ConnectBody& body, bool proven, bool trusted) {
  Request& request = requests_[r];
  if (proven) request_proof_.note_proven(request);
  switch (request.state) {
    case RequestState::kHeld:
      if (forwarding_.move_request(source, body)) return connect_requests_.drop_request(r);
      if (request.proven || trusted) {
        forwarding_.send_request_answer(request, Type::kConnectHeld, 0);
      } else {
        request_proof_.ask_for_proof(source, body);
      }
      break;
    case RequestState::kMatched:
      forwarding_.send_request_answer(request, Type::kConnectHeld, 1);
      break;
    case RequestState::kAccepting: send_connect_accept(request.vi); break;
    default: ++root_->counters.drop_duplicate; return;
  }
  connect_requests_.touch_request(r);
}

// Handles a repeated request that a VI has answered by connecting: the requester has not received the answer.
template <class Platform>
void Connections<Platform>::on_answered_request(ViIndex known, const wire::ConnectBody& body) {
  ++root_->counters.drop_duplicate;
  if ((body.rdma_flags & wire::kPeerToPeer) && vis_[known].link.peer_linked) {
    vis_[known].link.remote_request = body.request;
    send_connect_accept(known);
  }
}

template <class Platform>
void Connections<Platform>::on_connect_request(const wire::Decoded& frame) {
  wire::ConnectBody body;
  if (!wire::decode(frame.payload, body) || body.remote_length > layout::kMaxDiscriminator ||
      body.local_length > layout::kMaxDiscriminator) {
    ++root_->counters.drop_bad_body;
    return;
  }
  const bool proven = request_proof_.is_proven(frame, body);
  const bool trusted = proven || !request_proof_.must_prove();
  body.credit = frame.header.window;
  if (const std::uint32_t r = connect_requests_.find_request(frame.source, body); r != kNone) {
    return on_known_request(r, frame.source, body, proven, trusted);
  }
  const ViIndex known = peer_table_.find_by_peer_key(frame.source, body.vi, body.key);
  if (known != kNone) return on_answered_request(known, body);
  const bool peer_to_peer = (body.rdma_flags & wire::kPeerToPeer) != 0;
  if (trusted && peer_to_peer && on_peer_request(frame, body)) return;
  if (root_->draining != 0) {
    return frames_out_.send_short(Type::kConnectReject, frame.source, body.vi, body.key, body.request, 0, 0);
  }

  std::uint32_t listener = peer_to_peer ? kNone : root_->listeners;
  while (listener != kNone && !same(pendings_[listener].local, body)) {
    listener = pendings_[listener].listener_next;
  }
  if (listener == kNone && forwarding_.move_request(frame.source, body)) return;
  if (!trusted) return request_proof_.ask_for_proof(frame.source, body);
  const std::uint32_t r = connect_requests_.new_request();
  if (r == kNone) {
    ++root_->counters.drop_request_table_full;
    return;
  }
  connect_requests_.hold_request(r, frame.source, body, proven);
  if (listener != kNone) {
    const std::uint32_t session = listener / layout::kCommands;
    const std::uint32_t command = listener % layout::kCommands;
    unlisten(session, command);
    return deliver_request(r, session, command);
  }
  // A listener that was published since we looked may not have been announced to us, as no request was held until
  // now. So we look again.
  if (root_->held_requests == 1 && forwarding_.move_request(frame.source, body)) {
    return connect_requests_.drop_request(r);
  }
  forwarding_.send_request_answer(requests_[r], Type::kConnectHeld, 0);
}

template <class Platform>
void Connections<Platform>::connect_wait(std::uint32_t session, std::uint32_t command,
                                         const CommandBody& body) {
  state::Pending& waiting = command_slots_.pending(session, command);
  for (std::uint32_t r = root_->live_requests.oldest; r != kNone; r = requests_[r].newer) {
    const Request& request = requests_[r];
    budget_.charge(1);
    if (request.state != RequestState::kHeld || !same(body.local, request.body) ||
        (request.body.rdma_flags & wire::kPeerToPeer) ||
        (request_proof_.must_prove() && !request.proven)) {
      continue;
    }
    waiting.op = Op::kConnectWait;
    return deliver_request(r, session, command);
  }
  waiting.listener = environment_.publish(body.local, false);
  std::uint64_t timeout_ms = body.timeout_ms;
  if (timeout_ms == 0) {
    // The agent may hold requests, and needs a moment to see that this stack waits for them.
    if (waiting.listener == layout::kNoListener) {
      return command_slots_.finish(session, command, vip::kTimeout);
    }
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

template <class Platform>
void Connections<Platform>::unlisten(std::uint32_t session, std::uint32_t command) {
  const std::uint32_t self = session * layout::kCommands + command;
  const std::uint32_t listener = pendings_[self].listener;
  if (listener != layout::kNoListener) environment_.withdraw(listener);
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

template <class Platform>
void Connections<Platform>::deliver_request(std::uint32_t r, std::uint32_t session,
                                            std::uint32_t command) {
  Request& request = requests_[r];
  connect_requests_.count_held(-1);
  request.state = RequestState::kMatched;
  request.session = session;
  request.program = command_slots_.pending(session, command).program;
  CommandBody out{};
  out.op = Op::kConnectWait;
  std::memcpy(out.remote.host, request.body.host.data(), request.body.host.size());
  out.remote.discriminator_length = request.body.local_length;
  std::memcpy(out.remote.discriminator, request.body.local.data(), request.body.local_length);
  out.vi_attributes = viaduct::attributes_of(request.body);
  out.handle = request.handle(r);
  command_slots_.finish(session, command, vip::kSuccess, out);
}

template <class Platform>
vip::Return Connections<Platform>::connect_reject(std::uint32_t session, const CommandBody& body) {
  Request* request = connect_requests_.request_of_handle(session, body.handle);
  if (request == nullptr || request->state == RequestState::kAccepting) {
    return vip::kInvalidParameter;
  }
  if (request->state == RequestState::kDone) {
    connect_requests_.release_request(requests_.index(*request));
    return vip::kTimeout;
  }
  forwarding_.send_request_answer(*request, Type::kConnectReject, 0);
  connect_requests_.release_request(requests_.index(*request));
  connect_requests_.bury_request(requests_.index(*request));
  return vip::kSuccess;
}

template <class Platform>
void Connections<Platform>::connect_accept(std::uint32_t session, std::uint32_t command,
                                           const CommandBody& body) {
  Request* request = connect_requests_.request_of_handle(session, body.handle);
  Vi* vi = find_vi(session, body.vi, body.generation);
  if (request == nullptr || vi == nullptr || request->state == RequestState::kAccepting) {
    return command_slots_.finish(session, command, vip::kInvalidParameter);
  }
  if (request->state == RequestState::kDone) {
    connect_requests_.release_request(requests_.index(*request));
    return command_slots_.finish(session, command, vip::kTimeout);
  }
  if (vi->state != vip::kIdle) return command_slots_.finish(session, command, vip::kInvalidState);
  if (vi->reliability != request->body.reliability) {
    return command_slots_.finish(session, command, vip::kInvalidReliabilityLevel);
  }
  if (vi->max_transfer != request->body.max_transfer) {
    return command_slots_.finish(session, command, vip::kInvalidMtu);
  }
  begin_attempt(body.vi);
  if (!peer_table_.link(body.vi, request->source, request->body)) {
    return command_slots_.finish(session, command, vip::kErrorResource);
  }
  request->state = RequestState::kAccepting;
  request->vi = body.vi;
  vi->link.accepting = 1;
  vi->link.request = requests_.index(*request);
  vi->link.remote_request = request->body.request;
  vi->link.command = command;
  vi->link.connect_deadline = now_ + kAcceptTime;
  command_slots_.pending(session, command).op = Op::kConnectAccept;
  command_slots_.pending(session, command).vi = body.vi;
  virtual_interfaces_.set_state(body.vi, vip::kConnectPending);
  send_connect_accept(body.vi);
  wheel_.arm(vi_timer(body.vi), now_ + backoff(0));
}

template <class Platform>
void Connections<Platform>::send_connect_accept(ViIndex i) {
  Vi& vi = vis_[i];
  Frame frame;
  if (!frames_out_.reserve_frame(frame)) return;
  wire::ConnectBody body = body_of(vi, i, addresses_.host, mtu_, limits_.checksum, limits_.train_checksum);
  body.request = vi.link.remote_request;
  wire::Header header{};
  header.type = Type::kConnectAccept;
  header.window = credit_grants_.standing_credit();
  header.vi = vi.link.peer_vi;
  header.key = vi.link.peer_key;
  header.payload_length = static_cast<std::uint16_t>(
      wire::encode(body, frame.data + wire::kEthernetBytes + wire::kHeaderBytes));
  frames_out_.submit_frame(
      frame, wire::encode(header, vi.link.peer_address, address_, ether_type_, frame.data));
}

template <class Platform>
void Connections<Platform>::begin_attempt(ViIndex i) {
  Vi& vi = vis_[i];
  virtual_interfaces_.reset_transfer(i);
  vi.link.local_key = environment_.random();
  vi.tx.send_next = vi.tx.send_una = static_cast<std::uint32_t>(environment_.random());
  vi.link.attempts = 0;
  vi.link.accepting = 0;
  vi.link.peer_to_peer = 0;
  vi.link.peer_linked = 0;
  view(vi).vi(i).status.error.store(0, std::memory_order_relaxed);
}

template <class Platform>
void Connections<Platform>::connect_request(std::uint32_t session, std::uint32_t command,
                                            const CommandBody& body) {
  Vi* vi = find_vi(session, body.vi, body.generation);
  if (vi == nullptr || body.timeout_ms == 0) {
    return command_slots_.finish(session, command, vip::kInvalidParameter);
  }
  if (vi->state != vip::kIdle) return command_slots_.finish(session, command, vip::kInvalidState);
  MacAddress address;
  std::memcpy(address.data(), body.remote.host, address.size());
  if (!peer_table_.reachable(address)) {
    return command_slots_.finish(session, command, vip::kNotReachable);
  }
  if (root_->draining != 0) return command_slots_.finish(session, command, vip::kErrorResource);
  begin_attempt(body.vi);
  attempts_[body.vi].local = body.local;
  attempts_[body.vi].remote = body.remote;
  request_targets_.begin_asking(body.vi);
  vi->link.request = root_->next_request_number++;
  vi->link.command = command;
  vi->link.connect_deadline =
      body.timeout_ms < ~0ull / kMs / 4 ? now_ + body.timeout_ms * kMs : TimerWheel::kNever;
  command_slots_.pending(session, command).op = Op::kConnectRequest;
  command_slots_.pending(session, command).vi = body.vi;
  virtual_interfaces_.set_state(body.vi, vip::kConnectPending);
  request_targets_.ask_known_way(body.vi);
  request_targets_.send_connect_requests(body.vi);
  wheel_.arm(vi_timer(body.vi), std::min(now_ + backoff(0), vi->link.connect_deadline));
}

// The timer of a VI whose connection is pending.
template <class Platform>
void Connections<Platform>::attempt_timeout(ViIndex i) {
  Vi& vi = vis_[i];
  if (vi.session == kNone || vi.state != vip::kConnectPending) return;
  const bool waits_on = vi.link.accepting && vi.link.attempts < kFewestAccepts;
  if (now_ >= vi.link.connect_deadline && !waits_on) {
    if (vi.link.accepting && !requests_[vi.link.request].proven) request_proof_.suspect();
    return fail_attempt(i, vi.link.accepting || vi.link.peer_to_peer
                               ? vip::kTimeout
                               : request_targets_.unanswered(i));
  }
  ++vi.link.attempts;
  if (vi.link.attempts > 100) vi.link.attempts = 100;
  if (vi.link.accepting || vi.link.peer_linked) {
    send_connect_accept(i);
  } else {
    if (vi.link.peer_to_peer) publish_peer_listener(i);
    request_targets_.send_connect_requests(i);
  }
  const std::uint64_t next = now_ + backoff(vi.link.attempts);
  wheel_.arm(vi_timer(i), waits_on ? next : std::min(next, vi.link.connect_deadline));
}

// Takes the VI back to Idle; its descriptors stay posted.
template <class Platform>
void Connections<Platform>::fail_attempt(ViIndex i, vip::Return result) {
  Vi& vi = vis_[i];
  wheel_.disarm(vi_timer(i));
  if (vi.link.peer_to_peer) return end_peer_attempt(i, result);
  if (vi.link.accepting) {
    connect_requests_.release_request(vi.link.request);
    connect_requests_.bury_request(vi.link.request);
    peer_table_.unlink(i);
    vi.link.accepting = 0;
  } else {
    request_targets_.take_back(i);
  }
  const std::uint32_t command = vi.link.command;
  vi.link.command = kNone;
  virtual_interfaces_.set_state(i, vip::kIdle);
  if (command != kNone) command_slots_.finish(vi.session, command, result);
}

template <class Platform>
void Connections<Platform>::on_connect_accept(const wire::Decoded& frame) {
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
    const bool ours = vi.session != kNone && vi.link.local_key == frame.header.key &&
                      vi.link.request == body.request && !vi.link.accepting;
    // Once the peer is known, an ACCEPT of another stack does not count.
    const bool peers = vi.link.peer_address == frame.source && vi.link.peer_key == body.key;
    if (ours && vi.state == vip::kConnected && peers) {
      return frames_out_.send_short(Type::kConnectConfirm, vi.link.peer_address, vi.link.peer_vi,
                                    vi.link.peer_key, vi.tx.send_next, vi.rx.receive_next, 0);
    }
    const bool met = vi.link.peer_linked != 0;
    if (ours && vi.state == vip::kConnectPending && (!met || peers)) {
      if (vi.link.peer_to_peer && !met) {
        unlist_peer_attempt(i);
        attempts_[i].peer = viaduct::attributes_of(body);
      }
      if (!met && !peer_table_.link(i, frame.source, body)) {
        if (vi.link.peer_to_peer) list_peer_attempt(i);
        return fail_attempt(i, vip::kErrorResource);
      }
      if (vi.link.peer_to_peer) vi.link.peer_linked = 1;
      if (!met) {
        request_targets_.forget_asked(i, frame.source);
        request_targets_.take_back(i);
        if (!vi.link.peer_to_peer) request_targets_.remember_way(i, frame.source);
      }
      // In a peer-to-peer connect, establish() itself finishes the waiting command.
      const std::uint32_t command = vi.link.peer_to_peer ? kNone : vi.link.command;
      establish(i);
      frames_out_.send_short(Type::kConnectConfirm, vi.link.peer_address, vi.link.peer_vi,
                             vi.link.peer_key, vi.tx.send_next, vi.rx.receive_next, 0);
      CommandBody out{};
      out.op = Op::kConnectRequest;
      out.vi_attributes = viaduct::attributes_of(body);
      if (command != kNone) command_slots_.finish(vi.session, command, vip::kSuccess, out);
      return;
    }
    // The peer that was met may turn out to be gone. Then the sender of this ACCEPT is the peer, and will
    // repeat it; a reset would end the connection that is about to stand.
    if (ours && vi.state == vip::kConnectPending) {
      ++count.drop_stale_answer;
      return;
    }
  }
  ++count.drop_stale_answer;
  disconnects_.send_reset(frame);
}

template <class Platform>
void Connections<Platform>::on_connect_confirm(const wire::Decoded& frame) {
  if (Vi* vi = peer_table_.vi_for(frame, true)) {
    if (vi->state == vip::kConnectPending) establish(frame.header.vi);
  }
}

// Handles CONNECT_REJECT, CONNECT_HELD and CONNECT_MOVED from stacks that were asked, and CONNECT_REJECT for
// kToRequest, by which a requester takes its request back.
template <class Platform>
void Connections<Platform>::on_connect_answer(const wire::Decoded& frame) {
  const wire::Header& header = frame.header;
  if (header.type == Type::kConnectReject && header.vi == kToRequest) {
    wire::ConnectBody wanted{};
    wanted.key = header.key;
    wanted.request = header.psn;
    const std::uint32_t r = connect_requests_.find_request(frame.source, wanted);
    if (r == kNone) return;
    switch (requests_[r].state) {
      case RequestState::kAccepting: fail_attempt(requests_[r].vi, vip::kTimeout); break;
      case RequestState::kHeld:
      case RequestState::kMatched:
        connect_requests_.bury_request(r);
        break;
      default: break;
    }
    return;
  }
  if (header.vi < vis_.fresh()) {
    Vi& vi = vis_[header.vi];
    if (vi.session != kNone && vi.state == vip::kConnectPending && !vi.link.accepting &&
        vi.link.local_key == header.key && vi.link.request == header.psn) {
      if (header.type == Type::kConnectMoved) return request_targets_.on_moved(header.vi, frame);
      if (header.type == Type::kConnectReject) {
        request_targets_.forget_asked(header.vi, frame.source);
        // Between peers the reason is a conflict of attributes.
        const bool conflict = vi.link.peer_to_peer && (header.immediate == vip::kInvalidMtu ||
                                                  header.immediate ==
                                                      vip::kInvalidReliabilityLevel);
        return fail_attempt(header.vi, conflict ? static_cast<vip::Return>(header.immediate)
                                                : vip::kReject);
      }
      if (state::Asked* asked = request_targets_.ask_too(header.vi, frame.source)) {
        asked->answer = header.immediate == 0 ? state::Answer::kHeld : state::Answer::kTaken;
        asked->unanswered = 0;
        asked->may_keep = 1;
      }
      return;
    }
  }
  ++root_->counters.drop_stale_answer;
}

// Pending becomes Connected. On the accepting side this also ends the request and the command.
template <class Platform>
void Connections<Platform>::establish(ViIndex i) {
  Vi& vi = vis_[i];
  wheel_.disarm(vi_timer(i));
  // Flushes sends that were posted before the VI was connected, also if their doorbell has not been answered yet.
  completions_.flush_sends(i);
  virtual_interfaces_.set_state(i, vip::kConnected);
  ++root_->counters.connections_opened;
  history_.connection(state::Happened::kConnected, i, vi.reliability);
  if (vi.link.peer_to_peer) return end_peer_attempt(i, vip::kSuccess);
  const std::uint32_t command = vi.link.command;
  vi.link.command = kNone;
  if (!vi.link.accepting) return;
  vi.link.accepting = 0;
  connect_requests_.release_request(vi.link.request);
  connect_requests_.bury_request(vi.link.request);
  if (command != kNone) command_slots_.finish(vi.session, command, vip::kSuccess);
}

template <class Platform>
vip::Return Connections<Platform>::disconnect(std::uint32_t session, const CommandBody& body) {
  if (find_vi(session, body.vi, body.generation) == nullptr) return vip::kInvalidParameter;
  end_connection(body.vi, End::kLocal, 0);
  return vip::kSuccess;
}

template <class Platform>
void Connections<Platform>::end_connection(ViIndex i, End end, std::uint32_t error,
                                           std::uint32_t refused_psn, std::uint32_t reason,
                                           std::uint32_t index) {
  Vi& vi = vis_[i];
  const bool by_us = end == End::kLocal || end == End::kGone;
  switch (vi.state) {
    case vip::kIdle: return;
    case vip::kConnectPending:
      return fail_attempt(i, by_us ? vip::kInvalidState : vip::kTimeout);
    case vip::kError:
      if (end == End::kLocal) {
        completions_.flush_queues(i);
        virtual_interfaces_.set_state(i, vip::kIdle);
      }
      return;
    default: break;
  }
  wheel_.disarm(vi_timer(i));
  StackCounters& count = root_->counters;
  if (by_us) {
    // A program that died may have left something unsent. A PSN one beyond the last frame tells the peer so.
    const bool more = vi.tx.current_slot != kNone || send_queue_.more_to_send(i) ||
                      view(vi).vi(i).send.more.load(std::memory_order_acquire) == vi.generation;
    const bool cut = end == End::kGone && more;
    disconnects_.say_goodbye(vi, vi.tx.send_next + (cut ? 1 : 0), 0);
    ++count.connections_closed;
    history_.connection(state::Happened::kDisconnected, i, 0);
    virtual_interfaces_.set_state(i, vip::kIdle);
  } else {
    // Unless the peer has said where its data ends, some of it may be missing.
    if (end != End::kRemote && vi.reliability != vip::kUnreliable) vi.rx.missing = 1;
    if (end == End::kFailed) disconnects_.say_goodbye(vi, refused_psn, reason, index);
    ++(end == End::kRemote ? count.connections_closed : count.connections_lost);
    history_.connection(
        end == End::kRemote ? state::Happened::kPeerDisconnected : state::Happened::kConnectionLost, i, error);
    view(vi).vi(i).status.error.store(1 + error, std::memory_order_relaxed);
    virtual_interfaces_.set_state(i, vip::kError);
    report_end(i, end, error);
  }
  // A program posts first and looks at the state then. We set the state first and look at what is posted then. With
  // this fence at least one of us sees what the other has done.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  peer_table_.unlink(i);
  placer_.flush_of(i);
  // A program that has disconnected finds all its descriptors flushed. A program that is gone looks at none.
  if (end != End::kGone) {
    completions_.flush_queues(i, by_us ? layout::kRingEntries : kFlushedAtOnce);
  }
  virtual_interfaces_.reset_transfer(i);
}

// Tells the program of the end of a connection that it has not ended itself.
template <class Platform>
void Connections<Platform>::report_end(ViIndex i, End end, std::uint32_t error) {
  Vi& vi = vis_[i];
  if (error != vip::kConnectionLost) completions_.report(i, error);
  if (vi.rx.in_message && vi.rx.message_op == wire::kOpRdmaWrite) {
    completions_.report(i, vip::kRdmaWriteAbort);
  }
  if (end == End::kLost && vi.tx.send.completed != vi.tx.send.taken &&
      vi.reliability != vip::kUnreliable) {
    // The first message that was not acknowledged tells why the others failed.
    vi.tx.failed_slot = in_flight(i, vi.tx.send.completed).slot;
    vi.tx.failed_status = vip::kFlushedError | vip::kTransportError;
    for (std::uint32_t p = vi.tx.send.completed; p != vi.tx.send.taken; ++p) {
      const std::uint16_t op = in_flight(i, p).op;
      if (op == layout::kOpSend) continue;
      completions_.report(i, vip::kRdmaTransport, {0, op, 0});
      break;
    }
  }
  const bool orderly = end == End::kRemote && vi.tx.failed_slot == kNone;
  completions_.report(i, vip::kConnectionLost,
                      {0, 0, orderly ? layout::kEventOrderly : std::uint8_t{0}});
}

template <class Platform>
void Connections<Platform>::on_disconnect(const wire::Decoded& frame) {
  const wire::Header& header = frame.header;
  // Answered also when the connection is unknown: it may be over already.
  frames_out_.send_short(Type::kDisconnectAck, frame.source, header.vi, header.key, 0, 0, 0);
  Vi* vi = peer_table_.vi_for(frame, true);
  if (vi == nullptr) return;
  if (vi->state == vip::kConnectPending) establish(header.vi);
  if (vi->reliability != vip::kUnreliable) {
    loss_recovery_.take_ack(header.vi, header.ack, vi->tx.peer_window);
  }
  if (vi->state == vip::kConnected) {
    if (header.immediate != 0) {
      send_queue_.note_refusal(header.vi, header.psn, header.offset, header.immediate);
    } else if (vi->reliability != vip::kUnreliable) {
      vi->rx.missing = header.psn != vi->rx.receive_next ? 1 : 0;
    }
    end_connection(header.vi, End::kRemote, vip::kConnectionLost);
  }
}

}  // namespace viaduct
