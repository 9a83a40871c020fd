#include "kagent/stack/send_queue.h"

#include <algorithm>
#include <utility>

#include "kagent/stack/congestion.h"
#include "kagent/stack/segments.h"

namespace viaduct {

using state::Vi;
using state::kNone;
using state::kWindow;

namespace {

// Shorter messages arrive sooner by express.
constexpr std::uint32_t kTrainBytes = 8192;
constexpr std::uint32_t kLeastPayload = 512;  // of the link's frames

std::uint32_t count(const state::PsnSet& set) {
  std::uint32_t n = 0;
  for (const std::uint64_t word : set.words) n += static_cast<std::uint32_t>(__builtin_popcountll(word));
  return n;
}

}  // namespace

// Whether a message may share a frame. Not on Reliable Reception, where an acknowledgement says that one message is
// in memory.
template <class Platform>
bool SendQueue<Platform>::may_pack(const Vi& vi, const Message& message) const {
  return message.inline_data != nullptr && vi.reliability != vip::kReliableReception &&
         (message.flags & layout::kSlotFence) == 0 &&
         2 * wire::kPackedBytes + message.length <= vi.link.payload;
}

// Whether the message at a position of the send queue shared this frame with others.
template <class Platform>
bool SendQueue<Platform>::shares_frame(ViIndex i, std::uint32_t position, std::uint32_t psn) {
  return position != vis_[i].tx.send.taken && in_flight(i, position).first_psn == psn &&
         in_flight(i, position).frames == 1;
}

template <class Platform>
void SendQueue<Platform>::make_ready(ViIndex i) {
  Vi& vi = vis_[i];
  vi.tx.stalled = 0;
  if (vi.tx.listed & state::kOnReadyList) return;
  vi.tx.listed |= state::kOnReadyList;
  vi.tx.ready_next = kNone;
  state::Session& session = sessions_[vi.session];
  (session.ready_head == kNone ? session.ready_head : vis_[session.ready_tail].tx.ready_next) = i;
  session.ready_tail = i;
  list_ready(vi.session);
}

template <class Platform>
void SendQueue<Platform>::list_ready(std::uint32_t s) {
  state::Session& session = sessions_[s];
  if (session.ready_listed) return;
  session.ready_listed = 1;
  session.ready_next = kNone;
  (root_->ready_head == kNone ? root_->ready_head : sessions_[root_->ready_tail].ready_next) = s;
  root_->ready_tail = s;
}

// Frames that may be sent now.
template <class Platform>
std::uint32_t SendQueue<Platform>::send_room(const Vi& vi) const {
  const std::uint32_t outstanding = vi.tx.send_next - vi.tx.send_una;
  if (vi.reliability == vip::kUnreliable) {
    if (vi.link.credit == 0) return kWindow;
    return vi.tx.peer_window > outstanding ? vi.tx.peer_window - outstanding : 0;
  }
  std::uint32_t in_network = outstanding;
  std::uint32_t window = vi.tx.congestion_window;
  if (!vi.tx.sacked.empty()) {
    in_network -= count(vi.tx.sacked);
    window = congestion::window_behind_gap(vi);
  }
  if (!vi.tx.lost.empty()) in_network -= count(vi.tx.lost);
  const std::uint32_t by_peer = std::max<std::uint32_t>(vi.tx.peer_window, 1);
  window = std::min(window, by_peer);
  const std::uint32_t by_window = window > in_network ? window - in_network : 0;
  return std::min(by_window, kWindow - outstanding);
}

// Whether another message waits behind the current one.
template <class Platform>
bool SendQueue<Platform>::more_to_send(ViIndex i) const {
  const Vi& vi = vis_[i];
  std::uint32_t slot;
  return vi.tx.response_begun != vi.tx.response_next ||
         next_posted(vi, view(vi).send_ring(i), vi.tx.send.taken, slot);
}

// Bytes of payload in each frame of a message. A message that fits in one frame goes in one, whatever path it takes.
template <class Platform>
std::uint32_t SendQueue<Platform>::payload_for(ViIndex i, const Message& message) {
  const std::uint32_t payload = vis_[i].link.payload;
  return message.stream() + wire::kLessByTrain <= payload ? payload : payload_of_long(i, message);
}

template <class Platform>
std::uint32_t SendQueue<Platform>::payload_of_long(ViIndex i, const Message& message) {
  Vi& vi = vis_[i];
  if (vi.tx.path != state::Path::kNetwork) return vi.link.payload;
  const bool follows = has_gone_by_train(vi);
  if (message.stream() <= vi.link.payload - (follows ? wire::kLessByTrain : 0)) return vi.link.payload;
  const bool wanted = message.stream() >= kTrainBytes && vi.link.payload >= kLeastPayload;
  if (follows ? !trains_.is_kept(vi) : !wanted || !trains_.is_wanted(i)) return vi.link.payload;
  // On Unreliable Delivery frames that a train overtakes are lost. So a train waits there until the peer has said
  // that nothing is on its way, which it never says without credit.
  if (vi.reliability == vip::kUnreliable && !follows &&
      (vi.link.credit == 0 || vi.tx.send_una != vi.tx.send_next)) {
    return vi.link.payload;
  }
  const std::uint32_t limit = bulk_path_.payload_limit(vi.link.peer_address);
  if (limit >= mtu_) return vi.link.payload;
  return even_payload(vi, message.stream(), std::min(wire::payload_in(limit), vi.link.payload - wire::kLessByTrain));
}

// The frames of a train have one length, so a short one is padded: a message fills its frames evenly. Frames of one
// length only can share a train, so messages of different lengths, which would differ, fill them up to `most`.
template <class Platform>
std::uint32_t SendQueue<Platform>::even_payload(Vi& vi, std::uint32_t bytes, std::uint32_t most) {
  const std::uint32_t frames = (bytes + most - 1) / most;
  const std::uint32_t even = (bytes + frames - 1) / frames;
  return std::exchange(vi.tx.even_payload, static_cast<std::uint16_t>(even)) == even ? even : most;
}

// The payload by which the current message was cut when it was begun.
template <class Platform>
std::uint32_t SendQueue<Platform>::current_payload(ViIndex i) {
  const Vi& vi = vis_[i];
  if ((vi.tx.current_slot & state::kResponse) == 0) return in_flight(i, vi.tx.send.taken - 1).payload;
  return response(i, vi.tx.current_slot & ~state::kResponse).payload;
}

// Takes the next work request from the ring. False if there is none, or none that can be sent now.
template <class Platform>
bool SendQueue<Platform>::begin_message(ViIndex i, Message& message) {
  Vi& vi = vis_[i];
  std::uint32_t slot;
  if (!next_posted(vi, view(vi).send_ring(i), vi.tx.send.taken, slot)) return false;
  vi.tx.stalled = 1;
  // Sends behind an unanswered read can't complete even when they are acknowledged: at most kWindow pile up.
  if (vi.tx.send.taken - vi.tx.send.completed == kWindow) return false;
  const std::uint32_t error = load_message(vi, slot, message);
  if (error != 0) {
    // Completions are in order, so earlier messages must be acknowledged first.
    if (vi.tx.send.completed != vi.tx.send.taken) return false;
    in_flight(i, vi.tx.send.taken) = {
        slot, vi.tx.send_next, 0, 0, 0, static_cast<std::uint8_t>(message.op), 0};
    ++vi.tx.send.taken;
    if (message.stray_descriptor != 0) {
      completions_.report(i, vip::kPostDescriptor, {message.stray_descriptor, message.op, 0});
    }
    if (vi.reliability != vip::kUnreliable) {
      fail_current(i, slot, error);
      return false;
    }
    completions_.complete(i, false, slot, error | vip::status_op(message.op), 0, 0, 0);
    make_ready(i);
    return false;
  }
  if (vi.tx.reads != 0 && (message.flags & layout::kSlotFence)) return false;
  if (message.op == layout::kOpRdmaRead) {
    if (vi.tx.reads == state::kMaxReads) return false;
    ++vi.tx.reads;
  }
  vi.tx.stalled = 0;
  vi.tx.current_slot = slot;
  message.payload = payload_for(i, message);
  vi.tx.current_frames = message.frames();
  vi.tx.current_sent = 0;
  in_flight(i, vi.tx.send.taken) = {slot,
                                    vi.tx.send_next,
                                    vi.tx.current_frames,
                                    message.length,
                                    static_cast<std::uint16_t>(message.payload),
                                    static_cast<std::uint8_t>(message.op),
                                    0};
  ++vi.tx.send.taken;
  return true;
}

// Takes up the next RDMA read of the peer. False if there is none.
template <class Platform>
bool SendQueue<Platform>::begin_response(ViIndex i, Message& message) {
  Vi& vi = vis_[i];
  if (vi.tx.response_begun == vi.tx.response_next) return false;
  const std::uint32_t name = state::kResponse | vi.tx.response_begun % state::kMaxReads;
  if (load_current(vi, name, message) != 0) {
    pending_disconnect_.end(i, End::kFailed, vip::kRdmaReadProtection, vi.rx.receive_next,
                 static_cast<std::uint32_t>(wire::Refusal::kProtection));
    return false;
  }
  state::Response& response = this->response(i, vi.tx.response_begun);
  ++vi.tx.response_begun;
  vi.tx.current_slot = name;
  message.payload = payload_for(i, message);
  vi.tx.current_frames = message.frames();
  vi.tx.current_sent = 0;
  response.payload = static_cast<std::uint16_t>(message.payload);
  response.first_psn = vi.tx.send_next;
  response.frames = vi.tx.current_frames;
  return true;
}

template <class Platform>
std::uint32_t SendQueue<Platform>::load_current(const Vi& vi, std::uint32_t current,
                                                Message& out) const {
  if ((current & state::kResponse) == 0) return load_message(vi, current, out);
  const state::Response& answered =
      responses_[std::size_t{vis_.index(vi)} * state::kMaxReads + (current & ~state::kResponse)];
  out.op = kOpReadResponse;
  out.flags = 0;
  out.length = out.data = answered.length;
  out.prefix = 0;
  out.immediate = 0;
  out.first_segment = 0;
  out.segment_count = 1;
  out.inline_data = nullptr;
  out.segments[0] = {answered.address, answered.handle, answered.length};
  return memory_table_.rdma_allowed(vi, answered.address, answered.handle, answered.length, false)
             ? 0
             : std::uint32_t{vip::kProtectionError};
}

// Copies a work request out of its slot and checks it. Returns 0 or the error's status bits;
// out.op is valid in any case.
template <class Platform>
std::uint32_t SendQueue<Platform>::load_message(const Vi& vi, std::uint32_t slot, Message& out) const {
  const layout::SlotRequest& shared = view(vi).slot(slot).request;
  out.op = shared.op;
  out.flags = shared.flags;
  out.length = shared.length;
  out.immediate = shared.immediate;
  out.segment_count = shared.segment_count;
  out.stray_descriptor = 0;
  const std::uint64_t descriptor = shared.descriptor;
  const std::uint32_t descriptor_handle = shared.descriptor_handle;
  const std::uint16_t known = layout::kSlotImmediate | layout::kSlotFence | layout::kSlotInline;
  if (out.op > layout::kOpRdmaRead) {
    out.op = layout::kOpSend;
    return vip::kFormatError;
  }
  const bool rdma = out.op != layout::kOpSend;
  const bool read = out.op == layout::kOpRdmaRead;
  if ((out.flags & ~known) != 0 || out.segment_count > layout::kMaxDataSegments + (rdma ? 1 : 0) ||
      (rdma && (out.segment_count == 0 || (out.flags & layout::kSlotInline))) ||
      (read && vi.reliability == vip::kUnreliable)) {
    return vip::kFormatError;
  }
  copy_segments(out.segments, shared.payload.segments, out.segment_count);
  out.first_segment = rdma ? 1 : 0;
  if (!memory_table_.span_allowed(vi, descriptor, descriptor_handle,
                                  32 + 16ull * out.segment_count)) {
    out.stray_descriptor = descriptor;
    return vip::kProtectionError;
  }
  std::uint64_t total = 0;
  for (unsigned s = out.first_segment; s < out.segment_count; ++s) total += out.segments[s].length;
  if (total != out.length || out.length > vi.max_transfer) return vip::kLengthError;
  for (unsigned s = out.first_segment; s < out.segment_count; ++s) {
    const layout::Segment& segment = out.segments[s];
    if (segment.length != 0 &&
        !memory_table_.span_allowed(vi, segment.address, segment.handle, segment.length)) {
      return vip::kProtectionError;
    }
  }
  if (rdma) out.remote = {out.segments[0].address, out.segments[0].handle, 0};
  out.prefix = rdma ? wire::kRdmaBytes : 0;
  out.data = read ? 0 : out.length;
  out.inline_data = nullptr;
  if (out.flags & layout::kSlotInline) {
    const std::size_t at = out.segment_count * sizeof(layout::Segment);
    if (at + out.length > layout::kMaxInlineSend) return vip::kFormatError;
    out.inline_data = shared.payload.inline_data + at;
  }
  return 0;
}

// The response whose frames include psn.
template <class Platform>
std::uint32_t SendQueue<Platform>::response_with(ViIndex i, std::uint32_t psn) {
  const Vi& vi = vis_[i];
  for (std::uint32_t r = vi.tx.response_first; r != vi.tx.response_begun; ++r) {
    if (psn - response(i, r).first_psn < response(i, r).frames) return r;
  }
  return kNone;
}

template <class Platform>
void SendQueue<Platform>::finish_unreliable(ViIndex i) {
  Vi& vi = vis_[i];
  const state::InFlight flight = in_flight(i, vi.tx.send.completed);
  completions_.complete(i, false, flight.slot, vip::status_op(flight.op), flight.length, 0, 0);
}

// Completes, in order, what is acknowledged (and answered, if it is a read).
template <class Platform>
void SendQueue<Platform>::complete_acknowledged(ViIndex i) {
  Vi& vi = vis_[i];
  while (vi.tx.send.completed != vi.tx.send.taken) {
    const state::InFlight& flight = in_flight(i, vi.tx.send.completed);
    if (static_cast<std::int32_t>(vi.tx.send_una - (flight.first_psn + flight.frames)) < 0) break;
    if (flight.op == layout::kOpRdmaRead && flight.read_done != state::kReadDone) break;
    completions_.complete(i, false, flight.slot, vip::status_op(flight.op), flight.length, 0, 0);
  }
  while (vi.tx.response_first != vi.tx.response_begun) {
    const state::Response& answered = response(i, vi.tx.response_first);
    if (static_cast<std::int32_t>(vi.tx.send_una - (answered.first_psn + answered.frames)) < 0) {
      break;
    }
    ++vi.tx.response_first;
  }
}

// Ends a send that was begun and can't be finished: on Unreliable Delivery with an error of this descriptor, else
// with an error of the connection.
template <class Platform>
void SendQueue<Platform>::fail_current(ViIndex i, std::uint32_t current, std::uint32_t status) {
  Vi& vi = vis_[i];
  if (current & state::kResponse) {
    pending_disconnect_.end(i, End::kFailed, vip::kRdmaReadProtection, vi.rx.receive_next,
                 static_cast<std::uint32_t>(wire::Refusal::kProtection));
    return;
  }
  if (vi.reliability == vip::kUnreliable) {
    const std::uint16_t op = in_flight(i, vi.tx.send.completed).op;
    if (current == vi.tx.current_slot && vi.tx.current_sent != 0) status |= vip::kPartialError;
    vi.tx.current_slot = kNone;
    completions_.complete(i, false, current, status | vip::status_op(op), 0, 0, 0);
    make_ready(i);
    return;
  }
  vi.tx.failed_slot = current;
  vi.tx.failed_status = status;
  pending_disconnect_.end(i, End::kFailed, vip::kConnectionLost);
}

// The peer has refused the message that psn belongs to (of a packed frame the one with that index),
// or, if it is the answer to a read, the oldest read.
template <class Platform>
void SendQueue<Platform>::note_refusal(ViIndex i, std::uint32_t psn, std::uint32_t index,
                                       std::uint32_t reason) {
  Vi& vi = vis_[i];
  std::uint32_t refused = kNone;
  for (std::uint32_t p = vi.tx.send.completed; p != vi.tx.send.taken; ++p) {
    const state::InFlight& flight = in_flight(i, p);
    const bool read = flight.op == layout::kOpRdmaRead && !flight.read_done;
    if (read && refused == kNone) refused = p;
    if (psn - flight.first_psn >= flight.frames) continue;
    refused = p;
    // The peer has taken the messages before the refused one in the frame.
    for (; index != 0 && shares_frame(i, refused + 1, psn); --index, ++refused) {
      if (vi.tx.send.completed != refused) continue;
      const state::InFlight& taken = in_flight(i, refused);
      completions_.complete(i, false, taken.slot, vip::status_op(taken.op), taken.length, 0, 0);
    }
    break;
  }
  if (refused == kNone) return;
  const state::InFlight& flight = in_flight(i, refused);
  vi.tx.failed_slot = flight.slot;
  vi.tx.failed_status = vip::kTransportError;
  if (flight.op == layout::kOpRdmaRead || vi.reliability == vip::kReliableReception) {
    vi.tx.failed_status = reason == static_cast<std::uint32_t>(wire::Refusal::kProtection)
                           ? vip::kRdmaProtectionError
                           : vip::kRemoteDescriptorError;
  }
}

}  // namespace viaduct
