// Set-up, sessions and the progress loop.
#include "kagent/stack/stack.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace viaduct {

using state::kNone;
using state::Vi;

namespace {

constexpr unsigned kSessionQuantum = 128;  // of one session; a VI counts as a frame too
constexpr std::uint32_t kFlushedByAgentWake = 64;

}  // namespace

template <class Platform>
BasicStack<Platform>::BasicStack(void* segment, const StackLimits& limits, std::uint16_t ether_type,
                                 Port& port, Environment& environment, const StackAddresses& addresses,
                                 std::uint64_t now)
    : OwnTables{Tables(segment, limits, ether_type, port.address(), addresses, port.mtu(),
                       port.lendable(), now)},
      ViTable(tables_), Timers(tables_), port_(port), environment_(environment),
      parts_(tables_, port, environment) {
  root_->request_secret = environment.random() | 1;
  for (std::uint64_t& half : root_->cookie_key) half = environment.random();
  root_->next_request_number = static_cast<std::uint32_t>(environment.random());
  parts_.credit_grants.share_standing_credit(0);
}

template <class Platform>
BasicStack<Platform>::~BasicStack() {
  for (std::uint32_t i = 0; i < vis_.fresh(); ++i) {
    if (vis_[i].session != kNone) parts_.receiver.drop_held(i);
  }
  parts_.frames_in.release_all();
}

template <class Platform>
std::optional<std::uint32_t> BasicStack<Platform>::open_session(void* segment) {
  for (std::uint32_t s = 0; s < limits_.sessions; ++s) {
    if (tables_.sessions[s].in_use) continue;
    state::Session fresh{};
    fresh.in_use = 1;
    // The list of VIs that may send may still name VIs of the session that was here before, so its links stay.
    fresh.ready_head = tables_.sessions[s].ready_head;
    fresh.ready_tail = tables_.sessions[s].ready_tail;
    fresh.ready_next = tables_.sessions[s].ready_next;
    fresh.ready_listed = tables_.sessions[s].ready_listed;
    tables_.sessions[s] = fresh;
    for (std::uint32_t& program : tables_.sessions[s].programs) program = kNone;
    parts_.processes.begin_program(s, s, 0);
    auto* header = new (segment) layout::Header{};
    header->magic = layout::kMagic;
    header->version = layout::kLayoutVersion;
    header->capacity = capacity();
    header->bytes = layout::Offsets(header->capacity).total;
    views_[s] = layout::View(segment, header->capacity);
    for (std::uint32_t c = 0; c < layout::kCommands; ++c) {
      parts_.command_slots.pending(s, c).op = layout::Op::kNone;
    }
    tables_.open_sessions[tables_.open_count++] = s;
    return s;
  }
  return std::nullopt;
}

template <class Platform>
void BasicStack<Platform>::close_session(std::uint32_t session, std::uint64_t now) {
  tables_.now = now;
  for (std::uint32_t c = 0; c < layout::kCommands; ++c) {
    if (parts_.command_slots.pending(session, c).op != layout::Op::kNone) {
      parts_.commands.cancel_command(session, c, vip::kErrorResource);
    }
  }
  parts_.processes.drop_requests(session, kNone);
  const state::Session& held = tables_.sessions[session];
  for (std::uint32_t i = 0; held.vis > 0 && i < vis_.fresh(); ++i) {
    if (vis_[i].session != session) continue;
    parts_.connections.end_connection(i, End::kGone, 0);
    parts_.virtual_interfaces.free_vi(i);
  }
  for (std::uint32_t i = 0; held.cqs > 0 && i < tables_.cqs.fresh(); ++i) {
    if (tables_.cqs[i].session == session) parts_.completions.free_cq(i);
  }
  for (std::uint32_t i = 0; held.regions > 0 && i < tables_.regions.fresh(); ++i) {
    if (tables_.regions[i].handle != 0 &&
        tables_.programs[tables_.regions[i].program].session == session) {
      parts_.memory_table.free_region(tables_.regions[i]);
    }
  }
  for (std::uint32_t i = 0; i < tables_.ptags.fresh(); ++i) {
    if (tables_.ptags[i].session != session) continue;
    tables_.ptags[i].session = kNone;
    tables_.ptags.give(i);
  }
  for (std::uint32_t i = 0; held.claims > 0 && i < tables_.claims.fresh(); ++i) {
    if (tables_.claims[i].session == session) parts_.claim_table.free_claim(tables_.claims[i]);
  }
  parts_.wakeups.flush_wakes();
  parts_.frames_out.end_bundle();
  port_.flush();
  for (std::uint32_t p = 0; tables_.members.used() > 0 && p < tables_.members.fresh(); ++p) {
    if (tables_.members[p].session != session) continue;
    tables_.members[p].session = kNone;
    views_[limits_.sessions + p] = layout::View();
    tables_.members.give(p);
  }
  tables_.programs[session].session = kNone;
  if (tables_.sessions[session].delegated) --root_->delegates;
  views_[session] = layout::View();
  tables_.sessions[session].in_use = 0;
  std::uint32_t* const open =
      std::find(tables_.open_sessions, tables_.open_sessions + tables_.open_count, session);
  --tables_.open_count;
  std::memmove(open, open + 1, (tables_.open_sessions + tables_.open_count - open) * sizeof *open);
}

