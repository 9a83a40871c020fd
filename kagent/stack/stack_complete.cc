// Completions: writing them into slots, announcing them on completion queues, flushing queues.
#include <cstring>

#include "kagent/stack/stack.h"

namespace viaduct {

using state::kNone;
using state::kNotListed;
using state::Vi;

// Completes the oldest descriptor of a work queue. The status goes last: it hands the slot back.
void Stack::complete(ViIndex i, bool receive, std::uint32_t slot, std::uint32_t status,
                     std::uint32_t length, std::uint32_t immediate, std::uint32_t inline_length) {
  if (environment_.late != 0 && receive) [[unlikely]] {
    if (environment_.is_late(vis_[i].program)) {
      return environment_.defer({i, vis_[i].generation, vis_[i].program,
                                 StackEnvironment::Late::What::kReceive, slot, status, length,
                                 immediate, inline_length});
    }
  }
  publish(i, receive, slot, status, length, immediate, inline_length);
}

// What was deferred until data had been written, or could not be.
[[gnu::noinline, gnu::cold]] unsigned Stack::complete_late() {
  unsigned work = 0;
  StackEnvironment::Late late;
  bool failed = false;
  for (; environment_.take_due(late, failed); ++work) {
    Vi& vi = vis_[late.vi];
    if (vi.session == kNone || vi.generation != late.generation) continue;
    if (late.what == StackEnvironment::Late::What::kSend) {
      make_ready(late.vi);
      continue;
    }
    if (late.what == StackEnvironment::Late::What::kReceive) {
      const std::uint32_t status =
          failed ? std::uint32_t{vip::kProtectionError} | vip::kOpReceive : late.status;
      publish(late.vi, true, late.slot, status, failed ? 0 : late.length, late.immediate,
              late.inline_length);
      if (!failed || vi.reliability == vip::kUnreliable || vi.state != vip::kConnected) continue;
      end_connection(late.vi, End::kFailed, vip::kConnectionLost, vi.receive_next,
                     static_cast<std::uint32_t>(wire::Refusal::kDescriptor));
      continue;
    }
    // Flushed meanwhile, if the connection has ended.
    const std::uint32_t position = late.slot;
    if (position - vi.send.completed >= vi.send.taken - vi.send.completed) continue;
    state::InFlight& read = in_flight(late.vi, position);
    if (failed) {
      fail_current(late.vi, read.slot, vip::kProtectionError);
    } else {
      finish_read(late.vi, read);
    }
  }
  return work;
}

void Stack::publish(ViIndex i, bool receive, std::uint32_t slot, std::uint32_t status,
                    std::uint32_t length, std::uint32_t immediate, std::uint32_t inline_length) {
  Vi& vi = vis_[i];
  state::WorkQueue& queue = receive ? vi.receive : vi.send;
  layout::SlotCompletion& completion = view(vi).slot(slot).completion;
  completion.length = length;
  completion.immediate = immediate;
  completion.inline_length = inline_length;
  completion.status.store(status | vip::kDone, std::memory_order_release);
  ++queue.completed;
  if (queue.cq != kNone) announce(i, receive);
  layout::Vi& shared = view(vi).vi(i);
  wake_later(vi.program, receive ? shared.receive.sleepers : shared.send.sleepers);
}

// Shows the work queue's unannounced completions on its CQ. True if there was room for all.
bool Stack::show(ViIndex i, bool receive) {
  Vi& vi = vis_[i];
  state::WorkQueue& queue = receive ? vi.receive : vi.send;
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
  wake_later(vi.program, shared.sleepers);
  return queue.announced == queue.completed;
}

// Shows them, or puts the queue in the CQ's backlog when there is no room (or others wait there
// already).
void Stack::announce(ViIndex i, bool receive) {
  Vi& vi = vis_[i];
  state::WorkQueue& queue = receive ? vi.receive : vi.send;
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

void Stack::await_room(std::uint32_t c) {
  state::Cq& cq = cqs_[c];
  layout::Cq& shared = views_[cq.session].cq(c);
  shared.starved.store(1);
  // The client may have made room just before it could see that we starve: look again next round.
  if (cq.tail - shared.consumed.load() < layout::kCqRingEntries) {
    views_[cq.session].header().doorbells.ring(layout::cq_bit(capacity(), c));
  }
}

void Stack::drain_backlog(std::uint32_t c) {
  state::Cq& cq = cqs_[c];
  if (cq.backlog_head == kNone) return;
  views_[cq.session].cq(c).starved.store(0);
  while (cq.backlog_head != kNone && credit_ > 0) {
    const std::uint32_t listed = cq.backlog_head;
    const std::uint32_t tail = cq.tail;
    const bool all = show(listed / 2, listed % 2 != 0);
    credit_ -= static_cast<std::int32_t>(1 + cq.tail - tail);
    if (!all) break;
    leave_backlog(listed / 2, listed % 2 != 0);
  }
  if (cq.backlog_head != kNone) await_room(c);
}

void Stack::leave_backlog(ViIndex i, bool receive) {
  state::WorkQueue& queue = listed_queue(i * 2 + (receive ? 1 : 0));
  if (queue.backlog_next == kNotListed || queue.cq == kNone) return;
  state::Cq& cq = cqs_[queue.cq];
  const std::uint32_t next = queue.backlog_next, previous = queue.backlog_previous;
  (previous == kNone ? cq.backlog_head : listed_queue(previous).backlog_next) = next;
  (next == kNone ? cq.backlog_tail : listed_queue(next).backlog_previous) = previous;
  queue.backlog_next = kNotListed;
}

void Stack::report(ViIndex i, std::uint32_t error, const Blame& blame) {
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
  alert(vis_[i].program);
}

// Completes as flushed what is posted, in order: all that has been begun, of the rest at most `most` on
// each queue. What is left then is announced by the doorbell.
void Stack::flush_queues(ViIndex i, std::uint32_t most) {
  flush_sends(i, most);
  flush_receives(i, most);
}

void Stack::flush_sends(ViIndex i, std::uint32_t most) {
  Vi& vi = vis_[i];
  const layout::RingEntry* ring = view(vi).send_ring(i);
  while (vi.send.completed != vi.send.taken) {
    const state::InFlight& message = in_flight(i, vi.send.completed);
    std::uint32_t status =
        message.slot == vi.failed_slot ? vi.failed_status : std::uint32_t{vip::kFlushedError};
    if (message.slot == vi.current_slot && vi.current_sent != 0) status |= vip::kPartialError;
    complete(i, false, message.slot, status | vip::status_op(message.op), message.length, 0, 0);
  }
  vi.current_slot = kNone;
  std::uint32_t slot = kNone, flushed = 0;
  for (; flushed < most && next_posted(vi, ring, vi.send.taken, slot); ++flushed) {
    ++vi.send.taken;
    const std::uint16_t op = view(vi).slot(slot).request.op;
    complete(i, false, slot, vip::kFlushedError | vip::status_op(op), 0, 0, 0);
  }
  charge_flushed(i, flushed, most);
}

void Stack::flush_receives(ViIndex i, std::uint32_t most) {
  Vi& vi = vis_[i];
  const layout::RingEntry* ring = view(vi).receive_ring(i);
  if (vi.divert == state::Divert::kPending) vi.divert = state::Divert::kNone;
  if (vi.receive_slot != kNone) {
    const bool partial = vi.in_message != 0 && vi.message_received != 0;
    const std::uint32_t status = vip::kFlushedError | (partial ? vip::kPartialError : 0u);
    complete(i, true, vi.receive_slot, status | vip::kOpReceive, 0, 0, 0);
    vi.receive_slot = kNone;
  }
  std::uint32_t slot = kNone, flushed = 0;
  for (; flushed < most && next_posted(vi, ring, vi.receive.taken, slot); ++flushed) {
    ++vi.receive.taken;
    complete(i, true, slot, vip::kFlushedError | vip::kOpReceive, 0, 0, 0);
  }
  charge_flushed(i, flushed, most);
}

void Stack::charge_flushed(ViIndex i, std::uint32_t flushed, std::uint32_t most) {
  credit_ -= static_cast<std::int32_t>(flushed);
  if (flushed == most) view(vis_[i]).header().doorbells.ring(layout::vi_bit(i));
}

}  // namespace viaduct
