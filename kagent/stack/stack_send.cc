// Sending: from a posted work request to frames.
//
// A VI with work stands in its session's ready list, and a session with such VIs in the list of those.
// Each round every session in it may send kSessionQuantum frames or so, each of its VIs up to kQuantum;
// the others wait for the next round. A VI leaves the list when it has nothing more to send or must
// wait for acknowledgements.
// A message's data is read from the program when its frames are built, also when they are built
// again: nothing is copied in between.
// Small messages that wait behind each other share a frame, see stack_packed.cc.
#include <algorithm>
#include <cstring>

#include "kagent/stack/stack.h"

namespace viaduct {

using state::kNone;
using state::kWindow;
using state::Vi;

namespace {

constexpr unsigned kQuantum = 64;  // frames of one VI in one round
constexpr unsigned kSessionQuantum = 128;  // of one session; a VI counts as a frame too
constexpr std::uint32_t kFlushedByBell = 64;
constexpr unsigned kBatch = 32;    // frames built at once
constexpr std::uint64_t kIdle = 250'000'000;  // ns
constexpr std::uint16_t kOpReadResponse = 4;  // beside layout::SlotOp

std::uint16_t wire_op(std::uint16_t op) {
  switch (op) {
    case layout::kOpRdmaWrite: return wire::kOpRdmaWrite;
    case layout::kOpRdmaRead: return wire::kOpRdmaReadRequest;
    case kOpReadResponse: return wire::kOpRdmaReadResponse;
    default: return wire::kOpSend;
  }
}

std::uint16_t checked_flag(const Vi& vi) {
  return vi.checked != 0 ? wire::kFlagChecked : std::uint16_t{0};
}

std::byte* payload_of(const Frame& frame) {
  return frame.data + wire::kEthernetBytes + wire::kHeaderBytes;
}

std::uint32_t count(const state::PsnSet& set) {
  std::uint32_t n = 0;
  for (const std::uint64_t word : set.words) n += static_cast<std::uint32_t>(__builtin_popcountll(word));
  return n;
}

}  // namespace

// A work request, copied from its slot and checked; or the answer to an RDMA read.
//
// What is cut into frames is a stream: the RdmaHeader where there is one (`prefix` bytes), then
// `data` bytes from the segments.
struct Stack::Message {
  std::uint16_t op;              // layout::SlotOp, or kOpReadResponse
  std::uint16_t flags;
  std::uint32_t length;          // message length as the frames tell it
  std::uint32_t data;            // bytes that follow the prefix
  std::uint32_t prefix;
  std::uint32_t immediate;
  std::uint64_t stray_descriptor;  // its address, if it does not lie in the region it should; else 0
  unsigned first_segment;
  unsigned segment_count;
  const std::byte* inline_data;  // null: the data is where the segments say
  wire::RdmaHeader remote;
  layout::Segment segments[layout::kMaxSegments];

