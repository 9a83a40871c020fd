// Set-up, sessions and the progress loop.
#include "kagent/stack/stack.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace viaduct {

using state::kBuckets;
using state::kNone;
using state::Vi;

namespace {

std::uint32_t key_bucket_count(const StackLimits& limits) {
  std::uint32_t n = 64;
  while (n < limits.vis) n *= 2;
  return n;
}

}  // namespace

Stack::Parts Stack::parts(const StackLimits& limits) {
  Parts p{};
  std::size_t at = 0;
  const auto add = [&at]<class T>(T*, std::size_t count) {
    const std::size_t here = at;
    at = (at + sizeof(T) * count + 63) & ~std::size_t{63};
    return here;
  };
  const std::size_t vis = limits.vis;
  p.root = add(static_cast<state::Root*>(nullptr), 1);
  p.sessions = add(static_cast<state::Session*>(nullptr), limits.sessions);
  p.programs = add(static_cast<state::Program*>(nullptr),
                   std::size_t{limits.sessions} + limits.members);
  p.vis = add(static_cast<Vi*>(nullptr), vis);
  p.cqs = add(static_cast<state::Cq*>(nullptr), limits.cqs);
  p.regions = add(static_cast<state::Region*>(nullptr), limits.regions);
  p.ptags = add(static_cast<state::Ptag*>(nullptr), limits.ptags);
  p.peers = add(static_cast<state::Peer*>(nullptr), limits.peers);
  p.requests = add(static_cast<state::Request*>(nullptr), limits.requests);
  p.goodbyes = add(static_cast<state::Goodbye*>(nullptr), limits.goodbyes);
  p.claims = add(static_cast<state::Claim*>(nullptr), std::size_t{limits.sessions} * limits.claims);
  p.held = add(static_cast<Frame*>(nullptr), vis * state::kWindow);
  p.pendings = add(static_cast<state::Pending*>(nullptr),
                   std::size_t{limits.sessions} * layout::kCommands);
  p.attempts = add(static_cast<state::Attempt*>(nullptr), vis);
  p.in_flight = add(static_cast<state::InFlight*>(nullptr), vis * state::kWindow);
  p.resent_marks = add(static_cast<std::uint32_t*>(nullptr), vis * state::kWindow);
  p.responses = add(static_cast<state::Response*>(nullptr), vis * state::kMaxReads);
  p.key_buckets = add(static_cast<std::uint32_t*>(nullptr), key_bucket_count(limits));
  p.peer_buckets = add(static_cast<std::uint32_t*>(nullptr), kBuckets);
  p.request_buckets = add(static_cast<std::uint32_t*>(nullptr), kBuckets);
  p.goodbye_buckets = add(static_cast<std::uint32_t*>(nullptr), kBuckets);
  p.wheel = add(static_cast<TimerWheel::State*>(nullptr), 1);
  p.timers = add(static_cast<TimerWheel::Entry*>(nullptr),
                 vis + limits.requests + limits.goodbyes + limits.peers +
                     std::size_t{limits.sessions} * layout::kCommands + 1);
  p.views = add(static_cast<layout::View*>(nullptr),
                std::size_t{limits.sessions} + limits.members);
  p.open_sessions = add(static_cast<std::uint32_t*>(nullptr), limits.sessions);
  p.total = at;
  return p;
}

std::size_t Stack::footprint(const StackLimits& limits) { return parts(limits).total; }