template <class Platform>
unsigned BasicStack<Platform>::progress(std::uint64_t now) {
  tables_.now = now;
  bool overtakes = false;
  unsigned work = receive_frames(overtakes);
  if (overtakes) [[unlikely]] work += receive_overtaken();
  if (environment_.late != 0) [[unlikely]] work += complete_late();
  const bool more_waits = work >= kBurst;
  work += answer_doorbells();
  work += transmit_ready();
  work += parts_.acknowledger.send_due_acks();
  // Timers come after all frames that have arrived: a frame may be what a timer waits for.
  if (!more_waits) {
    wheel_.advance(now, [this, &work](std::uint32_t timer) {
      fire(timer);
      ++work;
    });
  }
  parts_.frames_out.flush_last();
  parts_.frames_in.release_all();
  parts_.wakeups.flush_wakes();
  return work;
}

template <class Platform>
unsigned BasicStack<Platform>::receive_frames(bool& overtakes) {
  const std::size_t count = port_.receive(burst_);
  for (std::size_t i = 0; i < count; ++i) {
    bool keep = false;
    if (i + 1 < count) __builtin_prefetch(burst_[i + 1].data);
    dispatch(burst_[i], keep);
    if (keep && !port_.bulk_path().came_by_train(burst_[i])) [[unlikely]] overtakes = true;
    if (!keep) parts_.receiver.give_back(burst_[i]);
    if (parts_.receiver.may_run(burst_[i])) i += take_run(i, count);
    parts_.receiver.end_run();
  }
  if (count != 0) parts_.placer.flush_placement();
  return static_cast<unsigned>(count);
}

// A frame that leaves a gap may have been sent behind trains that wait: the peer would take them for lost. No more wait than
// the window has frames. Trains are the last of a burst.
template <class Platform>
unsigned BasicStack<Platform>::receive_overtaken() {
  unsigned all = 0, more = 0;
  do {
    bool overtakes = false;
    port_.bulk_path().trains_came();
    more = receive_frames(overtakes);
    all += more;
  } while (all < state::kWindow &&
           (more == kBurst || (more != 0 && port_.bulk_path().came_by_train(burst_[more - 1]))));
  return all;
}

// Takes frames of a train that go on behind frame `i` of the burst. Returns how many.
template <class Platform>
unsigned BasicStack<Platform>::take_run(std::size_t i, std::size_t count) {
  if (environment_.late != 0 || !port_.bulk_path().came_by_train(burst_[i])) return 0;
  std::size_t end = i + 1;
  while (end != count && port_.bulk_path().came_by_train(burst_[end])) ++end;
  const unsigned taken = parts_.receiver.take_run(burst_[i], {burst_ + i + 1, end - i - 1});
  for (unsigned n = 1; n <= taken; ++n) parts_.receiver.give_back(burst_[i + n]);
  return taken;
}

