#include "kagent/stack/virtual_interfaces.h"

#include <cstring>

#include "kagent/stack/congestion.h"
#include "kagent/stack/delay.h"

namespace viaduct {

using layout::CommandBody;
using state::Vi;
using state::kNone;

template <class Platform>
vip::Return VirtualInterfaces<Platform>::check_attributes(
    std::uint32_t session, const layout::ViAttributes& attributes) const {
  const std::uint32_t level = attributes.reliability;
  if (level != vip::kUnreliable && level != vip::kReliableDelivery &&
      level != vip::kReliableReception) {
    return vip::kInvalidReliabilityLevel;
  }
  if (attributes.max_transfer > limits_.max_transfer) return vip::kInvalidMtu;
  if (attributes.ptag != 0 && memory_table_.find_ptag(session, attributes.ptag) == nullptr) {
    return vip::kInvalidPtag;
  }
  if (attributes.enable_read && level == vip::kUnreliable) return vip::kInvalidRdmaRead;
  return vip::kSuccess;
}

template <class Platform>
vip::Return VirtualInterfaces<Platform>::create_vi(std::uint32_t program, CommandBody& body) {
  const std::uint32_t session = programs_[program].session;
  const vip::Return judged = check_attributes(session, body.vi_attributes);
  if (judged != vip::kSuccess) return judged;
  for (const std::uint32_t cq : {body.send_cq, body.receive_cq}) {
    if (cq == 0) continue;
    const state::Cq* const its = completions_.find_cq(session, cq - 1, 0);
    if (its == nullptr || its->program != program) return vip::kInvalidParameter;
  }
  if (!environment_.charge(session, Quota::kVis, 1)) return vip::kErrorResource;
  const std::uint32_t i = vis_.take();
  if (i == kNone) {
    environment_.charge(session, Quota::kVis, -1);
    return vip::kErrorResource;
  }
  const std::uint32_t generation = vis_[i].generation + 1;
  Vi& vi = vis_[i];
  Vi blank{};
  // The to-do lists may still name the VI that was here before, so its links stay.
  blank.tx.listed = vi.tx.listed;
  blank.tx.ready_next = vi.tx.ready_next;
  blank.ack.ack_next = vi.ack.ack_next;
  vi = blank;
  vi.session = session;
  vi.program = program;
  vi.generation = generation;
  vi.ptag = body.vi_attributes.ptag;
  vi.max_transfer = body.vi_attributes.max_transfer;
  vi.reliability = static_cast<std::uint16_t>(body.vi_attributes.reliability);
  vi.enable_write = body.vi_attributes.enable_write != 0;
  vi.enable_read = body.vi_attributes.enable_read != 0;
  vi.link.peer = kNone;
  vi.link.command = kNone;
  for (state::WorkQueue* queue : {&vi.tx.send, &vi.rx.receive}) {
    const std::uint32_t cq = queue == &vi.tx.send ? body.send_cq : body.receive_cq;
    queue->cq = cq == 0 ? kNone : cq - 1;
    queue->backlog_next = state::kNotListed;
    if (queue->cq != kNone) ++cqs_[queue->cq].users;
  }
  reset_transfer(i);
  memory_table_.hold_ptag(session, vi.ptag, +1);
  ++sessions_[session].vis;
  layout::ViStatus& status = views_[session].vi(i).status;
  status.error.store(0, std::memory_order_relaxed);
  status.generation.store(generation, std::memory_order_relaxed);
  set_state(i, vip::kIdle);
  body.vi = i;
  body.generation = generation;
  return vip::kSuccess;
}

template <class Platform>
vip::Return VirtualInterfaces<Platform>::set_vi(std::uint32_t session, const CommandBody& body) {
  Vi* vi = find_vi(session, body.vi, body.generation);
  if (vi == nullptr) return vip::kInvalidParameter;
  if (vi->state != vip::kIdle) return vip::kInvalidState;
  const vip::Return judged = check_attributes(session, body.vi_attributes);
  if (judged != vip::kSuccess) return judged;
  memory_table_.hold_ptag(session, body.vi_attributes.ptag, +1);
  memory_table_.hold_ptag(session, vi->ptag, -1);
  vi->ptag = body.vi_attributes.ptag;
  vi->max_transfer = body.vi_attributes.max_transfer;
  vi->reliability = static_cast<std::uint16_t>(body.vi_attributes.reliability);
  vi->enable_write = body.vi_attributes.enable_write != 0;
  vi->enable_read = body.vi_attributes.enable_read != 0;
  return vip::kSuccess;
}

template <class Platform>
vip::Return VirtualInterfaces<Platform>::destroy_vi(std::uint32_t session, const CommandBody& body) {
  const Vi* vi = find_vi(session, body.vi, body.generation);
  if (vi == nullptr) return vip::kInvalidParameter;
  if (vi->state != vip::kIdle) return vip::kInvalidState;
  free_vi(body.vi);
  return vip::kSuccess;
}

template <class Platform>
void VirtualInterfaces<Platform>::free_vi(ViIndex i) {
  Vi& vi = vis_[i];
  completions_.leave_backlog(i, false);
  completions_.leave_backlog(i, true);
  for (const state::WorkQueue* queue : {&vi.tx.send, &vi.rx.receive}) {
    if (queue->cq != kNone) --cqs_[queue->cq].users;
  }
  layout::Vi& shared = view(vi).vi(i);
  shared.status.generation.store(vi.generation + 1, std::memory_order_release);
  wakeups_.wake_later(vi.program, shared.send.sleepers);
  wakeups_.wake_later(vi.program, shared.receive.sleepers);
  memory_table_.hold_ptag(vi.session, vi.ptag, -1);
  --sessions_[vi.session].vis;
  environment_.charge(vi.session, Quota::kVis, -1);
  ++vi.generation;
  vi.session = kNone;
  vis_.give(i);
}

template <class Platform>
void VirtualInterfaces<Platform>::set_state(ViIndex i, vip::State to) {
  Vi& vi = vis_[i];
  const int change = (to == vip::kConnected) - (vi.state == vip::kConnected);
  root_->connected += static_cast<std::uint32_t>(change);
  if (change != 0 && vi.reliability == vip::kUnreliable) {
    credit_grants_.share_standing_credit(change);
  }
  vi.state = to;
  view(vi).vi(i).status.state.store(to, std::memory_order_release);
}

template <class Platform>
void VirtualInterfaces<Platform>::reset_transfer(ViIndex i) {
  receiver_.drop_held(i);
  Vi& vi = vis_[i];
  vi.tx.current_slot = kNone;
  vi.tx.stalled = 0;
  congestion::begin_window(vi);
  delay::begin(vi, delay(i));
  vi.tx.peer_window = state::kWindow;
  vi.tx.resends = vi.tx.resends_delivered = 0;
  vi.tx.sacked.clear();
  vi.tx.lost.clear();
  vi.tx.resent.clear();
  vi.rx.received.clear();
  vi.tx.sample_time = 0;
  vi.tx.timeouts = 0;
  vi.tx.smoothed_rtt = 0;
  vi.tx.rtt_variation = 0;
  vi.tx.least_rtt = 0;
  vi.tx.longest_rtt = 0;
  vi.tx.tail_probes = 0;
  vi.tx.sent_time = vi.tx.progress_time = now_;
  vi.tx.reads = 0;
  vi.tx.response_first = vi.tx.response_next = vi.tx.response_begun = 0;
  vi.rx.receive_slot = kNone;
  vi.tx.failed_slot = kNone;
  vi.rx.in_message = 0;
  vi.rx.missing = 0;
  if (vi.rx.redirect == state::Redirect::kPending) vi.rx.redirect = state::Redirect::kNone;
  vi.ack.reply_score = 0;
  vi.ack.reply_wait = kAckDelay;
  vi.ack.unacknowledged = 0;
  vi.ack.ack_now = 0;
  vi.ack.ack_gap = 0;
  vi.ack.replied = 0;
  vi.ack.ack_time = 0;
  vi.ack.acked_at = 0;
}

}  // namespace viaduct