Stack::Stack(void* segment, const StackLimits& limits, std::uint16_t ether_type, StackPort& port,
             StackEnvironment& environment, const StackAddresses& addresses, std::uint64_t now)
    : limits_(limits),
      port_(port),
      environment_(environment),
      address_(port.address()),
      addresses_(addresses),
      mtu_(port.mtu()),
      ether_type_(ether_type),
      now_(now) {
  const Parts p = parts(limits);
  auto* base = static_cast<std::byte*>(segment);
  const auto part = [base]<class T>(T*& out, std::size_t offset) {
    out = reinterpret_cast<T*>(base + offset);
    return out;
  };
  const auto pool = [&]<class T>(Pool<T>& out, std::size_t offset, state::PoolHead& head,
                                 std::uint32_t capacity) {
    T* items = nullptr;
    out.attach(part(items, offset), &head, capacity);
    out.reset();
  };
  part(root_, p.root);
  part(sessions_, p.sessions);
  part(programs_, p.programs);
  members_.attach(programs_ + limits.sessions, &root_->members, limits.members);
  members_.reset();
  pool(vis_, p.vis, root_->vis, limits.vis);
  pool(cqs_, p.cqs, root_->cqs, limits.cqs);
  pool(regions_, p.regions, root_->regions, limits.regions);
  pool(ptags_, p.ptags, root_->ptags, limits.ptags);
  pool(peers_, p.peers, root_->peers, limits.peers);
  pool(requests_, p.requests, root_->requests, limits.requests);
  pool(goodbyes_, p.goodbyes, root_->goodbyes, limits.goodbyes);
  pool(claims_, p.claims, root_->claims, limits.sessions * limits.claims);
  part(held_frames_, p.held);
  part(pendings_, p.pendings);
  part(attempts_, p.attempts);
  part(in_flight_, p.in_flight);
  part(resent_marks_, p.resent_marks);
  part(responses_, p.responses);
  const auto buckets = [&](std::uint32_t*& out, std::size_t offset, std::uint32_t count) {
    part(out, offset);
    for (std::uint32_t i = 0; i < count; ++i) out[i] = kNone;
  };
  key_bucket_mask_ = key_bucket_count(limits) - 1;
  buckets(key_buckets_, p.key_buckets, key_bucket_count(limits));
  buckets(peer_buckets_, p.peer_buckets, kBuckets);
  buckets(request_buckets_, p.request_buckets, kBuckets);
  buckets(goodbye_buckets_, p.goodbye_buckets, kBuckets);
  TimerWheel::State* wheel = nullptr;
  TimerWheel::Entry* entries = nullptr;
  wheel_.attach(part(wheel, p.wheel), part(entries, p.timers));
  wheel_.reset(timers(), now);

  root_->listeners = root_->listeners_tail = kNone;
  root_->live_requests = root_->done_requests = {kNone, kNone};
  root_->ready_head = root_->ready_tail = kNone;
  for (std::uint32_t s = 0; s < limits.sessions; ++s) {
    sessions_[s].ready_head = sessions_[s].ready_tail = kNone;
  }
  root_->ack_head = kNone;
  root_->peer_attempts = kNone;
  root_->request_secret = environment_.random() | 1;
  for (std::uint64_t& half : root_->cookie_key) half = environment_.random();
  root_->next_request_number = static_cast<std::uint32_t>(environment_.random());

  part(views_, p.views);
  part(open_sessions_, p.open_sessions);
  held_limit_ = std::min(limits.held, port.lendable());
  share_standing_credit(0);
}

Stack::~Stack() {
  for (std::uint32_t i = 0; i < vis_.fresh(); ++i) {
    if (vis_[i].session != kNone) drop_held(i);
  }
  release_all();
}

layout::Capacity Stack::capacity() const {
  return {limits_.vis, limits_.cqs, limits_.slots, 0};
}

Stack::Usage Stack::usage() const {
  return {open_count_,
          vis_.used(),
          cqs_.used(),
          regions_.used(),
          ptags_.used(),
          peers_.used(),
          requests_.used(),
          goodbyes_.used(),
          root_->held,
          root_->connected,
          claims_.used(),
          members_.used()};
}

// ---------------------------------------------------------------------------- sessions

std::optional<std::uint32_t> Stack::open_session(void* segment) {
  for (std::uint32_t s = 0; s < limits_.sessions; ++s) {
    if (sessions_[s].in_use) continue;
    state::Session fresh{};
    fresh.in_use = 1;
    // The list of VIs that may send may still name some of the session that was here before.
    fresh.ready_head = sessions_[s].ready_head;
    fresh.ready_tail = sessions_[s].ready_tail;
    fresh.ready_next = sessions_[s].ready_next;
    fresh.ready_listed = sessions_[s].ready_listed;
    sessions_[s] = fresh;
    for (std::uint32_t& program : sessions_[s].programs) program = kNone;
    begin_program(s, s, 0);
    auto* header = new (segment) layout::Header{};
    header->magic = layout::kMagic;
    header->version = layout::kLayoutVersion;
    header->capacity = capacity();
    header->bytes = layout::Offsets(header->capacity).total;
    views_[s] = layout::View(segment, header->capacity);
    for (std::uint32_t c = 0; c < layout::kCommands; ++c) pending(s, c).op = layout::Op::kNone;
    open_sessions_[open_count_++] = s;
    return s;
  }
  return std::nullopt;
}