template <class Platform>
void BasicStack<Platform>::dispatch(const Frame& frame, bool& keep) {
  const std::span<const std::byte> all{frame.data, frame.length};
  wire::Decoded decoded;
  if (!is_taken(wire::decode(all, decoded), decoded)) return;
  const bool for_us = decoded.destination == tables_.address;
  if (!for_us && decoded.header.type != wire::Type::kNameQuery) {
    ++root_->counters.drop_destination;
    return;
  }
  if (decoded.header.type != wire::Type::kData && decoded.header.type != wire::Type::kAck) return on_control(decoded, frame);
  on_bundled(decoded, frame, keep);
  for (std::size_t at; (at = wire::next_in_bundle(all, decoded)) != 0;) {
    if (!is_taken(wire::decode_bundled(all, at, decoded), decoded)) return;
    on_bundled(decoded, frame, keep);
  }
}

// Counts a frame that is not to be taken.
template <class Platform>
bool BasicStack<Platform>::is_taken(wire::Malformed malformed, const wire::Decoded& decoded) {
  StackCounters& count = root_->counters;
  switch (malformed) {
    case wire::Malformed::kNone: break;
    case wire::Malformed::kShort: ++count.drop_short; return false;
    case wire::Malformed::kVersion: ++count.drop_version; return false;
    case wire::Malformed::kType: ++count.drop_type; return false;
    case wire::Malformed::kLength: ++count.drop_length; return false;
  }
  if (wire::intact(decoded)) [[likely]] return true;
  ++count.drop_checksum;
  return false;
}

// A frame that may be in a bundle.
template <class Platform>
void BasicStack<Platform>::on_bundled(const wire::Decoded& decoded, const Frame& frame, bool& keep) {
  if (decoded.header.type == wire::Type::kAck) return on_ack(decoded);
  if (const state::Vi* const vi = admit(decoded, frame); vi != nullptr) on_data(*vi, decoded, frame, keep);
}

template <class Platform>
void BasicStack<Platform>::on_control(const wire::Decoded& decoded, const Frame& frame) {
  switch (decoded.header.type) {
    case wire::Type::kConnectRequest: return parts_.connections.on_connect_request(decoded);
    case wire::Type::kConnectAccept: return parts_.connections.on_connect_accept(decoded);
    case wire::Type::kConnectConfirm: return parts_.connections.on_connect_confirm(decoded);
    case wire::Type::kConnectMoved:
    case wire::Type::kConnectReject:
    case wire::Type::kConnectHeld: return parts_.connections.on_connect_answer(decoded);
    case wire::Type::kDisconnect: return parts_.connections.on_disconnect(decoded);
    case wire::Type::kDisconnectAck: return parts_.disconnects.on_disconnect_ack(decoded);
    case wire::Type::kProbe:
    case wire::Type::kProbeAck: return on_probe(decoded);
    case wire::Type::kReset: return parts_.keepalive.on_reset(decoded);
    case wire::Type::kNameQuery: return parts_.name_service.on_name_query(decoded);
    case wire::Type::kNameReply: return parts_.name_service.on_name_reply(decoded);
    case wire::Type::kClaimQuery: return parts_.claim_table.on_claim_query(decoded);
    case wire::Type::kClaimReply: return parts_.claim_table.on_claim_reply(decoded);
    case wire::Type::kStoppedQuery: return parts_.stopped_peers.on_stopped_query(decoded);
    case wire::Type::kStoppedReply: return parts_.stopped_peers.on_stopped_reply(decoded);
    case wire::Type::kWake: return;  // the sleeper is awake
    case wire::Type::kPath:
      if (parts_.peer_table.vi_for(decoded) != nullptr) {
        parts_.trains.on_path(decoded.header.vi, decoded, frame);
      }
      return;
    default: ++root_->counters.drop_type; return;
  }
}

