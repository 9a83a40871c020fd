// Receiving: from data frames to completed receives.
//
// On the reliable levels frames are processed in PSN order; one that comes after a gap stays in its
// port buffer until the gap is filled. On Unreliable Delivery a gap spoils the message it lies in.
//
// Data goes straight from the port's buffer to the program. A message that fits goes into the
// receive's slot, with no system call; other data is collected over a burst and written by one.
#include <algorithm>
#include <cstring>

#include "kagent/stack/stack.h"

namespace viaduct {

using state::Divert;
using state::kNone;
using state::kWindow;
using state::Vi;
using wire::Refusal;

struct Stack::Target {
  std::uint32_t segment_count;
  std::uint64_t capacity;
  std::uint64_t descriptor;
  std::uint32_t descriptor_handle;
  layout::Segment segments[layout::kMaxSegments];
};

void Stack::on_data(const wire::Decoded& frame, const Frame& raw, bool& keep) {
  StackCounters& count = root_->counters;
  const ViIndex i = frame.header.vi;
  Vi* vi = vi_for(frame, true);
  if (vi == nullptr) {
    send_reset(frame);
    return;
  }
  if (vi->checked != 0 && (frame.header.flags & wire::kFlagChecked) == 0) [[unlikely]] {
    ++count.drop_checksum;
    return;
  }
  if (environment_.late != 0 && environment_.is_full(vi->program)) [[unlikely]] {
    ++count.drop_program_slow;
    return;
  }
  // The peer would not send if our ACCEPT had not arrived: its CONFIRM is lost or late.
  if (vi->state == vip::kConnectPending) establish(i);
  ++count.data_frames_received;
  if (vi->reliability == vip::kUnreliable) return on_unreliable_data(i, frame);
  on_reliable_data(i, frame, raw, keep);
}

void Stack::on_reliable_data(ViIndex i, const wire::Decoded& frame, const Frame& raw, bool& keep) {
  Vi& vi = vis_[i];
  const wire::Header& header = frame.header;
  take_ack(i, header.ack, header.window);
  const std::uint32_t ahead = header.psn - vi.receive_next;
  if (ahead == 0) {
    const bool filled_gap = vi.held_count != 0;
    if (!take_in_order(i, header, frame.payload)) return;
    ++vi.receive_next;
    if (filled_gap) {
      drain_held(i);
      if (vi.state != vip::kConnected) return;
      vi.ack_gap = 1;
    }
    note_ack_due(i, (header.flags & wire::kFlagAckNow) != 0);
    return;
  }
  if (static_cast<std::int32_t>(ahead) < 0) {
    ++root_->counters.drop_duplicate;
  } else {
    hold(i, header.psn, raw, keep);
  }
  // Either way the peer should know what we have.
  vi.ack_gap = 1;
  note_ack_due(i, false);
}

void Stack::hold(ViIndex i, std::uint32_t psn, const Frame& raw, bool& keep) {
  Vi& vi = vis_[i];
  StackCounters& count = root_->counters;
  if (psn - vi.receive_next >= kWindow) {
    ++count.drop_window;
  } else if (vi.received.has(psn)) {
    ++count.drop_duplicate;
  } else if (root_->held >= held_limit_) {
    ++count.drop_no_held_buffer;
  } else {
    held_frame(i, psn) = raw;
    vi.received.add(psn);
    ++vi.held_count;
    ++root_->held;
    ++count.frames_held;
    keep = true;
  }
}

void Stack::drain_held(ViIndex i) {
  Vi& vi = vis_[i];
  while (vi.held_count != 0 && vi.received.has(vi.receive_next)) {
    const Frame raw = held_frame(i, vi.receive_next);
    vi.received.remove(vi.receive_next);
    --vi.held_count;
    --root_->held;
    release_later(raw);
    wire::Decoded frame;
    if (wire::decode({raw.data, raw.length}, frame) != wire::Malformed::kNone) return;
    if (!take_in_order(i, frame.header, frame.payload)) return;
    ++vi.receive_next;
  }
}

void Stack::drop_held(ViIndex i) {
  Vi& vi = vis_[i];
  for (std::uint32_t ahead = 0; vi.held_count != 0 && ahead < kWindow; ++ahead) {
    const std::uint32_t psn = vi.receive_next + ahead;
    if (!vi.received.has(psn)) continue;
    release_later(held_frame(i, psn));
    --vi.held_count;
    --root_->held;
  }
  vi.received.clear();
}

// The next frame of a reliable connection. False when it has ended the connection.
bool Stack::take_in_order(ViIndex i, const wire::Header& header,
                          std::span<const std::byte> payload) {
  Vi& vi = vis_[i];
  if (!fits(vi, header, payload)) {
    ++root_->counters.drop_bad_sequence;
    return refuse(i, header.psn, vip::kConnectionLost, Refusal::kTransport);
  }
  if ((header.flags & wire::kFlagPacked) != 0) return take_packed(i, header, payload);
  switch (header.flags & wire::kOpMask) {
    case wire::kOpRdmaWrite: return take_rdma_write(i, header, payload);
    case wire::kOpRdmaReadRequest: return take_read_request(i, header, payload);
    case wire::kOpRdmaReadResponse: return take_read_response(i, header, payload);
    default: return take_send(i, header, payload);
  }
}

// Whether a frame is the beginning of a message, or the next piece of the one under way.
bool Stack::fits(const Vi& vi, const wire::Header& header,
                 std::span<const std::byte> payload) const {
  const bool first = (header.flags & wire::kFlagFirst) != 0;
  const bool last = (header.flags & wire::kFlagLast) != 0;
  const std::uint32_t op = header.flags & wire::kOpMask;
  if (first == (vi.in_message != 0)) return false;
  if (op == wire::kOpRdmaReadRequest) return true;
  if (header.offset != (first ? 0 : vi.message_received)) return false;
  if (!first && (header.message_length != vi.message_length || op != vi.message_op)) return false;
  const std::size_t end = header.offset + payload.size() - wire::rdma_bytes(header.flags);
  return last == (end == header.message_length);
}

// A piece of a message for a receive descriptor.
bool Stack::take_send(ViIndex i, const wire::Header& header, std::span<const std::byte> payload) {
  Vi& vi = vis_[i];
  const bool first = (header.flags & wire::kFlagFirst) != 0;
  const bool last = (header.flags & wire::kFlagLast) != 0;
  // On Unreliable Delivery a receive whose message was spoilt is used for the next one.
  if (first && vi.receive_slot == kNone && !take_receive(i)) {
    ++root_->counters.drop_no_descriptor;
    return refuse(i, header.psn, vip::kReceiveQueueEmpty, Refusal::kNoDescriptor);
  }
  if (first && last && header.message_length <= layout::kMaxInlineRecv &&
      vi.divert != Divert::kPending) {
    return place_inline(i, header, payload);
  }
  Target target;
  if (first) {
    if (!begin_receive(i, header, target)) return false;
  } else {
    const bool loaded = load_target(vi, vi.receive_slot, 0, target);
    if (vi.divert == Divert::kPending) [[unlikely]] diverted(vi, target);
    if (!loaded || !allowed(vi, target, vi.message_length)) {
      return spoil_receive(i, header.psn, vip::kProtectionError, Refusal::kDescriptor);
    }
  }
  place(i, target, header.offset, payload);
  vi.message_received = header.offset + static_cast<std::uint32_t>(payload.size());
  return !last || end_receive(i, header, 0);
}

// Several whole messages. On Unreliable Delivery one that can't be taken harms no other. False when
// the connection has ended.
[[gnu::noinline]] bool Stack::take_packed(ViIndex i, const wire::Header& header,
                        std::span<const std::byte> payload) {
  const bool unreliable = vis_[i].reliability == vip::kUnreliable;
  wire::Header one = header;
  bool taken = true;
  for (packed_index_ = 0; !payload.empty() && (taken || unreliable); ++packed_index_) {
    wire::PackedHeader packed;
    if (!wire::decode(payload, packed)) {
      ++root_->counters.drop_bad_sequence;
      taken = refuse(i, header.psn, vip::kConnectionLost, Refusal::kTransport);
      break;
    }
    one.flags = wire::kFlagFirst | wire::kFlagLast | wire::kOpSend;
    if (packed.flags & wire::kPackedImmediate) one.flags |= wire::kFlagImmediate;
    one.immediate = packed.immediate;
    one.message_length = packed.length;
    taken = take_send(i, one, payload.subspan(wire::kPackedBytes, packed.length));
    payload = payload.subspan(wire::kPackedBytes + packed.length);
  }
  packed_index_ = 0;
  return taken;
}

// A piece of an RDMA write. The target's program sees nothing of it but its memory, unless it
// carries immediate data.
bool Stack::take_rdma_write(ViIndex i, const wire::Header& header,
                            std::span<const std::byte> payload) {
  Vi& vi = vis_[i];
  const bool last = (header.flags & wire::kFlagLast) != 0;
  if (header.flags & wire::kFlagFirst) {
    wire::RdmaHeader target;
    if (!wire::decode(payload, target)) {
      return refuse(i, header.psn, vip::kConnectionLost, Refusal::kTransport);
    }
    begin_message_in(vi, header);
    vi.rdma_address = target.address;
    vi.rdma_handle = target.handle;
  }
  // Judged for each frame: the program may have taken the permission back.
  if (header.message_length != 0 &&
      !rdma_allowed(vi, vi.rdma_address, vi.rdma_handle, header.message_length, true)) {
    ++root_->counters.drop_rdma_protection;
    return refuse(i, header.psn, vip::kRdmaWriteProtection, Refusal::kProtection);
  }
  const auto data = payload.subspan(wire::rdma_bytes(header.flags));
  place_at(i, vi.rdma_address + header.offset, data, last);
  vi.message_received = header.offset + static_cast<std::uint32_t>(data.size());
  if (!last) return true;
  if (placing_ == i) flush_placement();
  vi.in_message = 0;
  if (vi.receive_failed) {
    return refuse(i, header.psn, vip::kRdmaWriteData, Refusal::kProtection);
  }
  ++root_->counters.messages_received;
  root_->counters.bytes_received += header.message_length;
  if ((header.flags & wire::kFlagImmediate) == 0) return true;
  if (vi.receive_slot == kNone && !take_receive(i)) {
    ++root_->counters.drop_no_descriptor;
    return refuse(i, header.psn, vip::kReceiveQueueEmpty, Refusal::kNoDescriptor);
  }
  Target receive;
  vi.message_received = 0;  // as far as the receive is concerned
  if (!load_target(vi, vi.receive_slot, 0, receive)) {
    return spoil_receive(i, header.psn, vip::kFormatError, Refusal::kDescriptor);
  }
  if (!descriptor_allowed(vi, receive)) {
    return spoil_receive(i, header.psn, vip::kProtectionError, Refusal::kDescriptor);
  }
  const std::uint32_t slot = vi.receive_slot;
  vi.receive_slot = kNone;
  if (vi.divert == Divert::kPending) vi.divert = Divert::kNone;
  complete(i, true, slot, vip::kOpRemoteRdmaWrite | vip::kImmediate, header.message_length,
           header.immediate, 0);
  return true;
}

// The peer wants to read: the answer is sent when its turn comes.
bool Stack::take_read_request(ViIndex i, const wire::Header& header,
                              std::span<const std::byte> payload) {
  Vi& vi = vis_[i];
  wire::RdmaHeader source;
  if (!wire::decode(payload, source) || vi.reliability == vip::kUnreliable ||
      header.message_length > limits_.max_transfer ||
      vi.response_next - vi.response_first == state::kMaxReads) {
    return refuse(i, header.psn, vip::kConnectionLost, Refusal::kTransport);
  }
  if (!rdma_allowed(vi, source.address, source.handle, header.message_length, false)) {
    ++root_->counters.drop_rdma_protection;
    return refuse(i, header.psn, vip::kRdmaReadProtection, Refusal::kProtection);
  }
  response(i, vi.response_next) = {source.address, source.handle, header.message_length, 0, 0};
  ++vi.response_next;
  make_ready(i);
  return true;
}

// A piece of the answer to our oldest unanswered read.
bool Stack::take_read_response(ViIndex i, const wire::Header& header,
                               std::span<const std::byte> payload) {
  Vi& vi = vis_[i];
  const bool last = (header.flags & wire::kFlagLast) != 0;
  std::uint32_t p = vi.send.completed;
  while (p != vi.send.taken &&
         (in_flight(i, p).op != layout::kOpRdmaRead || in_flight(i, p).read_done)) {
    ++p;
  }
  if (p == vi.send.taken || in_flight(i, p).length != header.message_length) {
    ++root_->counters.drop_bad_sequence;
    return refuse(i, header.psn, vip::kConnectionLost, Refusal::kTransport);
  }
  state::InFlight& read = in_flight(i, p);
  if (header.flags & wire::kFlagFirst) begin_message_in(vi, header);
  Target target;
  if (!load_target(vi, read.slot, 1, target) || !allowed(vi, target, header.message_length)) {
    fail_current(i, read.slot, vip::kProtectionError);
    return false;
  }
  place(i, target, header.offset, payload);
  vi.message_received = header.offset + static_cast<std::uint32_t>(payload.size());
  if (!last) return true;
  if (placing_ == i) flush_placement();
  vi.in_message = 0;
  if (vi.receive_failed) {
    fail_current(i, read.slot, vip::kProtectionError);
    return false;
  }
  root_->counters.bytes_received += header.message_length;
  if (environment_.late != 0 && environment_.is_late(vi.program)) [[unlikely]] {
    read.read_done = state::kReadWritten;
    environment_.defer({i, vi.generation, vi.program, StackEnvironment::Late::What::kRead, p});
    return true;
  }
  finish_read(i, read);
  return true;
}

void Stack::finish_read(ViIndex i, state::InFlight& read) {
  read.read_done = state::kReadDone;
  --vis_[i].reads;
  complete_acknowledged(i);
  make_ready(i);
}

void Stack::begin_message_in(Vi& vi, const wire::Header& header) {
  vi.message_length = header.message_length;
  vi.message_received = 0;
  vi.message_op = header.flags & wire::kOpMask;
  vi.in_message = 1;
  vi.receive_failed = 0;
}

// A message that can't be taken: the end of a reliable connection, of this message otherwise.
// Always false.
bool Stack::refuse(ViIndex i, std::uint32_t psn, std::uint32_t error, Refusal reason) {
  Vi& vi = vis_[i];
  vi.in_message = 0;
  if (vi.reliability != vip::kUnreliable) {
    end_connection(i, End::kFailed, error, psn, static_cast<std::uint32_t>(reason));
  } else if (error != vip::kConnectionLost) {
    report(i, error);
  }
  return false;
}

void Stack::on_unreliable_data(ViIndex i, const wire::Decoded& frame) {
  Vi& vi = vis_[i];
  StackCounters& count = root_->counters;
  const wire::Header& header = frame.header;
  if (vi.credit != 0) take_credit(i, header.ack, header.window);
  if (header.flags & wire::kFlagAckNow) [[unlikely]] give_credit(i);
  const std::uint32_t ahead = header.psn - vi.receive_next;
  if (static_cast<std::int32_t>(ahead) < 0) {
    ++count.drop_out_of_sequence;
    return;
  }
  vi.receive_next = header.psn + 1;
  // What was begun before a gap, or before a new first frame, can't be finished.
  if (ahead != 0 || (header.flags & wire::kFlagFirst)) vi.in_message = 0;
  if (!fits(vi, header, frame.payload)) {
    vi.in_message = 0;
    ++count.drop_out_of_sequence;
    return;
  }
  if ((header.flags & wire::kOpMask) == wire::kOpRdmaWrite) {
    take_rdma_write(i, header, frame.payload);
  } else if ((header.flags & wire::kFlagPacked) != 0) {
    take_packed(i, header, frame.payload);
  } else if ((header.flags & wire::kOpMask) == wire::kOpSend) {
    take_send(i, header, frame.payload);
  } else {
    ++count.drop_not_supported;
  }
}

// ---------------------------------------------------------------------------- the receive descriptor

bool Stack::take_receive(ViIndex i) {
  Vi& vi = vis_[i];
  std::uint32_t slot;
  if (!next_posted(vi, view(vi).receive_ring(i), vi.receive.taken, slot)) return false;
  ++vi.receive.taken;
  vi.receive_slot = slot;
  return true;
}

// Copies where a posted receive (or read, whose first segment is the remote one) wants its data out
// of its slot. False if it is malformed.
bool Stack::load_target(const Vi& vi, std::uint32_t slot, std::uint32_t skip, Target& out) const {
  const layout::SlotRequest& shared = view(vi).slot(slot).request;
  out.segment_count = shared.segment_count;
  out.descriptor = shared.descriptor;
  out.descriptor_handle = shared.descriptor_handle;
  if (out.segment_count > layout::kMaxDataSegments + skip || out.segment_count < skip) return false;
  out.segment_count -= skip;
  copy_segments(out.segments, shared.payload.segments + skip, out.segment_count);
  out.capacity = 0;
  for (unsigned s = 0; s < out.segment_count; ++s) out.capacity += out.segments[s].length;
  return true;
}

// Whether a receive lies where it was said to lie.
bool Stack::descriptor_allowed(const Vi& vi, const Target& target) const {
  return span_allowed(vi, target.descriptor, target.descriptor_handle,
                      32 + 16ull * target.segment_count);
}

// Whether the first `length` bytes may be written: bounds are judged on what is placed.
bool Stack::allowed(const Vi& vi, const Target& target, std::uint32_t length) const {
  if (length > target.capacity) return false;
  for (unsigned s = 0; s < target.segment_count && length != 0; ++s) {
    const layout::Segment& segment = target.segments[s];
    const std::uint32_t piece = std::min(length, segment.length);
    if (piece != 0 && !span_allowed(vi, segment.address, segment.handle, piece)) return false;
    length -= piece;
  }
  return true;
}

// Looks at the receive that a new message is to use. False when it will not do.
bool Stack::begin_receive(ViIndex i, const wire::Header& header, Target& target) {
  Vi& vi = vis_[i];
  begin_message_in(vi, header);
  std::uint32_t error = 0;
  if (!load_target(vi, vi.receive_slot, 0, target)) {
    error = vip::kFormatError;
  } else if (!descriptor_allowed(vi, target)) {
    error = vip::kProtectionError;
  } else {
    if (vi.divert == Divert::kPending) [[unlikely]] {
      begin_diverted(vi, header.message_length, target);
    }
    if (header.message_length > target.capacity) {
      error = vip::kLengthError;
    } else if (!allowed(vi, target, header.message_length)) {
      error = vip::kProtectionError;
    }
  }
  return error == 0 || spoil_receive(i, header.psn, error, Refusal::kDescriptor);
}

bool Stack::place_inline(ViIndex i, const wire::Header& header,
                         std::span<const std::byte> payload) {
  Vi& vi = vis_[i];
  Target target;
  if (!begin_receive(i, header, target)) return false;
  auto* slot = reinterpret_cast<std::byte*>(&view(vi).slot(vi.receive_slot));
  std::memcpy(slot + sizeof(layout::SlotCompletion), payload.data(), payload.size());
  return end_receive(i, header, static_cast<std::uint32_t>(payload.size()));
}

// Collects [offset, offset + payload) of the message for writing.
void Stack::place(ViIndex i, const Target& target, std::uint32_t offset,
                  std::span<const std::byte> payload) {
  if (payload.empty()) return;
  begin_placing(i, payload);
  std::uint64_t begin = offset;
  const std::uint64_t end = begin + payload.size();
  std::uint64_t at = 0;
  for (unsigned s = 0; s < target.segment_count && begin < end; ++s) {
    const layout::Segment& segment = target.segments[s];
    const std::uint64_t segment_end = at + segment.length;
    if (begin < segment_end) {
      const std::uint64_t piece = std::min(end, segment_end) - begin;
      place_piece(segment.address + (begin - at), piece);
      begin += piece;
    }
    at = segment_end;
  }
}

// The same for an RDMA write. The last word of a message is a piece of its own and so becomes
// visible after all the rest: programs spin on it.
void Stack::place_at(ViIndex i, std::uint64_t address, std::span<const std::byte> data,
                     bool last) {
  if (data.empty()) return;
  begin_placing(i, data);
  std::size_t tail = 0;
  if (last) {
    tail = std::min<std::size_t>(data.size(), 8);
    // A whole aligned word where there is one.
    const std::size_t aligned = (address + data.size()) % 8;
    if (aligned != 0 && aligned < tail) tail = aligned;
  }
  const std::size_t head = data.size() - tail;
  if (head != 0) place_piece(address, head);
  if (tail != 0) {
    placement_.remote[placement_.remotes++] = {reinterpret_cast<void*>(address + head), tail};
  }
}

// What is in `data` comes next, in at most kMaxSegments pieces.
void Stack::begin_placing(ViIndex i, std::span<const std::byte> data) {
  if (placing_ != i || placement_.locals == kMaxPieces ||
      placement_.remotes + layout::kMaxSegments > kMaxPieces) {
    flush_placement();
  }
  placing_ = i;
  placement_.local[placement_.locals++] = {const_cast<std::byte*>(data.data()), data.size()};
}

void Stack::place_piece(std::uint64_t address, std::uint64_t length) {
  iovec* const next = &placement_.remote[placement_.remotes];
  if (placement_.remotes != 0 &&
      reinterpret_cast<std::uint64_t>(next[-1].iov_base) + next[-1].iov_len == address) {
    next[-1].iov_len += length;
  } else {
    *next = {reinterpret_cast<void*>(address), length};
    ++placement_.remotes;
  }
}

// Writes what was collected. A failure is noted in the VI, whose message has not ended yet.
bool Stack::flush_placement() {
  if (placing_ == kNone) return true;
  Vi& vi = vis_[placing_];
  const bool written =
      environment_.write_program(vi.program, {placement_.remote, placement_.remotes},
                                 {placement_.local, placement_.locals});
  if (!written) vi.receive_failed = 1;
  placing_ = kNone;
  placement_.remotes = placement_.locals = 0;
  return written;
}

bool Stack::end_receive(ViIndex i, const wire::Header& header, std::uint32_t inline_length) {
  Vi& vi = vis_[i];
  if (placing_ == i) flush_placement();
  if (vi.receive_failed) {
    return spoil_receive(i, header.psn, vip::kProtectionError, Refusal::kDescriptor);
  }
  const std::uint32_t slot = vi.receive_slot;
  vi.receive_slot = kNone;
  vi.in_message = 0;
  ++root_->counters.messages_received;
  root_->counters.bytes_received += header.message_length;
  if (vi.divert == Divert::kPending) [[unlikely]] vi.divert = Divert::kUsed;
  const bool immediate = (header.flags & wire::kFlagImmediate) != 0;
  complete(i, true, slot,
           vip::kOpReceive | (immediate ? vip::kImmediate : std::uint32_t{0}),
           header.message_length, header.immediate, inline_length);
  return true;
}

// The receive completes with an error, and on the reliable levels the connection ends with it.
// Always false.
bool Stack::spoil_receive(ViIndex i, std::uint32_t psn, std::uint32_t status, Refusal reason) {
  Vi& vi = vis_[i];
  if (placing_ == i) flush_placement();
  const std::uint32_t slot = vi.receive_slot;
  if (status == vip::kProtectionError) {
    const std::uint64_t descriptor = view(vi).slot(slot).request.descriptor;
    report(i, vip::kCompletionProtection, {descriptor, layout::kOpReceive, 0});
  }
  if (vi.message_received != 0) status |= vip::kPartialError;
  vi.receive_slot = kNone;
  vi.in_message = 0;
  if (vi.divert == Divert::kPending) vi.divert = Divert::kNone;
  ++root_->counters.drop_bad_descriptor;
  complete(i, true, slot, status | vip::kOpReceive, 0, 0, 0);
  if (vi.reliability != vip::kUnreliable) {
    end_connection(i, End::kFailed, vip::kConnectionLost, psn, static_cast<std::uint32_t>(reason));
  }
  return false;
}

}  // namespace viaduct