void Stack::close_session(std::uint32_t session, std::uint64_t now) {
  now_ = now;
  for (std::uint32_t c = 0; c < layout::kCommands; ++c) {
    if (pending(session, c).op != layout::Op::kNone) {
      cancel_command(session, c, vip::kErrorResource);
    }
  }
  drop_requests(session, kNone);
  const state::Session& held = sessions_[session];
  for (std::uint32_t i = 0; held.vis > 0 && i < vis_.fresh(); ++i) {
    if (vis_[i].session != session) continue;
    end_connection(i, End::kGone, 0);
    free_vi(i);
  }
  for (std::uint32_t i = 0; held.cqs > 0 && i < cqs_.fresh(); ++i) {
    if (cqs_[i].session == session) free_cq(i);
  }
  for (std::uint32_t i = 0; held.regions > 0 && i < regions_.fresh(); ++i) {
    if (regions_[i].handle != 0 && programs_[regions_[i].program].session == session) {
      free_region(regions_[i]);
    }
  }
  for (std::uint32_t i = 0; i < ptags_.fresh(); ++i) {
    if (ptags_[i].session != session) continue;
    ptags_[i].session = kNone;
    ptags_.give(i);
  }
  for (std::uint32_t i = 0; held.claims > 0 && i < claims_.fresh(); ++i) {
    if (claims_[i].session == session) free_claim(claims_[i]);
  }
  flush_wakes();
  port_.flush();
  for (std::uint32_t p = 0; members_.used() > 0 && p < members_.fresh(); ++p) {
    if (members_[p].session != session) continue;
    members_[p].session = kNone;
    views_[limits_.sessions + p] = layout::View();
    members_.give(p);
  }
  programs_[session].session = kNone;
  if (sessions_[session].delegated) --root_->delegates;
  views_[session] = layout::View();
  sessions_[session].in_use = 0;
  std::uint32_t* const open = std::find(open_sessions_, open_sessions_ + open_count_, session);
  --open_count_;
  std::memmove(open, open + 1, (open_sessions_ + open_count_ - open) * sizeof *open);
}

// ---------------------------------------------------------------------------- progress

unsigned Stack::progress(std::uint64_t now) {
  now_ = now;
  unsigned work = receive_frames();
  if (environment_.late != 0) [[unlikely]] work += complete_late();
  const bool more_waits = work == kBurst;
  work += answer_doorbells();
  work += transmit_ready();
  work += send_due_acks();
  // Not before everything that has arrived was looked at: it may be what a timer waits for.
  if (!more_waits) {
    wheel_.advance(now, [this, &work](std::uint32_t timer) {
      fire(timer);
      ++work;
    });
  }
  if (submitted_) {
    port_.flush();
    submitted_ = false;
  }
  if (release_count_ != 0) release_all();
  flush_wakes();
  return work;
}

unsigned Stack::receive_frames() {
  const std::size_t count = port_.receive(burst_);
  for (std::size_t i = 0; i < count; ++i) {
    bool keep = false;
    if (i + 1 < count) __builtin_prefetch(burst_[i + 1].data);
    dispatch(burst_[i], keep);
    if (!keep) release_later(burst_[i]);
  }
  if (count != 0) flush_placement();
  return static_cast<unsigned>(count);
}

// The frame is looked at no more, but data in it may still be on its way to a program.
void Stack::release_later(const Frame& frame) {
  if (release_count_ == kMaxReleases) [[unlikely]] {
    flush_placement();
    release_all();
  }
  to_release_[release_count_++] = frame;
}

void Stack::release_all() {
  if (release_count_ != 0) port_.release({to_release_, release_count_});
  release_count_ = 0;
}