// One program's doorbells must not hold up the others: each session has its credit for a round, and doorbells for
// which that does not suffice stay rung.
template <class Platform>
unsigned BasicStack<Platform>::answer_doorbells() {
  unsigned work = 0;
  for (std::uint32_t i = 0; i < tables_.open_count; ++i) {
    const std::uint32_t session = tables_.open_sessions[i];
    layout::Doorbells& doorbells = views_[session].header().doorbells;
    if (!doorbells.any()) continue;
    state::Session& owner = tables_.sessions[session];
    parts_.budget.begin(owner.credit);
    if (parts_.budget.left()) {
      doorbells.answer_some(owner.next_doorbell, [this, session](std::uint32_t bit) {
        parts_.budget.charge(1);
        rung(session, bit);
        return parts_.budget.left();
      });
    }
    owner.credit = parts_.budget.rest();
    ++work;
  }
  return work;
}

template <class Platform>
void BasicStack<Platform>::rung(std::uint32_t session, std::uint32_t bit) {
  if (bit < layout::kCommands) {
    parts_.commands.run_command(session, bit);
  } else if (bit - layout::kCommands < limits_.vis) {
    const ViIndex vi = bit - layout::kCommands;
    if (vi < vis_.fresh() && vis_[vi].session == session) ring_send(vi);
  } else if (bit - layout::kCommands - limits_.vis < tables_.cqs.fresh()) {
    const std::uint32_t cq = bit - layout::kCommands - limits_.vis;
    if (tables_.cqs[cq].session == session) parts_.completions.drain_backlog(cq);
  } else if (bit == layout::kListenerBit && tables_.sessions[session].delegated) {
    parts_.forwarding.move_held_requests();
  }
}

template <class Platform>
void BasicStack<Platform>::fire(std::uint32_t timer) {
  if (timer < limits_.vis) {
    if (vis_[timer].state == vip::kConnected) {
      parts_.loss_recovery.retransmission_timeout(timer);
      settle();
    } else {
      parts_.connections.attempt_timeout(timer);
    }
    return;
  }
  timer -= limits_.vis;
  if (timer < limits_.requests) return parts_.connect_requests.request_timeout(timer);
  timer -= limits_.requests;
  if (timer < limits_.goodbyes) return parts_.disconnects.goodbye_timeout(timer);
  timer -= limits_.goodbyes;
  if (timer < limits_.peers) return parts_.keepalive.peer_timeout(timer);
  timer -= limits_.peers;
  if (timer == limits_.sessions * layout::kCommands) return parts_.forwarding.move_held_requests();
  parts_.commands.command_timeout(timer / layout::kCommands, timer % layout::kCommands);
}

template <class Platform>
bool BasicStack<Platform>::prepare_to_sleep() {
  if (root_->ready_head != kNone) return false;
  for (const std::uint32_t s : std::span(tables_.open_sessions, tables_.open_count)) {
    views_[s].header().driver_sleeps.store(1);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const std::uint32_t s : std::span(tables_.open_sessions, tables_.open_count)) {
    if (!views_[s].header().doorbells.any()) continue;
    awake();
    return false;
  }
  return true;
}

template <class Platform>
void BasicStack<Platform>::awake() {
  for (const std::uint32_t s : std::span(tables_.open_sessions, tables_.open_count)) {
    views_[s].header().driver_sleeps.store(0, std::memory_order_relaxed);
  }
}

template <class Platform>
std::uint64_t BasicStack<Platform>::next_deadline() const {
  if (root_->ready_head != kNone) return 0;
  return std::min(wheel_.next(), parts_.acknowledger.next_due());
}

template <class Platform>
void BasicStack<Platform>::on_ack(const wire::Decoded& frame) {
  const wire::Header& header = frame.header;
  const Vi* vi = parts_.peer_table.vi_for(frame, true);
  if (vi == nullptr) {
    parts_.disconnects.send_reset(frame);
    return;
  }
  if (vi->state != vip::kConnected) return;
  ++root_->counters.acks_received;
  if (vi->reliability == vip::kUnreliable) {
    if (vi->link.credit != 0) parts_.send_credit.take_credit(header.vi, header.ack, header.window);
    return;
  }
  parts_.loss_recovery.take_ack(header.vi, header.ack, header.window);
  if (vis_[header.vi].state != vip::kConnected) return;
  if (frame.payload.size() == wire::kSackBits / 8) {
    parts_.loss_recovery.take_sack(header.vi, header.ack, frame.payload);
  }
}

