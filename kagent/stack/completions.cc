#include "kagent/stack/completions.h"

#include <cstring>

namespace viaduct {

using layout::CommandBody;
using state::Vi;
using state::kNone;
using state::kNotListed;

template <class Platform>
vip::Return Completions<Platform>::create_cq(std::uint32_t program, CommandBody& body) {
  const std::uint32_t session = programs_[program].session;
  if (body.entries == 0) return vip::kInvalidParameter;
  if (body.entries > limits_.cq_entries) return vip::kErrorResource;
  const std::uint32_t i = cqs_.take();
  if (i == kNone) return vip::kErrorResource;
  const std::uint32_t generation = cqs_[i].generation + 1;
  cqs_[i] = {session, program, generation, body.entries, 0, 0, kNone, kNone, kNone};
  ++sessions_[session].cqs;
  layout::Cq& shared = views_[session].cq(i);
  shared.consumed.store(0, std::memory_order_relaxed);
  shared.starved.store(0, std::memory_order_relaxed);
  shared.generation.store(generation, std::memory_order_release);
  body.handle = i;
  body.generation = generation;
  return vip::kSuccess;
}

// The ring is as large as it can be from the start, so resizing only changes what was asked for.
template <class Platform>
vip::Return Completions<Platform>::resize_cq(std::uint32_t session, const CommandBody& body) {
  state::Cq* cq = find_cq(session, body.handle, body.generation);
  if (cq == nullptr || body.entries == 0) return vip::kInvalidParameter;
  if (body.entries > limits_.cq_entries) return vip::kErrorResource;
  cq->entries = body.entries;
  return vip::kSuccess;
}

template <class Platform>
vip::Return Completions<Platform>::destroy_cq(std::uint32_t session, const CommandBody& body) {
  const state::Cq* cq = find_cq(session, body.handle, body.generation);
  if (cq == nullptr) return vip::kInvalidParameter;
  if (cq->users != 0) return vip::kErrorResource;
  free_cq(body.handle);
  return vip::kSuccess;
}

template <class Platform>
void Completions<Platform>::free_cq(std::uint32_t i) {
  state::Cq& cq = cqs_[i];
  layout::Cq& shared = views_[cq.session].cq(i);
  shared.generation.store(cq.generation + 1, std::memory_order_release);
  wakeups_.wake_later(cq.program, shared.sleepers);
  --sessions_[cq.session].cqs;
  ++cq.generation;
  cq.session = kNone;
  cqs_.give(i);
}

template <class Platform>
state::Cq* Completions<Platform>::find_cq(std::uint32_t session, std::uint32_t i,
                                          std::uint32_t generation) const {
  if (i >= cqs_.fresh()) return nullptr;
  auto& cq = const_cast<state::Cq&>(cqs_[i]);
  const bool right = generation == 0 || cq.generation == generation;
  return cq.session == session && right ? &cq : nullptr;
}

// Completes the oldest descriptor of a work queue. The status goes last: it hands the slot back.
template <class Platform>
void Completions<Platform>::complete(ViIndex i, bool receive, std::uint32_t slot, std::uint32_t status,
                                     std::uint32_t length, std::uint32_t immediate,
                                     std::uint32_t inline_length) {
  if (environment_.late != 0 && receive) [[unlikely]] {
    return complete_late(i, slot, status, length, immediate, inline_length);
  }
  publish(i, receive, slot, status, length, immediate, inline_length);
}

// Completes a receive while there are programs whose data may be late: for such a program the completion is deferred.
template <class Platform>
void Completions<Platform>::complete_late(ViIndex i, std::uint32_t slot, std::uint32_t status, std::uint32_t length,
                                          std::uint32_t immediate, std::uint32_t inline_length) {
  if (!environment_.is_late(vis_[i].program)) {
    return publish(i, true, slot, status, length, immediate, inline_length);
  }
  environment_.defer({i, vis_[i].generation, vis_[i].program, Platform::Environment::Late::What::kReceive, slot,
                      status, length, immediate, inline_length});
}

template <class Platform>
void Completions<Platform>::publish(ViIndex i, bool receive, std::uint32_t slot, std::uint32_t status,
                                    std::uint32_t length, std::uint32_t immediate,
                                    std::uint32_t inline_length) {
  Vi& vi = vis_[i];
  state::WorkQueue& queue = receive ? vi.rx.receive : vi.tx.send;
  layout::SlotCompletion& completion = view(vi).slot(slot).completion;
  completion.length = length;
  completion.immediate = immediate;
  completion.inline_length = inline_length;
  completion.status.store(status | vip::kDone, std::memory_order_release);
  ++queue.completed;
  if (queue.cq != kNone) announce(i, receive);
  layout::Vi& shared = view(vi).vi(i);
  wakeups_.wake_later(vi.program, receive ? shared.receive.sleepers : shared.send.sleepers);
}

// Shows the work queue's unannounced completions on its CQ. True if there was room for all.
template <class Platform>
bool Completions<Platform>::show(ViIndex i, bool receive) {
  Vi& vi = vis_[i];
  state::WorkQueue& queue = receive ? vi.rx.receive : vi.tx.send;
  state::Cq& cq = cqs_[queue.cq];
  layout::Cq& shared = view(vi).cq(queue.cq);
  layout::CqEntry* ring = view(vi).cq_ring(queue.cq);
  while (queue.announced != queue.completed &&
         cq.tail - shared.consumed.load(std::memory_order_acquire) < layout::kCqRingEntries) {
    layout::CqEntry& entry = ring[cq.tail % layout::kCqRingEntries];
    entry.vi = i;
    entry.vi_generation = vi.generation;
    entry.sequence = queue.announced++;
    entry.receive = receive;
    entry.tag.store(layout::cq_tag(cq.tail, cq.generation), std::memory_order_release);
    ++cq.tail;
  }
  wakeups_.wake_later(vi.program, shared.sleepers);
  return queue.announced == queue.completed;
}

// Shows the queue's completions, or puts the queue in the CQ's backlog when there is no room (or other queues wait
// there already).
template <class Platform>
void Completions<Platform>::announce(ViIndex i, bool receive) {
  Vi& vi = vis_[i];
  state::WorkQueue& queue = receive ? vi.rx.receive : vi.tx.send;
  if (queue.backlog_next != kNotListed) return;
  state::Cq& cq = cqs_[queue.cq];
  if (cq.backlog_head == kNone && show(i, receive)) return;
  const std::uint32_t listed = i * 2 + (receive ? 1 : 0);
  queue.backlog_next = kNone;
  queue.backlog_previous = cq.backlog_tail;
  (cq.backlog_head == kNone ? cq.backlog_head : listed_queue(cq.backlog_tail).backlog_next) = listed;
  cq.backlog_tail = listed;
  ++root_->counters.cq_overflows;
  await_room(queue.cq);
}

template <class Platform>
void Completions<Platform>::await_room(std::uint32_t c) {
  state::Cq& cq = cqs_[c];
  layout::Cq& shared = views_[cq.session].cq(c);
  shared.starved.store(1);
  // The program may have made room just before it could see `starved`, and so not ring: looks again next round.
  if (cq.tail - shared.consumed.load() < layout::kCqRingEntries) {
    views_[cq.session].header().doorbells.ring(layout::cq_bit(capacity(), c));
  }
}

template <class Platform>
void Completions<Platform>::drain_backlog(std::uint32_t c) {
  state::Cq& cq = cqs_[c];
  if (cq.backlog_head == kNone) return;
  views_[cq.session].cq(c).starved.store(0);
  while (cq.backlog_head != kNone && budget_.left()) {
    const std::uint32_t listed = cq.backlog_head;
    const std::uint32_t tail = cq.tail;
    const bool all = show(listed / 2, listed % 2 != 0);
    budget_.charge(1 + cq.tail - tail);
    if (!all) break;
    leave_backlog(listed / 2, listed % 2 != 0);
  }
  if (cq.backlog_head != kNone) await_room(c);
}

template <class Platform>
void Completions<Platform>::leave_backlog(ViIndex i, bool receive) {
  state::WorkQueue& queue = listed_queue(i * 2 + (receive ? 1 : 0));
  if (queue.backlog_next == kNotListed || queue.cq == kNone) return;
  state::Cq& cq = cqs_[queue.cq];
  const std::uint32_t next = queue.backlog_next, previous = queue.backlog_previous;
  (previous == kNone ? cq.backlog_head : listed_queue(previous).backlog_next) = next;
  (next == kNone ? cq.backlog_tail : listed_queue(next).backlog_previous) = previous;
  queue.backlog_next = kNotListed;
}

template <class Platform>
void Completions<Platform>::report(ViIndex i, std::uint32_t error, const Blame& blame) {
  state::Program& program = programs_[vis_[i].program];
  layout::Errors& errors = views_[program.session].errors(program.member);
  if (errors.wanted.load(std::memory_order_relaxed) == 0) return;
  std::uint32_t& position = program.errors;
  if (position - errors.taken.load(std::memory_order_acquire) >= layout::kErrorEvents) {
    ++root_->counters.error_events_lost;
    return;
  }
  layout::ErrorEvent& event = errors.events[position % layout::kErrorEvents];
  event.vi = i;
  event.vi_generation = vis_[i].generation;
  event.descriptor = blame.descriptor;
  event.resource = blame.descriptor != 0 ? vip::kResourceDescriptor : vip::kResourceVi;
  event.code = static_cast<std::uint8_t>(error);
  event.op = static_cast<std::uint8_t>(blame.op);
  event.flags = blame.flags;
  event.number.store(++position, std::memory_order_release);
  wakeups_.alert(vis_[i].program);
}

// Completes posted descriptors as flushed, in order: all that have been begun, and of the others at most `most` on
// each queue. If others are left, rings the VI's doorbell, so that a later round flushes them.
template <class Platform>
void Completions<Platform>::flush_queues(ViIndex i, std::uint32_t most) {
  flush_sends(i, most);
  flush_receives(i, most);
}

template <class Platform>
void Completions<Platform>::flush_sends(ViIndex i, std::uint32_t most) {
  Vi& vi = vis_[i];
  const layout::RingEntry* ring = view(vi).send_ring(i);
  while (vi.tx.send.completed != vi.tx.send.taken) {
    const state::InFlight& message = in_flight(i, vi.tx.send.completed);
    std::uint32_t status =
        message.slot == vi.tx.failed_slot ? vi.tx.failed_status : std::uint32_t{vip::kFlushedError};
    if (message.slot == vi.tx.current_slot && vi.tx.current_sent != 0) status |= vip::kPartialError;
    complete(i, false, message.slot, status | vip::status_op(message.op), message.length, 0, 0);
  }
  vi.tx.current_slot = kNone;
  std::uint32_t slot = kNone, flushed = 0;
  for (; flushed < most && next_posted(vi, ring, vi.tx.send.taken, slot); ++flushed) {
    ++vi.tx.send.taken;
    const std::uint16_t op = view(vi).slot(slot).request.op;
    complete(i, false, slot, vip::kFlushedError | vip::status_op(op), 0, 0, 0);
  }
  charge_flushed(i, flushed, most);
}

template <class Platform>
void Completions<Platform>::flush_receives(ViIndex i, std::uint32_t most) {
  Vi& vi = vis_[i];
  const layout::RingEntry* ring = view(vi).receive_ring(i);
  if (vi.rx.redirect == state::Redirect::kPending) vi.rx.redirect = state::Redirect::kNone;
  const std::uint32_t lost = vi.rx.missing != 0 ? vip::kTransportError : 0u;
  if (vi.rx.receive_slot != kNone) {
    const bool partial = vi.rx.in_message != 0 && vi.rx.message_received != 0;
    const std::uint32_t status = vip::kFlushedError | lost | (partial ? vip::kPartialError : 0u);
    complete(i, true, vi.rx.receive_slot, status | vip::kOpReceive, 0, 0, 0);
    vi.rx.receive_slot = kNone;
  }
  std::uint32_t slot = kNone, flushed = 0;
  for (; flushed < most && next_posted(vi, ring, vi.rx.receive.taken, slot); ++flushed) {
    ++vi.rx.receive.taken;
    complete(i, true, slot, vip::kFlushedError | lost | vip::kOpReceive, 0, 0, 0);
  }
  charge_flushed(i, flushed, most);
}

template <class Platform>
void Completions<Platform>::charge_flushed(ViIndex i, std::uint32_t flushed, std::uint32_t most) {
  budget_.charge(flushed);
  if (flushed == most) view(vis_[i]).header().doorbells.ring(layout::vi_bit(i));
}

}  // namespace viaduct