void Stack::dispatch(const Frame& frame, bool& keep) {
  StackCounters& count = root_->counters;
  wire::Decoded decoded;
  switch (wire::decode({frame.data, frame.length}, decoded)) {
    case wire::Malformed::kNone: break;
    case wire::Malformed::kShort: ++count.drop_short; return;
    case wire::Malformed::kVersion: ++count.drop_version; return;
    case wire::Malformed::kType: ++count.drop_type; return;
    case wire::Malformed::kLength: ++count.drop_length; return;
  }
  if (!wire::intact({frame.data, frame.length}, decoded)) [[unlikely]] {
    ++count.drop_checksum;
    return;
  }
  const bool for_us = decoded.destination == address_;
  if (!for_us && decoded.header.type != wire::Type::kNameQuery) {
    ++count.drop_destination;
    return;
  }
  switch (decoded.header.type) {
    case wire::Type::kData: return on_data(decoded, frame, keep);
    case wire::Type::kAck: return on_ack(decoded);
    case wire::Type::kConnectRequest: return on_connect_request(decoded);
    case wire::Type::kConnectAccept: return on_connect_accept(decoded);
    case wire::Type::kConnectConfirm: return on_connect_confirm(decoded);
    case wire::Type::kConnectMoved:
    case wire::Type::kConnectReject:
    case wire::Type::kConnectHeld: return on_connect_answer(decoded);
    case wire::Type::kDisconnect: return on_disconnect(decoded);
    case wire::Type::kDisconnectAck: return on_disconnect_ack(decoded);
    case wire::Type::kProbe:
    case wire::Type::kProbeAck: return on_probe(decoded);
    case wire::Type::kReset: return on_reset(decoded);
    case wire::Type::kNameQuery: return on_name_query(decoded);
    case wire::Type::kNameReply: return on_name_reply(decoded);
    case wire::Type::kClaimQuery: return on_claim_query(decoded);
    case wire::Type::kClaimReply: return on_claim_reply(decoded);
    case wire::Type::kStoppedQuery: return on_stopped_query(decoded);
    case wire::Type::kStoppedReply: return on_stopped_reply(decoded);
    default: ++count.drop_type; return;
  }
}

// The VI that a frame of an established connection belongs to. This is where VI index and key from
// the wire are judged.
Vi* Stack::vi_for(const wire::Decoded& frame, bool pending_too) {
  StackCounters& count = root_->counters;
  const wire::Header& header = frame.header;
  if (header.vi >= vis_.fresh()) {
    ++count.drop_unknown_vi;
    return nullptr;
  }
  Vi& vi = vis_[header.vi];
  const bool pending =
      vi.state == vip::kConnectPending && (vi.accepting || vi.peer_linked) && pending_too;
  if (vi.session == kNone || (vi.state != vip::kConnected && !pending)) {
    ++count.drop_unknown_vi;
    return nullptr;
  }
  if (vi.local_key != header.key) {
    ++count.drop_wrong_key;
    return nullptr;
  }
  if (vi.peer_address != frame.source) {
    ++count.drop_wrong_source;
    return nullptr;
  }
  peers_[vi.peer].last_heard = now_;
  return &vi;
}

// One program's doorbells must not hold up the others: each session has its credit for a round, and
// what that does not suffice for stays rung.
unsigned Stack::answer_doorbells() {
  unsigned work = 0;
  for (std::uint32_t i = 0; i < open_count_; ++i) {
    const std::uint32_t session = open_sessions_[i];
    layout::Doorbells& bells = views_[session].header().doorbells;
    if (!bells.any()) continue;
    state::Session& owner = sessions_[session];
    credit_ = std::min(owner.credit + kRoundCredit, kRoundCredit);
    if (credit_ > 0) {
      bells.answer_some(owner.bell_from, [this, session](std::uint32_t bit) {
        --credit_;
        rung(session, bit);
        return credit_ > 0;
      });
    }
    owner.credit = credit_;
    ++work;
  }
  return work;
}

void Stack::rung(std::uint32_t session, std::uint32_t bit) {
  if (bit < layout::kCommands) {
    run_command(session, bit);
  } else if (bit - layout::kCommands < limits_.vis) {
    const ViIndex vi = bit - layout::kCommands;
    if (vi < vis_.fresh() && vis_[vi].session == session) ring_send(vi);
  } else if (bit - layout::kCommands - limits_.vis < cqs_.fresh()) {
    const std::uint32_t cq = bit - layout::kCommands - limits_.vis;
    if (cqs_[cq].session == session) drain_backlog(cq);
  } else if (bit == layout::kNoticeBit && sessions_[session].delegated) {
    move_held_requests();
  }
}