// Ends the connection that pending_disconnect names.
template <class Platform>
void BasicStack<Platform>::end_connection() {
  parts_.pending_disconnect.settle([this](auto... what) { parts_.connections.end_connection(what...); });
}

// Completes work that was deferred until its data was written, or could not be written.
template <class Platform>
unsigned BasicStack<Platform>::complete_late() {
  unsigned work = 0;
  typename Platform::Environment::Late late;
  bool failed = false;
  for (; environment_.take_due(late, failed); ++work) {
    Vi& vi = vis_[late.vi];
    if (vi.session == kNone || vi.generation != late.generation) continue;
    if (late.what == Platform::Environment::Late::What::kSend) {
      parts_.send_queue.make_ready(late.vi);
      continue;
    }
    if (late.what == Platform::Environment::Late::What::kReceive) {
      const std::uint32_t status =
          failed ? std::uint32_t{vip::kProtectionError} | vip::kOpReceive : late.status;
      parts_.completions.publish(late.vi, true, late.slot, status, failed ? 0 : late.length,
                                 late.immediate, late.inline_length);
      if (!failed || vi.reliability == vip::kUnreliable || vi.state != vip::kConnected) continue;
      parts_.connections.end_connection(late.vi, End::kFailed, vip::kConnectionLost,
                                        vi.rx.receive_next,
                                        static_cast<std::uint32_t>(wire::Refusal::kDescriptor));
      continue;
    }
    // If the connection has ended meanwhile, the read has been flushed.
    const std::uint32_t position = late.slot;
    if (position - vi.tx.send.completed >= vi.tx.send.taken - vi.tx.send.completed) continue;
    state::InFlight& read = in_flight(late.vi, position);
    if (failed) {
      parts_.send_queue.fail_current(late.vi, read.slot, vip::kProtectionError);
      settle();
    } else {
      parts_.receiver.finish_read(late.vi, read);
    }
  }
  return work;
}

template <class Platform>
void BasicStack<Platform>::leave(std::uint32_t program, std::uint64_t now) {
  tables_.now = now;
  state::Program& gone = tables_.programs[program];
  const std::uint32_t session = gone.session;
  parts_.commands.drop_commands(program);
  parts_.processes.drop_requests(session, program);
  for (ViIndex i = 0; i < vis_.fresh(); ++i) {
    if (vis_[i].session != session || vis_[i].program != program) continue;
    parts_.connections.end_connection(i, End::kGone, 0);
    parts_.virtual_interfaces.free_vi(i);
  }
  for (std::uint32_t i = 0; i < tables_.cqs.fresh(); ++i) {
    if (tables_.cqs[i].session == session && tables_.cqs[i].program == program) {
      parts_.completions.free_cq(i);
    }
  }
  parts_.processes.free_locks(program);
  parts_.wakeups.flush_wakes();
  parts_.frames_out.end_bundle();
  port_.flush();
  tables_.sessions[session].programs[gone.member] = kNone;
  gone.gone = 1;
  if (gone.inheriting_processes == 0) parts_.processes.forget_program(program);
}

template <class Platform>
void BasicStack<Platform>::on_probe(const wire::Decoded& frame) {
  const ViIndex answered = parts_.keepalive.on_probe(frame);
  if (answered != kNone) parts_.loss_recovery.take_answer(answered, frame.header.ack);
}

