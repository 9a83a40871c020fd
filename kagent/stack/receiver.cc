#include "kagent/stack/receiver.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kagent/stack/segments.h"

namespace viaduct {

using state::Redirect;
using state::Vi;
using state::kNone;
using state::kWindow;
using wire::Refusal;

// Makes `out` the target of the redirect, instead of the one that the receive's slot names.
template <class Platform>
void Receiver<Platform>::redirected(const Vi& vi, Target& out) {
  out.segment_count = 1;
  out.segments[0] = {vi.rx.redirect_address, vi.rx.redirect_handle, vi.rx.redirect_length};
  out.capacity = vi.rx.redirect_length;
}

// A message begins: redirects it if it fits there, else ends the redirect.
template <class Platform>
void Receiver<Platform>::begin_redirected(Vi& vi, std::uint32_t length,
                                                                  Target& target) {
  if (length <= vi.rx.redirect_length &&
      memory_table_.span_allowed(vi, vi.rx.redirect_address, vi.rx.redirect_handle,
                                 vi.rx.redirect_length)) {
    redirected(vi, target);
  } else {
    vi.rx.redirect = Redirect::kNone;
  }
}

// Whether a piece of a message lies in the receive that is next to complete.
template <class Platform>
bool Receiver<Platform>::receives_in_part(const Vi& vi) {
  return vi.rx.receive_slot != kNone && vi.rx.in_message && vi.rx.message_op == wire::kOpSend;
}

// Moves the part of a message that has come. Reads and writes the program's memory.
template <class Platform>
bool Receiver<Platform>::move_received(const Vi& vi, const Target& from, const Target& to) {
  iovec source[layout::kMaxSegments], target[layout::kMaxSegments];
  const auto pieces = [&vi](const Target& of, iovec* out) {
    std::size_t left = vi.rx.message_received, count = 0;
    for (std::uint32_t s = 0; s < of.segment_count && left != 0; ++s) {
      const std::size_t here = std::min<std::size_t>(left, of.segments[s].length);
      out[count++] = {reinterpret_cast<void*>(of.segments[s].address), here};
      left -= here;
    }
    return count;
  };
  const std::size_t sources = pieces(from, source), targets = pieces(to, target);
  return environment_.write_program(vi.program, {target, targets}, {source, sources});
}

template <class Platform>
vip::Return Receiver<Platform>::redirect(std::uint32_t i, std::uint32_t generation,
                                    const layout::Segment& to) {
  Vi* const vi = find_vi(0, i, generation);
  if (vi == nullptr || to.length == 0) return vip::kInvalidParameter;
  if (!memory_table_.span_allowed(*vi, to.address, to.handle, to.length)) {
    return vip::kInvalidParameter;
  }
  // The next message must be the one that the program waits for.
  std::uint32_t slot;
  const std::uint32_t taken_back = view(*vi).vi(i).receive.dequeued.load(std::memory_order_acquire);
  if (vi->state != vip::kConnected || vi->rx.redirect != Redirect::kNone ||
      taken_back != vi->rx.receive.completed) {
    return vip::kNotDone;
  }
  if (vi->rx.receive_slot == kNone &&
      !next_posted(*vi, view(*vi).receive_ring(i), vi->rx.receive.taken, slot)) {
    return vip::kNotDone;
  }
  if (receives_in_part(*vi)) {
    Target own, other;
    if (vi->rx.message_length > to.length || !load_target(*vi, vi->rx.receive_slot, 0, own)) {
      return vip::kNotDone;
    }
    other.segment_count = 1;
    other.segments[0] = to;
    if (!move_received(*vi, own, other)) return vip::kNotDone;
  }
  vi->rx.redirect_address = to.address;
  vi->rx.redirect_handle = to.handle;
  vi->rx.redirect_length = to.length;
  vi->rx.redirect = Redirect::kPending;
  return vip::kSuccess;
}

template <class Platform>
vip::Return Receiver<Platform>::unredirect(std::uint32_t i, std::uint32_t generation) {
  Vi* const vi = find_vi(0, i, generation);
  if (vi == nullptr) return vip::kInvalidParameter;
  const Redirect was = std::exchange(vi->rx.redirect, Redirect::kNone);
  if (was == Redirect::kUsed) return vip::kSuccess;
  if (was == Redirect::kPending && receives_in_part(*vi)) {
    Target own, other;
    redirected(*vi, other);
    if (!load_target(*vi, vi->rx.receive_slot, 0, own) || own.capacity < vi->rx.message_length ||
        !move_received(*vi, other, own)) {
      vi->rx.receive_failed = 1;
    }
  }
  return vip::kNotDone;
}

template <class Platform>
void Receiver<Platform>::on_reliable_data(ViIndex i, const wire::Decoded& frame, const Frame& raw,
                                          bool& keep) {
  Vi& vi = vis_[i];
  const wire::Header& header = frame.header;
  loss_recovery_.take_ack(i, header.ack, header.window);
  const std::uint32_t ahead = header.psn - vi.rx.receive_next;
  if (ahead == 0) {
    const bool filled_gap = vi.rx.held_count != 0;
    if (!take_in_order(i, header, frame.payload)) return;
    ++vi.rx.receive_next;
    if (filled_gap) {
      drain_held(i);
      if (pending_disconnect_.pending()) return;
      vi.ack.ack_gap = 1;
    }
    acknowledger_.note_ack_due(i, (header.flags & wire::kFlagAckNow) != 0);
    constexpr unsigned kOthers = wire::kFlagFirst | wire::kFlagAckNow | wire::kFlagPacked | wire::kFlagChecked;
    if (vi.rx.in_message != 0 && vi.rx.held_count == 0 && (header.flags & kOthers) == 0) {
      run_ = {i, frame.payload.data(), header.payload_length};
    }
    return;
  }
  if (static_cast<std::int32_t>(ahead) < 0) {
    ++root_->counters.drop_duplicate;
  } else {
    hold(i, frame, raw, keep);
  }
  // Either way the peer should know what we have.
  vi.ack.ack_gap = 1;
  acknowledger_.note_ack_due(i, false);
}

namespace {

// Whether a frame begins with this head.
inline bool begins_with(const std::byte* frame, const std::byte* head, std::size_t bytes) {
  std::uint64_t differs = 0, one, other;
  std::size_t at = 0;
  for (; at + sizeof one <= bytes; at += sizeof one) {
    std::memcpy(&one, frame + at, sizeof one);
    std::memcpy(&other, head + at, sizeof other);
    differs |= one ^ other;
  }
  std::memcpy(&one, frame + bytes - sizeof one, sizeof one);
  std::memcpy(&other, head + bytes - sizeof other, sizeof other);
  return (differs | (one ^ other)) == 0;
}

}  // namespace

template <class Platform>
unsigned Receiver<Platform>::take_run(const Frame& before, std::span<const Frame> next) {
  constexpr std::size_t kPsn = wire::kEthernetBytes + 16, kOffset = wire::kEthernetBytes + 28;
  const ViIndex i = run_.vi;
  Vi& vi = vis_[i];
  if (vi.state != vip::kConnected || vi.rx.in_message == 0) return 0;
  const bool is_write = vi.rx.message_op == wire::kOpRdmaWrite;
  Target target;
  if (!is_write) {
    if (vi.rx.message_op != wire::kOpSend || !load_target(vi, vi.rx.receive_slot, 0, target)) return 0;
    if (vi.rx.redirect == Redirect::kPending) [[unlikely]] redirected(vi, target);
  }
  std::byte head[kHead];
  std::memcpy(head, before.data, sizeof head);
  const std::uint32_t bytes = run_.bytes;
  unsigned n = 0;
  for (const Frame& frame : next) {
    const std::uint32_t offset = vi.rx.message_received;
    wire::store32(head + kPsn, vi.rx.receive_next);
    wire::store32(head + kOffset, offset);
    if (frame.length != before.length || offset + bytes >= vi.rx.message_length || !begins_with(frame.data, head, sizeof head)) {
      break;
    }
    const std::span<const std::byte> data{frame.data + kHead, bytes};
    is_write ? placer_.place_at(i, vi.rx.rdma_address + offset, data, false) : placer_.place(i, target, offset, data);
    vi.rx.message_received += bytes;
    ++vi.rx.receive_next;
    ++n;
  }
  if (n == 0) return 0;
  root_->counters.data_frames_received += n;
  acknowledger_.note_ack_due(i, false, n);
  return n;
}

template <class Platform>
void Receiver<Platform>::hold(ViIndex i, const wire::Decoded& frame, const Frame& raw, bool& keep) {
  Vi& vi = vis_[i];
  StackCounters& count = root_->counters;
  const std::uint32_t psn = frame.header.psn;
  if (psn - vi.rx.receive_next >= kWindow) {
    ++count.drop_window;
  } else if (vi.rx.received.has(psn)) {
    ++count.drop_duplicate;
  } else if (keep || root_->held >= held_limit_) {  // another frame of the bundle has kept the buffer
    ++count.drop_no_held_buffer;
  } else {
    // A frame that is not the first of its bundle moves over those before it, whose data may be on its way to a program.
    if (frame.payload.data() != raw.data + wire::kEthernetBytes + wire::kHeaderBytes) placer_.flush_placement();
    held_frame(i, psn) = {raw.data, wire::move_to_front(raw.data, frame), raw.id};
    vi.rx.received.add(psn);
    ++vi.rx.held_count;
    ++root_->held;
    ++count.frames_held;
    keep = true;
  }
}

template <class Platform>
void Receiver<Platform>::drain_held(ViIndex i) {
  Vi& vi = vis_[i];
  while (vi.rx.held_count != 0 && vi.rx.received.has(vi.rx.receive_next)) {
    const Frame raw = held_frame(i, vi.rx.receive_next);
    vi.rx.received.remove(vi.rx.receive_next);
    --vi.rx.held_count;
    --root_->held;
    give_back(raw);
    wire::Decoded frame;
    if (wire::decode({raw.data, raw.length}, frame) != wire::Malformed::kNone) return;
    if (!take_in_order(i, frame.header, frame.payload)) return;
    ++vi.rx.receive_next;
  }
}

template <class Platform>
void Receiver<Platform>::drop_held(ViIndex i) {
  Vi& vi = vis_[i];
  for (std::uint32_t ahead = 0; vi.rx.held_count != 0 && ahead < kWindow; ++ahead) {
    const std::uint32_t psn = vi.rx.receive_next + ahead;
    if (!vi.rx.received.has(psn)) continue;
    give_back(held_frame(i, psn));
    --vi.rx.held_count;
    --root_->held;
  }
  vi.rx.received.clear();
}

// Takes the next frame of a reliable connection. False when the frame has ended the connection.
template <class Platform>
bool Receiver<Platform>::take_in_order(ViIndex i, const wire::Header& header,
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
template <class Platform>
bool Receiver<Platform>::fits(const Vi& vi, const wire::Header& header,
                              std::span<const std::byte> payload) const {
  const bool first = (header.flags & wire::kFlagFirst) != 0;
  const bool last = (header.flags & wire::kFlagLast) != 0;
  const std::uint32_t op = header.flags & wire::kOpMask;
  if (first == (vi.rx.in_message != 0)) return false;
  if (op == wire::kOpRdmaReadRequest) return true;
  if (header.offset != (first ? 0 : vi.rx.message_received)) return false;
  if (!first && (header.message_length != vi.rx.message_length || op != vi.rx.message_op)) {
    return false;
  }
  const std::size_t end = header.offset + payload.size() - wire::rdma_bytes(header.flags);
  return last == (end == header.message_length);
}

// Takes a piece of a message for a receive descriptor.
template <class Platform>
bool Receiver<Platform>::take_send(ViIndex i, const wire::Header& header,
                                   std::span<const std::byte> payload) {
  Vi& vi = vis_[i];
  const bool first = (header.flags & wire::kFlagFirst) != 0;
  const bool last = (header.flags & wire::kFlagLast) != 0;
  // On Unreliable Delivery a receive whose message was spoilt is used for the next one.
  if (first && vi.rx.receive_slot == kNone && !take_receive(i)) {
    ++root_->counters.drop_no_descriptor;
    return refuse(i, header.psn, vip::kReceiveQueueEmpty, Refusal::kNoDescriptor);
  }
  if (first && last && header.message_length <= layout::kMaxInlineRecv &&
      vi.rx.redirect != Redirect::kPending) {
    return place_inline(i, header, payload);
  }
  Target target;
  if (first) {
    if (!begin_receive(i, header, target)) return false;
  } else {
    const bool loaded = load_target(vi, vi.rx.receive_slot, 0, target);
    if (vi.rx.redirect == Redirect::kPending) [[unlikely]] redirected(vi, target);
    if (!loaded || !allowed(vi, target, vi.rx.message_length)) {
      return spoil_receive(i, header.psn, vip::kProtectionError, Refusal::kDescriptor);
    }
  }
  placer_.place(i, target, header.offset, payload);
  vi.rx.message_received = header.offset + static_cast<std::uint32_t>(payload.size());
  return !last || end_receive(i, header, 0);
}

// Takes several whole messages of one frame. On Unreliable Delivery a message that can't be taken does not harm the
// others. False when the connection has ended.
template <class Platform>
bool Receiver<Platform>::take_packed(ViIndex i, const wire::Header& header,
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

// Takes a piece of an RDMA write. The target's program sees only its memory change, unless the write carries
// immediate data.
template <class Platform>
bool Receiver<Platform>::take_rdma_write(ViIndex i, const wire::Header& header,
                                         std::span<const std::byte> payload) {
  Vi& vi = vis_[i];
  const bool last = (header.flags & wire::kFlagLast) != 0;
  if (header.flags & wire::kFlagFirst) {
    wire::RdmaHeader target;
    if (!wire::decode(payload, target)) {
      return refuse(i, header.psn, vip::kConnectionLost, Refusal::kTransport);
    }
    begin_message_in(vi, header);
    vi.rx.rdma_address = target.address;
    vi.rx.rdma_handle = target.handle;
  }
  // Judged for each frame: the program may have taken the permission back.
  if (header.message_length != 0 &&
      !memory_table_.rdma_allowed(vi, vi.rx.rdma_address, vi.rx.rdma_handle, header.message_length,
                                  true)) {
    ++root_->counters.drop_rdma_protection;
    return refuse_write(i, header, vip::kRdmaWriteProtection);
  }
  const auto data = payload.subspan(wire::rdma_bytes(header.flags));
  placer_.place_at(i, vi.rx.rdma_address + header.offset, data, last);
  vi.rx.message_received = header.offset + static_cast<std::uint32_t>(data.size());
  if (!last) return true;
  placer_.flush_of(i);
  vi.rx.in_message = 0;
  if (vi.rx.receive_failed) {
    return refuse_write(i, header, vip::kRdmaWriteData);
  }
  ++root_->counters.messages_received;
  root_->counters.bytes_received += header.message_length;
  if ((header.flags & wire::kFlagImmediate) == 0) return true;
  if (vi.rx.receive_slot == kNone && !take_receive(i)) {
    ++root_->counters.drop_no_descriptor;
    return refuse(i, header.psn, vip::kReceiveQueueEmpty, Refusal::kNoDescriptor);
  }
  Target receive;
  vi.rx.message_received = 0;  // the receive itself gets no data
  if (!load_target(vi, vi.rx.receive_slot, 0, receive)) {
    return spoil_receive(i, header.psn, vip::kFormatError, Refusal::kDescriptor);
  }
  if (!descriptor_allowed(vi, receive)) {
    return spoil_receive(i, header.psn, vip::kProtectionError, Refusal::kDescriptor);
  }
  const std::uint32_t slot = vi.rx.receive_slot;
  vi.rx.receive_slot = kNone;
  if (vi.rx.redirect == Redirect::kPending) vi.rx.redirect = Redirect::kNone;
  completions_.complete(i, true, slot, vip::kOpRemoteRdmaWrite | vip::kImmediate,
                        header.message_length, header.immediate, 0);
  return true;
}

// A write with immediate data has a descriptor at the target, the receive that it would have used, which tells of the
// error. Without one the handler does.
template <class Platform>
bool Receiver<Platform>::refuse_write(ViIndex i, const wire::Header& header, std::uint32_t error) {
  Vi& vi = vis_[i];
  const bool immediate = (header.flags & wire::kFlagImmediate) != 0;
  if (!immediate || (vi.rx.receive_slot == kNone && !take_receive(i))) {
    return refuse(i, header.psn, error, Refusal::kProtection);
  }
  return spoil_receive(i, header.psn, vip::kRdmaProtectionError | vip::kOpRemoteRdmaWrite, Refusal::kProtection);
}

// The peer asks for an RDMA read, which is answered when its turn comes.
template <class Platform>
bool Receiver<Platform>::take_read_request(ViIndex i, const wire::Header& header,
                                           std::span<const std::byte> payload) {
  Vi& vi = vis_[i];
  wire::RdmaHeader source;
  if (!wire::decode(payload, source) || vi.reliability == vip::kUnreliable ||
      header.message_length > limits_.max_transfer ||
      vi.tx.response_next - vi.tx.response_first == state::kMaxReads) {
    return refuse(i, header.psn, vip::kConnectionLost, Refusal::kTransport);
  }
  if (!memory_table_.rdma_allowed(vi, source.address, source.handle, header.message_length,
                                  false)) {
    ++root_->counters.drop_rdma_protection;
    return refuse(i, header.psn, vip::kRdmaReadProtection, Refusal::kProtection);
  }
  response(i, vi.tx.response_next) = {source.address, source.handle, header.message_length, 0, 0, 0};
  ++vi.tx.response_next;
  send_queue_.make_ready(i);
  return true;
}

// Takes a piece of the answer to our oldest unanswered read.
template <class Platform>
bool Receiver<Platform>::take_read_response(ViIndex i, const wire::Header& header,
                                            std::span<const std::byte> payload) {
  Vi& vi = vis_[i];
  const bool last = (header.flags & wire::kFlagLast) != 0;
  std::uint32_t p = vi.tx.send.completed;
  while (p != vi.tx.send.taken &&
         (in_flight(i, p).op != layout::kOpRdmaRead || in_flight(i, p).read_done)) {
    ++p;
  }
  if (p == vi.tx.send.taken || in_flight(i, p).length != header.message_length) {
    ++root_->counters.drop_bad_sequence;
    return refuse(i, header.psn, vip::kConnectionLost, Refusal::kTransport);
  }
  state::InFlight& read = in_flight(i, p);
  if (header.flags & wire::kFlagFirst) begin_message_in(vi, header);
  Target target;
  if (!load_target(vi, read.slot, 1, target) || !allowed(vi, target, header.message_length)) {
    send_queue_.fail_current(i, read.slot, vip::kProtectionError);
    return false;
  }
  placer_.place(i, target, header.offset, payload);
  vi.rx.message_received = header.offset + static_cast<std::uint32_t>(payload.size());
  if (!last) return true;
  placer_.flush_of(i);
  vi.rx.in_message = 0;
  if (vi.rx.receive_failed) {
    send_queue_.fail_current(i, read.slot, vip::kProtectionError);
    return false;
  }
  root_->counters.bytes_received += header.message_length;
  if (environment_.late != 0 && environment_.is_late(vi.program)) [[unlikely]] {
    read.read_done = state::kReadWritten;
    environment_.defer({i, vi.generation, vi.program, Platform::Environment::Late::What::kRead, p});
    return true;
  }
  finish_read(i, read);
  return true;
}

template <class Platform>
void Receiver<Platform>::finish_read(ViIndex i, state::InFlight& read) {
  read.read_done = state::kReadDone;
  --vis_[i].tx.reads;
  send_queue_.complete_acknowledged(i);
  send_queue_.make_ready(i);
}

template <class Platform>
void Receiver<Platform>::begin_message_in(Vi& vi, const wire::Header& header) {
  vi.rx.message_length = header.message_length;
  vi.rx.message_received = 0;
  vi.rx.message_op = header.flags & wire::kOpMask;
  vi.rx.in_message = 1;
  vi.rx.receive_failed = 0;
}

// Refuses a message that can't be taken: ends a reliable connection, or else only this message. Always false.
template <class Platform>
bool Receiver<Platform>::refuse(ViIndex i, std::uint32_t psn, std::uint32_t error, Refusal reason) {
  Vi& vi = vis_[i];
  vi.rx.in_message = 0;
  if (vi.reliability != vip::kUnreliable) {
    pending_disconnect_.end(i, End::kFailed, error, psn, static_cast<std::uint32_t>(reason), packed_index_);
  } else if (error != vip::kConnectionLost) {
    completions_.report(i, error);
  }
  return false;
}

template <class Platform>
void Receiver<Platform>::on_unreliable_data(ViIndex i, const wire::Decoded& frame) {
  Vi& vi = vis_[i];
  StackCounters& count = root_->counters;
  const wire::Header& header = frame.header;
  if (vi.link.credit != 0) send_credit_.take_credit(i, header.ack, header.window);
  if (header.flags & wire::kFlagAckNow) [[unlikely]] {
    credit_grants_.give_credit(i);
  }
  const std::uint32_t ahead = header.psn - vi.rx.receive_next;
  if (static_cast<std::int32_t>(ahead) < 0) {
    ++count.drop_out_of_sequence;
    return;
  }
  vi.rx.receive_next = header.psn + 1;
  // A message begun before a gap, or before a new first frame, can't be finished.
  if (ahead != 0 || (header.flags & wire::kFlagFirst)) vi.rx.in_message = 0;
  if (!fits(vi, header, frame.payload)) {
    vi.rx.in_message = 0;
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

template <class Platform>
bool Receiver<Platform>::take_receive(ViIndex i) {
  Vi& vi = vis_[i];
  std::uint32_t slot;
  if (!next_posted(vi, view(vi).receive_ring(i), vi.rx.receive.taken, slot)) return false;
  ++vi.rx.receive.taken;
  vi.rx.receive_slot = slot;
  return true;
}

// Copies where a posted receive (or read, whose first segment is the remote one) wants its data out
// of its slot. False if it is malformed.
template <class Platform>
bool Receiver<Platform>::load_target(const Vi& vi, std::uint32_t slot, std::uint32_t skip,
                                     Target& out) const {
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

// Whether the descriptor of a receive lies in the memory region that was named for it.
template <class Platform>
bool Receiver<Platform>::descriptor_allowed(const Vi& vi, const Target& target) const {
  return memory_table_.span_allowed(vi, target.descriptor, target.descriptor_handle,
                                    32 + 16ull * target.segment_count);
}

// Whether the first `length` bytes may be written: bounds are judged on what is placed.
template <class Platform>
bool Receiver<Platform>::allowed(const Vi& vi, const Target& target, std::uint32_t length) const {
  if (length > target.capacity) return false;
  for (unsigned s = 0; s < target.segment_count && length != 0; ++s) {
    const layout::Segment& segment = target.segments[s];
    const std::uint32_t piece = std::min(length, segment.length);
    if (piece != 0 && !memory_table_.span_allowed(vi, segment.address, segment.handle, piece)) {
      return false;
    }
    length -= piece;
  }
  return true;
}

// Looks at the receive that a new message is to use. False when it will not do.
template <class Platform>
bool Receiver<Platform>::begin_receive(ViIndex i, const wire::Header& header, Target& target) {
  Vi& vi = vis_[i];
  begin_message_in(vi, header);
  std::uint32_t error = 0;
  if (!load_target(vi, vi.rx.receive_slot, 0, target)) {
    error = vip::kFormatError;
  } else if (!descriptor_allowed(vi, target)) {
    error = vip::kProtectionError;
  } else {
    if (vi.rx.redirect == Redirect::kPending) [[unlikely]] {
      begin_redirected(vi, header.message_length, target);
    }
    if (header.message_length > target.capacity) {
      error = vip::kLengthError;
    } else if (!allowed(vi, target, header.message_length)) {
      error = vip::kProtectionError;
    }
  }
  return error == 0 || spoil_receive(i, header.psn, error, Refusal::kDescriptor);
}

template <class Platform>
bool Receiver<Platform>::place_inline(ViIndex i, const wire::Header& header,
                                      std::span<const std::byte> payload) {
  Vi& vi = vis_[i];
  Target target;
  if (!begin_receive(i, header, target)) return false;
  auto* slot = reinterpret_cast<std::byte*>(&view(vi).slot(vi.rx.receive_slot));
  std::memcpy(slot + sizeof(layout::SlotCompletion), payload.data(), payload.size());
  return end_receive(i, header, static_cast<std::uint32_t>(payload.size()));
}

template <class Platform>
bool Receiver<Platform>::end_receive(ViIndex i, const wire::Header& header,
                                     std::uint32_t inline_length) {
  Vi& vi = vis_[i];
  placer_.flush_of(i);
  if (vi.rx.receive_failed) {
    return spoil_receive(i, header.psn, vip::kProtectionError, Refusal::kDescriptor);
  }
  const std::uint32_t slot = vi.rx.receive_slot;
  vi.rx.receive_slot = kNone;
  vi.rx.in_message = 0;
  ++root_->counters.messages_received;
  root_->counters.bytes_received += header.message_length;
  if (vi.rx.redirect == Redirect::kPending) [[unlikely]] vi.rx.redirect = Redirect::kUsed;
  const bool immediate = (header.flags & wire::kFlagImmediate) != 0;
  completions_.complete(i, true, slot,
                        vip::kOpReceive | (immediate ? vip::kImmediate : std::uint32_t{0}),
                        header.message_length, header.immediate, inline_length);
  return true;
}

// The receive completes with an error, and on the reliable levels the connection ends with it.
// Always false.
template <class Platform>
bool Receiver<Platform>::spoil_receive(ViIndex i, std::uint32_t psn, std::uint32_t status,
                                       Refusal reason) {
  Vi& vi = vis_[i];
  placer_.flush_of(i);
  const std::uint32_t slot = vi.rx.receive_slot;
  if (status == vip::kProtectionError) {
    const std::uint64_t descriptor = view(vi).slot(slot).request.descriptor;
    completions_.report(i, vip::kCompletionProtection, {descriptor, layout::kOpReceive, 0});
  }
  if (vi.rx.message_received != 0) status |= vip::kPartialError;
  vi.rx.receive_slot = kNone;
  vi.rx.in_message = 0;
  if (vi.rx.redirect == Redirect::kPending) vi.rx.redirect = Redirect::kNone;
  const bool of_write = (status & vip::kRdmaProtectionError) != 0;
  if (!of_write) ++root_->counters.drop_bad_descriptor;
  completions_.complete(i, true, slot, of_write ? status : status | vip::kOpReceive, 0, 0, 0);
  if (vi.reliability != vip::kUnreliable) {
    pending_disconnect_.end(i, End::kFailed, vip::kConnectionLost, psn, static_cast<std::uint32_t>(reason),
                 packed_index_);
  }
  return false;
}

}  // namespace viaduct