  std::uint32_t frames(std::uint32_t payload) const {
    const std::uint32_t stream = prefix + data;
    return stream == 0 ? 1 : (stream + payload - 1) / payload;
  }
};

void Stack::make_ready(ViIndex i) {
  Vi& vi = vis_[i];
  vi.stalled = 0;
  if (vi.listed & state::kOnReadyList) return;
  vi.listed |= state::kOnReadyList;
  vi.ready_next = kNone;
  state::Session& session = sessions_[vi.session];
  (session.ready_head == kNone ? session.ready_head : vis_[session.ready_tail].ready_next) = i;
  session.ready_tail = i;
  list_ready(vi.session);
}

void Stack::list_ready(std::uint32_t s) {
  state::Session& session = sessions_[s];
  if (session.ready_listed) return;
  session.ready_listed = 1;
  session.ready_next = kNone;
  (root_->ready_head == kNone ? root_->ready_head : sessions_[root_->ready_tail].ready_next) = s;
  root_->ready_tail = s;
}

// The doorbell of a VI: something was posted on it.
void Stack::ring_send(ViIndex i) {
  if (vis_[i].state == vip::kConnected) return make_ready(i);
  flush_sends(i, kFlushedByBell);
  if (vis_[i].state == vip::kError) flush_receives(i, kFlushedByBell);
}

unsigned Stack::transmit_ready() {
  unsigned sent = 0;
  const std::uint32_t last = root_->ready_tail;
  for (bool more = root_->ready_head != kNone; more;) {
    const std::uint32_t s = root_->ready_head;
    more = s != last;
    root_->ready_head = sessions_[s].ready_next;
    sessions_[s].ready_listed = 0;
    transmit_session(s, sent);
  }
  return sent;
}

void Stack::transmit_session(std::uint32_t s, unsigned& sent) {
  state::Session& session = sessions_[s];
  const ViIndex last = session.ready_tail;
  const unsigned end = sent + kSessionQuantum;
  unsigned visited = 0;
  for (bool more = session.ready_head != kNone; more && sent + visited < end; ++visited) {
    const ViIndex i = session.ready_head;
    more = i != last;
    session.ready_head = vis_[i].ready_next;
    vis_[i].listed &= static_cast<std::uint8_t>(~state::kOnReadyList);
    if (vis_[i].session == kNone || vis_[i].state != vip::kConnected) continue;
    if (!transmit(i, sent)) continue;
    if (environment_.postponed && await_read(i)) [[unlikely]] continue;
    make_ready(i);
  }
  if (session.ready_head != kNone) list_ready(s);
}

bool Stack::await_read(ViIndex i) {
  return environment_.await_read(
      {i, vis_[i].generation, vis_[i].program, StackEnvironment::Late::What::kSend});
}

// Frames that may be sent now.
std::uint32_t Stack::send_room(const Vi& vi) const {
  const std::uint32_t outstanding = vi.send_next - vi.send_una;
  if (vi.reliability == vip::kUnreliable) {
    if (vi.credit == 0) return kWindow;
    return vi.peer_window > outstanding ? vi.peer_window - outstanding : 0;
  }
  std::uint32_t in_network = outstanding;
  std::uint32_t window = vi.congestion_window;
  if (!vi.sacked.empty()) {
    in_network -= count(vi.sacked);
    window = window_behind_gap(vi);
  }
  if (!vi.lost.empty()) in_network -= count(vi.lost);
  const std::uint32_t by_peer = std::max<std::uint32_t>(vi.peer_window, 1);
  window = std::min(window, by_peer);
  const std::uint32_t by_window = window > in_network ? window - in_network : 0;
  return std::min(by_window, kWindow - outstanding);
}

// The slot at a position of a work queue's ring, if one is posted there.
bool Stack::next_posted(const Vi& vi, const layout::RingEntry* ring, std::uint32_t position,
                        std::uint32_t& slot) const {
  const std::uint64_t word =
      ring[position % layout::kRingEntries].word.load(std::memory_order_acquire);
  if (!layout::ring_word_is(word, position, vi.generation)) return false;
  slot = layout::ring_word_slot(word);
  return slot < limits_.slots;
}

// Sends what this VI may send now. True if it could go on at once in the next round.
bool Stack::transmit(ViIndex i, unsigned& sent) {
  Vi& vi = vis_[i];
  if (!vi.lost.empty() && !retransmit(i, sent)) return vi.state == vip::kConnected;
  const bool unreliable = vi.reliability == vip::kUnreliable;
  if (unreliable) {
    renew_credit(vi);
  } else if (vi.send_una == vi.send_next && now_ - vi.progress_time > kIdle) {
    // What the network was like so long ago says nothing any more.
    vi.progress_time = now_;
    begin_window(vi);
  }
  Message message;
  for (unsigned quantum = kQuantum; quantum > 0;) {
    const std::uint32_t room = send_room(vi);
    if (room == 0) {
      vi.stalled = 1;
      if (unreliable && (vi.current_slot != kNone || more_to_send(i))) await_credit(i);
      return false;
    }
    if (vi.current_slot == kNone) {
      if (!(vi.response_begun != vi.response_next && begin_response(i, message)) &&
          !begin_message(i, message)) {
        return false;
      }
    } else if (const std::uint32_t error = load_current(vi, vi.current_slot, message)) {
      fail_current(i, vi.current_slot, error);
      return false;
    }
    const std::uint32_t first_psn = vi.send_next - vi.current_sent;
    unsigned wanted = std::min({quantum, room, vi.current_frames - vi.current_sent, kBatch});
    // A window that losses have narrowed is not to be sent and acknowledged in one burst.
    const bool narrow = vi.losses != state::Losses::kNone && vi.congestion_window < kWindow;
    if (narrow) wanted = std::min(wanted, vi.congestion_window / 4u + 1);
    // What is posted from now on is announced by the doorbell.
    const bool ends = wanted == vi.current_frames - vi.current_sent;
    const bool more = !ends || more_to_send(i);
    if (more && vi.current_sent == 0 && may_pack(vi, message)) {
      bool another = false;
      if (send_packed(i, message, room, another)) {
        ++sent;
        --quantum;
        if (!another) return false;
        continue;
      }
    }
    unsigned n = 0;
    const bool ask = unreliable ? asks_for_credit(vi, room, wanted)
                                : !more || narrow || room <= wanted;
    const Sent result = send_frames(i, message, vi.current_sent, first_psn, wanted, ask, n);
    if (result == Sent::kUnreadable) {
      fail_current(i, vi.current_slot, vip::kProtectionError);
      return false;
    }
    sent += n;
    quantum -= n;
    vi.send_next += n;
    vi.current_sent += n;
    if (n != 0) note_sent(i);
    if (vi.current_sent == vi.current_frames) {
      ++root_->counters.messages_sent;
      root_->counters.bytes_sent += message.data;
      vi.current_slot = kNone;
      if (unreliable) finish_unreliable(i);
    }
    if (result == Sent::kSome) return true;
    if (!more) return false;
  }
  return vi.current_slot != kNone || more_to_send(i);
}

// Frames up to send_next have just been sent for the first time.
void Stack::note_sent(ViIndex i) {
  Vi& vi = vis_[i];
  vi.sent_time = now_;
  if (vi.reliability == vip::kUnreliable) return;
  if (vi.sample_time == 0) {
    vi.sample_time = now_;
    vi.sample_psn = vi.send_next - 1;
  }
  if (!wheel_.armed(vi_timer(i))) restart_timer(i);
}

// Whether another message waits behind the current one.
bool Stack::more_to_send(ViIndex i) const {
  const Vi& vi = vis_[i];
  std::uint32_t slot;
  return vi.response_begun != vi.response_next ||
         next_posted(vi, view(vi).send_ring(i), vi.send.taken, slot);
}

// Takes the next work request from the ring. False if there is none, or none that can be sent now.
bool Stack::begin_message(ViIndex i, Message& message) {
  Vi& vi = vis_[i];
  std::uint32_t slot;
  if (!next_posted(vi, view(vi).send_ring(i), vi.send.taken, slot)) return false;
  vi.stalled = 1;
  // Behind an unanswered read, sends that are acknowledged can't complete and pile up.
  if (vi.send.taken - vi.send.completed == kWindow) return false;
  const std::uint32_t error = load_message(vi, slot, message);
  if (error != 0) {
    // Completions are in order, so earlier messages must be acknowledged first.
    if (vi.send.completed != vi.send.taken) return false;
    in_flight(i, vi.send.taken) = {slot, vi.send_next, 0, 0, message.op, 0};
    ++vi.send.taken;
    if (message.stray_descriptor != 0) {
      report(i, vip::kPostDescriptor, {message.stray_descriptor, message.op, 0});
    }
    if (vi.reliability != vip::kUnreliable) {
      fail_current(i, slot, error);
      return false;
    }
    complete(i, false, slot, error | vip::status_op(message.op), 0, 0, 0);
    make_ready(i);
    return false;
  }
  if (vi.reads != 0 && (message.flags & layout::kSlotFence)) return false;
  if (message.op == layout::kOpRdmaRead) {
    if (vi.reads == state::kMaxReads) return false;
    ++vi.reads;
  }
  vi.stalled = 0;
  vi.current_slot = slot;
  vi.current_frames = message.frames(vi.payload);
  vi.current_sent = 0;
  in_flight(i, vi.send.taken) = {slot,           vi.send_next, vi.current_frames,
                                 message.length, message.op,   0};
  ++vi.send.taken;
  return true;
}

// Takes up the next RDMA read of the peer. False if there is none.
bool Stack::begin_response(ViIndex i, Message& message) {
  Vi& vi = vis_[i];
  if (vi.response_begun == vi.response_next) return false;
  const std::uint32_t name = state::kResponse | vi.response_begun % state::kMaxReads;
  if (load_current(vi, name, message) != 0) {
    end_connection(i, End::kFailed, vip::kRdmaReadProtection, vi.receive_next,
                   static_cast<std::uint32_t>(wire::Refusal::kProtection));
    return false;
  }
  state::Response& response = this->response(i, vi.response_begun);
  ++vi.response_begun;
  vi.current_slot = name;
  vi.current_frames = message.frames(vi.payload);
  vi.current_sent = 0;
  response.first_psn = vi.send_next;
  response.frames = vi.current_frames;
  return true;
}

std::uint32_t Stack::load_current(const Vi& vi, std::uint32_t current, Message& out) const {
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
  return rdma_allowed(vi, answered.address, answered.handle, answered.length, false)
             ? 0
             : std::uint32_t{vip::kProtectionError};
}

// Copies a work request out of its slot and checks it. Returns 0 or the error's status bits;
// out.op is valid in any case.
std::uint32_t Stack::load_message(const Vi& vi, std::uint32_t slot, Message& out) const {
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
  if (!span_allowed(vi, descriptor, descriptor_handle, 32 + 16ull * out.segment_count)) {
    out.stray_descriptor = descriptor;
    return vip::kProtectionError;
  }
  std::uint64_t total = 0;
  for (unsigned s = out.first_segment; s < out.segment_count; ++s) total += out.segments[s].length;
  if (total != out.length || out.length > vi.max_transfer) return vip::kLengthError;
  for (unsigned s = out.first_segment; s < out.segment_count; ++s) {
    const layout::Segment& segment = out.segments[s];
    if (segment.length != 0 &&
        !span_allowed(vi, segment.address, segment.handle, segment.length)) {
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

// Builds and submits frames [first_frame, first_frame + count) of a message whose frame 0 has
// first_psn. `ask`: nothing follows that would bring the acknowledgement by itself, or credit is
// running out. `sent` says how
// many; fewer when the port has no more buffers.
Stack::Sent Stack::send_frames(ViIndex i, const Message& message, std::uint32_t first_frame,
                               std::uint32_t first_psn, unsigned count, bool ask,
                               unsigned& sent) {
  Vi& vi = vis_[i];
  Frame frames[kBatch];
  const auto n = static_cast<unsigned>(port_.reserve({frames, count}));
  sent = n;
  if (n < count) ++root_->counters.tx_postponed;
  if (n == 0) return Sent::kSome;

  // The data of a frame: where it begins in the message, and how much.
  const std::uint32_t prefix = message.prefix;
  const auto data_begin = [&](std::uint32_t frame) {
    const std::uint32_t at = frame * vi.payload;
    return at > prefix ? at - prefix : 0;
  };
  const auto data_end = [&](std::uint32_t frame) {
    return std::min((frame + 1) * vi.payload - prefix, message.data);
  };
  const std::uint32_t begin = data_begin(first_frame);
  const std::uint32_t end = data_end(first_frame + n - 1);
  if (message.inline_data != nullptr) {
    for (unsigned f = 0; f < n; ++f) {
      const std::uint32_t at = data_begin(first_frame + f);
      std::memcpy(payload_of(frames[f]), message.inline_data + at,
                  data_end(first_frame + f) - at);
    }
  } else if (end > begin) {
    iovec local[kBatch], remote[layout::kMaxSegments];
    unsigned locals = 0, remotes = 0;
    for (unsigned f = 0; f < n; ++f) {
      const std::uint32_t number = first_frame + f;
      const std::uint32_t at = data_begin(number);
      local[locals++] = {payload_of(frames[f]) + (number == 0 ? prefix : 0),
                         data_end(number) - at};
    }
    std::uint32_t offset = 0;
    for (unsigned s = message.first_segment; s < message.segment_count; ++s) {
      const layout::Segment& segment = message.segments[s];
      const std::uint32_t from = std::max(begin, offset);
      const std::uint32_t to = std::min(end, offset + segment.length);
      if (from < to) {
        remote[remotes++] = {reinterpret_cast<void*>(segment.address + (from - offset)),
                             to - from};
      }
      offset += segment.length;
    }
    if (!environment_.read_program(vi.program, {remote, remotes}, {local, locals})) {
      port_.cancel({frames, n});
      sent = 0;
      return environment_.postponed ? Sent::kSome : Sent::kUnreadable;
    }
  }
  if (first_frame == 0 && prefix != 0) wire::encode(message.remote, payload_of(frames[0]));

  const std::uint32_t all = message.frames(vi.payload);
  wire::Header header{};
  header.type = wire::Type::kData;
  fill_header(vi, header);
  header.message_length = message.length;
  const std::uint16_t op = wire_op(message.op);
  for (unsigned f = 0; f < n; ++f) {
    const std::uint32_t number = first_frame + f;
    header.flags = op | checked_flag(vi);
    if (number == 0) header.flags |= wire::kFlagFirst;
    if (message.flags & layout::kSlotImmediate) {
      header.flags |= wire::kFlagImmediate;
      header.immediate = message.immediate;
    }
    if (number + 1 == all) header.flags |= wire::kFlagLast;
    header.psn = first_psn + number;
    header.offset = data_begin(number);
    header.payload_length = static_cast<std::uint16_t>(data_end(number) - header.offset +
                                                       (number == 0 ? prefix : 0));
    if (f + 1 == n && ask) header.flags |= wire::kFlagAckNow;
    frames[f].length = static_cast<std::uint32_t>(
        wire::encode(header, vi.peer_address, address_, ether_type_, frames[f].data));
  }
  port_.submit({frames, n});
  submitted_ = true;
  root_->counters.data_frames_sent += n;
  return n < count ? Sent::kSome : Sent::kAll;
}

// What every frame of a connection carries. It brings the acknowledgement with it.
void Stack::fill_header(Vi& vi, wire::Header& header) {
  header.vi = vi.peer_vi;
  header.key = vi.peer_key;
  header.ack = vi.receive_next;
  header.window = vi.reliability == vip::kUnreliable ? credit_for(vi) : receive_window();
  vi.unacknowledged = 0;
  if (!vi.ack_gap) vi.ack_now = 0;
  vi.replied = 1;
}

// Sends again what is known to be lost. False when the port has no buffers or the VI has failed.
bool Stack::retransmit(ViIndex i, unsigned& sent) {
  Vi& vi = vis_[i];
  std::uint32_t position = vi.send.completed;
  for (std::uint32_t psn = vi.send_una; psn != vi.send_next; ++psn) {
    if (vi.lost.empty()) break;
    if (!vi.lost.has(psn)) continue;
    while (position != vi.send.taken &&
           psn - in_flight(i, position).first_psn >= in_flight(i, position).frames) {
      ++position;
    }
    std::uint32_t name, first_psn, length;
    bool packed = false;
    if (position != vi.send.taken) {
      const state::InFlight& flight = in_flight(i, position);
      name = flight.slot, first_psn = flight.first_psn, length = flight.length;
      packed = shares_frame(i, position, psn) && shares_frame(i, position + 1, psn);
    } else {
      position = vi.send.completed;  // the frame after it may be a work request's again
      const std::uint32_t r = response_with(i, psn);
      if (r == kNone) continue;
      const state::Response& answered = response(i, r);
      name = state::kResponse | r % state::kMaxReads;
      first_psn = answered.first_psn, length = answered.length;
    }
    Message message;
    std::uint32_t error = 0;
    if (packed) {
      const bool ask = send_room(vi) <= 1 || !more_to_send(i);
      if (resend_packed(i, position, ask, name, error) == Sent::kSome) return true;
    } else {
      error = load_current(vi, name, message);
    }
    // A program that changed the request after posting it has broken its own connection.
    if (!packed && error == 0 && message.length != length) error = vip::kLengthError;
    unsigned n = 0;
    if (!packed && error == 0) {
      const bool last = psn - first_psn + 1 == message.frames(vi.payload);
      const bool ask = send_room(vi) <= 1 || (last && !more_to_send(i));
      switch (send_frames(i, message, psn - first_psn, first_psn, 1, ask, n)) {
        case Sent::kAll: break;
        case Sent::kSome: return true;
        case Sent::kUnreadable: error = vip::kProtectionError; break;
      }
    }
    if (error != 0) {
      fail_current(i, name, error);
      return false;
    }
    ++sent;
    ++root_->counters.retransmissions;
    vi.lost.remove(psn);
    vi.resent.add(psn);
    resent_mark(i, psn) = vi.send_next << 16 | ++vi.resends;
    if (vi.smoothed_rtt != 0 && psn == vi.sample_psn) vi.sample_time = 0;
  }
  return true;
}

// The response whose frames include psn.
std::uint32_t Stack::response_with(ViIndex i, std::uint32_t psn) {
  const Vi& vi = vis_[i];
  for (std::uint32_t r = vi.response_first; r != vi.response_begun; ++r) {
    if (psn - response(i, r).first_psn < response(i, r).frames) return r;
  }
  return kNone;
}

void Stack::finish_unreliable(ViIndex i) {
  Vi& vi = vis_[i];
  const state::InFlight flight = in_flight(i, vi.send.completed);
  complete(i, false, flight.slot, vip::status_op(flight.op), flight.length, 0, 0);
}

// Completes, in order, what is acknowledged (and answered, if it is a read).
void Stack::complete_acknowledged(ViIndex i) {
  Vi& vi = vis_[i];
  while (vi.send.completed != vi.send.taken) {
    const state::InFlight& flight = in_flight(i, vi.send.completed);
    if (static_cast<std::int32_t>(vi.send_una - (flight.first_psn + flight.frames)) < 0) break;
    if (flight.op == layout::kOpRdmaRead && flight.read_done != state::kReadDone) break;
    complete(i, false, flight.slot, vip::status_op(flight.op), flight.length, 0, 0);
  }
  while (vi.response_first != vi.response_begun) {
    const state::Response& answered = response(i, vi.response_first);
    if (static_cast<std::int32_t>(vi.send_una - (answered.first_psn + answered.frames)) < 0) break;
    ++vi.response_first;
  }
}

// A send that was begun can't be finished. Unreliable delivery: an error of this descriptor.
// Otherwise: of the connection.
void Stack::fail_current(ViIndex i, std::uint32_t current, std::uint32_t status) {
  Vi& vi = vis_[i];
  if (current & state::kResponse) {
    end_connection(i, End::kFailed, vip::kRdmaReadProtection, vi.receive_next,
                   static_cast<std::uint32_t>(wire::Refusal::kProtection));
    return;
  }
  if (vi.reliability == vip::kUnreliable) {
    const std::uint16_t op = in_flight(i, vi.send.completed).op;
    if (current == vi.current_slot && vi.current_sent != 0) status |= vip::kPartialError;
    vi.current_slot = kNone;
    complete(i, false, current, status | vip::status_op(op), 0, 0, 0);
    make_ready(i);
    return;
  }
  vi.failed_slot = current;
  vi.failed_status = status;
  end_connection(i, End::kFailed, vip::kConnectionLost);
}

// The peer has refused the message that psn belongs to (of a packed frame the one with that index),
// or, if it is the answer to a read, the oldest read.
void Stack::note_refusal(ViIndex i, std::uint32_t psn, std::uint32_t index,
                         std::uint32_t reason) {
  Vi& vi = vis_[i];
  std::uint32_t refused = kNone;
  for (std::uint32_t p = vi.send.completed; p != vi.send.taken; ++p) {
    const state::InFlight& flight = in_flight(i, p);
    const bool read = flight.op == layout::kOpRdmaRead && !flight.read_done;
    if (read && refused == kNone) refused = p;
    if (psn - flight.first_psn >= flight.frames) continue;
    refused = p;
    // It has taken those before it in the frame.
    for (; index != 0 && shares_frame(i, refused + 1, psn); --index, ++refused) {
      if (vi.send.completed != refused) continue;
      const state::InFlight& taken = in_flight(i, refused);
      complete(i, false, taken.slot, vip::status_op(taken.op), taken.length, 0, 0);
    }
    break;
  }
  if (refused == kNone) return;
  const state::InFlight& flight = in_flight(i, refused);
  vi.failed_slot = flight.slot;
  vi.failed_status = vip::kTransportError;
  if (flight.op == layout::kOpRdmaRead || vi.reliability == vip::kReliableReception) {
    vi.failed_status = reason == static_cast<std::uint32_t>(wire::Refusal::kProtection)
                           ? vip::kRdmaProtectionError
                           : vip::kRemoteDescriptorError;
  }
}

}  // namespace viaduct