// The VI that a data frame is for; nullptr: none takes it. All that a frame tells of its peer and its path is done
// before the receiver gets it.
template <class Platform>
state::Vi* BasicStack<Platform>::admit(const wire::Decoded& frame, const Frame& raw) {
  state::Vi* const vi = parts_.peer_table.vi_for(frame, true);
  if (vi == nullptr) {
    parts_.disconnects.send_reset(frame);
    return nullptr;
  }
  // Frames must be checked on the network path only: a peer on this host may have taken the local path already.
  if (vi->tx.checked != 0 && (frame.header.flags & wire::kFlagChecked) == 0 && vi->tx.path == state::Path::kNetwork &&
      is_checked(*vi, port_.bulk_path().came_by_train(raw))) [[unlikely]] {
    ++root_->counters.drop_checksum;
    return nullptr;
  }
  if (environment_.late != 0 && environment_.is_full(vi->program)) [[unlikely]] {
    ++root_->counters.drop_program_slow;
    return nullptr;
  }
  // The peer would not send if our ACCEPT had not arrived: its CONFIRM is lost or late.
  if (vi->state == vip::kConnectPending) parts_.connections.establish(frame.header.vi);
  // A pure receiver can switch paths at once: it has no frames under way that could be overtaken.
  if (vi->tx.path == state::Path::kSameHost && vi->tx.send_una == vi->tx.send_next &&
      vi->tx.current_slot == kNone &&
      vi->reliability != vip::kUnreliable) [[unlikely]] {
    parts_.peer_table.take_local_path(*vi);
  }
  return vi;
}

template <class Platform>
void BasicStack<Platform>::on_data(const state::Vi& vi, const wire::Decoded& frame, const Frame& raw, bool& keep) {
  ++root_->counters.data_frames_received;
  if (vi.reliability == vip::kUnreliable) {
    parts_.receiver.on_unreliable_data(frame.header.vi, frame);
  } else {
    parts_.receiver.on_reliable_data(frame.header.vi, frame, raw, keep);
  }
  settle();
}

// The doorbell of a VI: something was posted on it.
template <class Platform>
void BasicStack<Platform>::ring_send(ViIndex i) {
  if (vis_[i].state == vip::kConnected) return parts_.send_queue.make_ready(i);
  parts_.completions.flush_sends(i, kFlushedByAgentWake);
  if (vis_[i].state == vip::kError) parts_.completions.flush_receives(i, kFlushedByAgentWake);
}

template <class Platform>
unsigned BasicStack<Platform>::transmit_ready() {
  unsigned sent = 0;
  const std::uint32_t last = root_->ready_tail;
  for (bool more = root_->ready_head != kNone; more;) {
    const std::uint32_t s = root_->ready_head;
    more = s != last;
    root_->ready_head = tables_.sessions[s].ready_next;
    tables_.sessions[s].ready_listed = 0;
    transmit_session(s, sent);
  }
  return sent;
}

template <class Platform>
void BasicStack<Platform>::transmit_session(std::uint32_t s, unsigned& sent) {
  state::Session& session = tables_.sessions[s];
  const ViIndex last = session.ready_tail;
  const unsigned end = sent + kSessionQuantum;
  unsigned visited = 0;
  for (bool more = session.ready_head != kNone; more && sent + visited < end; ++visited) {
    const ViIndex i = session.ready_head;
    more = i != last;
    session.ready_head = vis_[i].tx.ready_next;
    vis_[i].tx.listed &= static_cast<std::uint8_t>(~state::kOnReadyList);
    if (vis_[i].session == kNone || vis_[i].state != vip::kConnected) continue;
    const bool waits = parts_.transmitter.transmit(i, sent);
    settle();
    if (!waits) continue;
    if (environment_.postponed && parts_.transmitter.await_read(i)) [[unlikely]] {
      continue;
    }
    parts_.send_queue.make_ready(i);
  }
  if (session.ready_head != kNone) parts_.send_queue.list_ready(s);
}

template <class Platform>
void BasicStack<Platform>::delegate(std::uint32_t session, const MacAddress& address) {
  parts_.forwarding.delegate(session, address);
}

template <class Platform>
std::optional<std::uint32_t> BasicStack<Platform>::join(std::uint32_t session, std::uint32_t parent_id,
                                                        std::uint32_t forks) {
  return parts_.processes.join(session, parent_id, forks);
}

template <class Platform>
vip::Return BasicStack<Platform>::redirect(std::uint32_t vi, std::uint32_t generation,
                                      const layout::Segment& to) {
  return parts_.receiver.redirect(vi, generation, to);
}

template <class Platform>
vip::Return BasicStack<Platform>::unredirect(std::uint32_t vi, std::uint32_t generation) {
  return parts_.receiver.unredirect(vi, generation);
}

}  // namespace viaduct