void Stack::fire(std::uint32_t timer) {
  if (timer < limits_.vis) {
    if (vis_[timer].state == vip::kConnected) {
      retransmission_timeout(timer);
    } else {
      attempt_timeout(timer);
    }
    return;
  }
  timer -= limits_.vis;
  if (timer < limits_.requests) return request_timeout(timer);
  timer -= limits_.requests;
  if (timer < limits_.goodbyes) return goodbye_timeout(timer);
  timer -= limits_.goodbyes;
  if (timer < limits_.peers) return peer_timeout(timer);
  timer -= limits_.peers;
  if (timer == limits_.sessions * layout::kCommands) return move_held_requests();
  command_timeout(timer / layout::kCommands, timer % layout::kCommands);
}

// ---------------------------------------------------------------------------- sleeping and waking

// A completion is stored first and the sleepers' word is looked at later, with one fence for the
// whole round in between; a program does the same two steps the other way round.
void Stack::wake_later(std::uint32_t program, std::atomic<std::uint32_t>& sleepers) {
  if (wake_count_ != 0 && wakes_[wake_count_ - 1].word == &sleepers) return;
  if (wake_count_ == kMaxWakes) flush_wakes();
  wakes_[wake_count_++] = {&sleepers, program};
}

void Stack::flush_wakes() {
  if (wake_count_ == 0) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Wake& wake : std::span(wakes_, wake_count_)) {
    const std::uint32_t who = layout::take_waiting(*wake.word);
    if (who & layout::kSleeper) environment_.wake(*wake.word);
    if (who & layout::kCaller) alert(wake.program);
    if (who & layout::kPoller) environment_.chime(wake.program);
  }
  wake_count_ = 0;
}

// For the program's thread that calls handlers.
void Stack::alert(std::uint32_t program) {
  const state::Program& alerted = programs_[program];
  std::atomic<std::uint32_t>& word = views_[alerted.session].alert(alerted.member);
  if (word.exchange(1) == 0) environment_.wake(word);
}

bool Stack::prepare_to_sleep() {
  if (root_->ready_head != kNone) return false;
  for (const std::uint32_t s : std::span(open_sessions_, open_count_)) {
    views_[s].header().driver_sleeps.store(1);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const std::uint32_t s : std::span(open_sessions_, open_count_)) {
    if (!views_[s].header().doorbells.any()) continue;
    awake();
    return false;
  }
  return true;
}

void Stack::awake() {
  for (const std::uint32_t s : std::span(open_sessions_, open_count_)) {
    views_[s].header().driver_sleeps.store(0, std::memory_order_relaxed);
  }
}

std::uint64_t Stack::next_deadline() const {
  if (root_->ready_head != kNone) return 0;
  std::uint64_t earliest = wheel_.next();
  for (ViIndex vi = root_->ack_head; vi != kNone; vi = vis_[vi].ack_next) {
    earliest = std::min(earliest, vis_[vi].ack_deadline);
  }
  return earliest;
}

// ---------------------------------------------------------------------------- frames out

bool Stack::reserve_frame(Frame& frame) {
  if (port_.reserve({&frame, 1}) == 1) return true;
  ++root_->counters.tx_postponed;
  return false;
}

void Stack::submit_frame(Frame& frame, std::size_t length) {
  frame.length = static_cast<std::uint32_t>(length);
  port_.submit({&frame, 1});
  submitted_ = true;
}

void Stack::send_short(wire::Type type, const MacAddress& to, std::uint32_t vi, std::uint64_t key,
                       std::uint32_t psn, std::uint32_t ack, std::uint32_t immediate,
                       std::uint32_t offset) {
  Frame frame;
  if (!reserve_frame(frame)) return;
  wire::Header header{};
  header.type = type;
  header.vi = vi;
  header.key = key;
  header.psn = psn;
  header.ack = ack;
  header.immediate = immediate;
  header.offset = offset;
  submit_frame(frame, wire::encode(header, to, address_, ether_type_, frame.data));
}

}  // namespace viaduct
