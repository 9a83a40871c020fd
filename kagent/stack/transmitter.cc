#include "kagent/stack/transmitter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kagent/stack/congestion.h"
#include "kagent/stack/delay.h"

namespace viaduct {

using state::Path;
using state::Vi;
using state::kNone;
using state::kWindow;

namespace {

// Appends a message to a packed frame's payload. Returns where the next one goes.
template <class Message>
std::size_t pack(const Message& message, std::byte* payload, std::size_t at) {
  const bool immediate = (message.flags & layout::kSlotImmediate) != 0;
  wire::encode(wire::PackedHeader{static_cast<std::uint16_t>(message.length),
                                  immediate ? wire::kPackedImmediate : std::uint16_t{0},
                                  immediate ? message.immediate : 0},
               payload + at);
  std::memcpy(payload + at + wire::kPackedBytes, message.inline_data, message.length);
  return at + wire::kPackedBytes + message.length;
}

constexpr unsigned kQuantum = 64;  // frames of one VI in one round

constexpr unsigned kBatch = 32;    // frames built at once

constexpr std::uint32_t kLocalPack = 2048;  // bytes of small messages that share a frame on the local path
// How long the local path may be full before a frame is lost that would not be sent again. On a busy machine a
// program is kept off the processors for long.
constexpr std::uint64_t kLocalPatience = 200'000'000;  // ns

constexpr unsigned kPathPatience = 5;  // waits for credit in vain, in a row: 23 ms

std::uint32_t pack_limit(const Vi& vi) {
  return vi.tx.path == Path::kLocal ? kLocalPack : vi.link.payload;
}

// By train a VI sends more frames in one round, so that trains are as long as can be. While the peer has nothing to
// do yet trains are shorter: it begins with the first while the next is made. But each train costs some 5 us whatever
// its length, and more if the peer's processor is busy with the one before.
constexpr unsigned kTrainQuantum = 88;
constexpr unsigned kFirstTrains = kBatch;
// A message of Unreliable Delivery that fits into one train, of 64 KB in frames of 1500 bytes, is not cut: its sender is
// often busy with streams, and pays for each train.
constexpr unsigned kWholeTrain = 45;

constexpr std::uint64_t kIdle = 250'000'000;  // ns

// A window that losses have narrowed is not to be sent and acknowledged in one burst.
bool is_narrow(const Vi& vi) {
  return vi.tx.losses != state::Losses::kNone && vi.tx.congestion_window < kWindow;
}

// The window is sent in parts, each of which asks for its acknowledgement. Where the queue is kept short there is another
// one on its way while the acknowledgement of the first one comes.
bool has_parts(const Vi& vi) { return is_narrow(vi) || vi.tx.keeps_queue_short != 0; }

std::uint32_t part_of_window(const Vi& vi) {
  constexpr std::uint32_t kParts = 4, kPartsOfShort = 2;
  const std::uint32_t window = vi.tx.congestion_window;
  return vi.tx.keeps_queue_short != 0 ? (window + 1) / kPartsOfShort : window / kParts + 1;
}

// Without losses the other one is no longer than what the network carries without a queue, and does not ask: each end works
// less often, and the queue is as short.
bool has_long_parts(const Vi& vi) { return vi.tx.keeps_queue_short != 0 && vi.tx.losses == state::Losses::kNone; }

std::uint32_t frames_behind_part(const Vi& vi) {
  return std::min(congestion::carried(vi), vi.tx.congestion_window / 2u) + 1;
}

// How many of them are yet to be sent.
std::uint32_t left_behind_part(const Vi& vi) {
  if (static_cast<std::int32_t>(vi.tx.asked - vi.tx.send_una) <= 0) return 0;
  const std::uint32_t sent = vi.tx.send_next - vi.tx.asked, all = frames_behind_part(vi);
  return all > sent ? all - sent : 0;
}

// The most frames to be sent together.
std::uint32_t part_to_send(const Vi& vi, std::uint32_t room) {
  if (!has_long_parts(vi)) return part_of_window(vi);
  if (const std::uint32_t left = left_behind_part(vi); left != 0) return left;
  const std::uint32_t behind = frames_behind_part(vi);
  return room > behind ? room - behind : room;
}

// Whether an acknowledgement that is under way will soon make room: frames that fill a wide window need not ask for
// another one.
bool has_asked(const Vi& vi, std::uint32_t frames) {
  constexpr std::uint32_t kShare = 4;  // of the window
  return static_cast<std::int32_t>(vi.tx.asked - vi.tx.send_una) > 0 &&
         vi.tx.send_next + frames - vi.tx.asked < vi.tx.congestion_window / kShare;
}

// Whether a part of the window ends in the next frames.
bool ends_part(const Vi& vi, std::uint32_t room, std::uint32_t frames) {
  if (has_long_parts(vi)) return left_behind_part(vi) == 0 && room - frames <= frames_behind_part(vi);
  return room <= frames || vi.tx.send_next % part_of_window(vi) + frames >= part_of_window(vi);
}

// Whether the newest frame, which is sent again after a timeout, goes by train as it did before: if frames on that
// way are only late, it must not arrive before them.
bool probes_train(const Vi& vi, std::uint32_t psn) {
  return vi.tx.timeouts == 1 && psn + 1 == vi.tx.send_next && psn != vi.tx.send_una && went_by_train(vi, psn);
}

}  // namespace

// On Unreliable Delivery a later message can go by train only when the peer has said that this one has come.
template <class Platform>
bool Transmitter<Platform>::may_follow(const Vi& vi, const Message& message) const {
  return vi.link.credit != 0 && trains_.is_used(vi) &&
         (message.stream() > vi.link.payload || has_gone_by_train(vi));
}

// Long messages go by train while the peer can be reached so. Messages behind them do too until the long ones have
// been acknowledged, so that nothing arrives before what was sent earlier.
template <class Platform>
bool Transmitter<Platform>::goes_by_train(Vi& vi, std::uint32_t payload, std::uint32_t longest) {
  if (vi.tx.train_frames != 0) [[unlikely]] {
    if (follows_train(vi)) return trains_.is_kept(vi) && longest + wire::kLessByTrain <= vi.link.payload;
  }
  return payload < vi.link.payload && may_begin_train(vi);
}

// A message may change to trains in its middle, if the way was found only then.
template <class Platform>
bool Transmitter<Platform>::may_begin_train(const Vi& vi) const {
  return trains_.is_used(vi) &&
         (vi.reliability != vip::kUnreliable || vi.tx.send_una == vi.tx.send_next);
}

template <class Platform>
bool Transmitter<Platform>::follows_train(Vi& vi) {
  if (has_gone_by_train(vi)) return true;
  vi.tx.train_frames = 0;
  return false;
}

// Submits frames that are sent for the first time, up to `end_psn`.
template <class Platform>
void Transmitter<Platform>::submit(Vi& vi, std::span<const Frame> frames, std::uint32_t end_psn,
                                   bool by_train) {
  if (!by_train) [[likely]] return frames_out_.submit(vi, frames);
  frames_out_.note_submitted();
  frames_out_.end_bundle();
  submit_by_train(vi, frames, end_psn);
}

template <class Platform>
void Transmitter<Platform>::submit_by_train(Vi& vi, std::span<const Frame> frames,
                                            std::uint32_t end_psn) {
  note_train(vi, end_psn, static_cast<std::uint32_t>(frames.size()));
  bulk_path_.submit_bulk(frames, wire::add_checksum);
}

// Notes that the `count` frames before `end_psn` go by train.
template <class Platform>
void Transmitter<Platform>::note_train(Vi& vi, std::uint32_t end_psn, std::uint32_t count) {
  std::uint32_t begin = vi.tx.train_frames != 0 ? train_begin(vi) : end_psn - count;
  if (static_cast<std::int32_t>(vi.tx.send_una - begin) > 0) begin = vi.tx.send_una;
  vi.tx.train_frames = static_cast<std::uint16_t>(end_psn - begin);
  vi.tx.train_end = end_psn;
  root_->counters.train_frames_sent += count;
}

template <class Platform>
void Transmitter<Platform>::submit_packed(ViIndex i, Frame& frame, std::uint32_t psn,
                                          std::size_t bytes, bool ask, bool by_train) {
  Vi& vi = vis_[i];
  wire::Header header{};
  header.type = wire::Type::kData;
  acknowledger_.fill_header(vi, header);
  header.flags = wire::kFlagPacked | wire::kFlagFirst | wire::kFlagLast | wire::kOpSend;
  header.flags |= checked_flag(vi, by_train);
  if (ask) header.flags |= wire::kFlagAckNow;
  header.psn = psn;
  header.message_length = static_cast<std::uint32_t>(bytes);
  header.payload_length = static_cast<std::uint16_t>(bytes);
  frame.length = static_cast<std::uint32_t>(
      wire::encode(header, vi.link.peer_address, address_, ether_type_, frame.data));
  submit(vi, {&frame, 1}, psn + 1, by_train);
  ++root_->counters.data_frames_sent;
}

// Sends the message that was just begun and those behind it in one frame. False, and nothing is sent, if no suitable
// message is behind it. `more`: something else waits.
template <class Platform>
bool Transmitter<Platform>::send_packed(ViIndex i, const Message& first,
                                                       std::uint32_t room, bool& more) {
  Vi& vi = vis_[i];
  const layout::RingEntry* const ring = view(vi).send_ring(i);
  const bool by_train = goes_by_train(vi, vi.link.payload, 0);
  const std::uint32_t most = pack_limit(vi) - (by_train ? wire::kLessByTrain : 0);
  Message next;
  std::uint32_t slot;
  const auto another = [&](std::size_t at) {
    return next_posted(vi, ring, vi.tx.send.taken, slot) &&
           vi.tx.send.taken - vi.tx.send.completed != kWindow &&
           send_queue_.load_message(vi, slot, next) == 0 && send_queue_.may_pack(vi, next) &&
           at + wire::kPackedBytes + next.length <= most;
  };
  std::size_t at = wire::kPackedBytes + first.length;
  if (!another(at)) return false;
  Frame frame;
  if (!frames_out_.reserve_frame(vi, most, frame)) return false;
  std::byte* const payload = payload_of(frame);
  pack(first, payload, 0);
  std::uint32_t messages = 1, bytes = first.length;
  do {
    at = pack(next, payload, at);
    ++messages;
    bytes += next.length;
    in_flight(i, vi.tx.send.taken) = {slot,        vi.tx.send_next,  1,
                                      next.length, vi.link.payload, static_cast<std::uint8_t>(next.op), 0};
    ++vi.tx.send.taken;
  } while (at + wire::kPackedBytes < most && another(at));
  more = send_queue_.more_to_send(i);
  const bool unreliable = vi.reliability == vip::kUnreliable;
  const bool ask = unreliable ? send_credit_.asks_for_credit(vi, room, 1) ||
                                    (vi.tx.path == Path::kSameHost && asks_for_path(vi, 1))
                              : (!more && !is_patient(i)) || room == 1;
  submit_packed(i, frame, vi.tx.send_next, at, ask, by_train);
  root_->counters.messages_sent += messages;
  root_->counters.messages_packed += messages;
  root_->counters.bytes_sent += bytes;
  vi.tx.current_slot = kNone;
  ++vi.tx.send_next;
  note_sent(i, ask);
  while (unreliable && vi.tx.send.completed != vi.tx.send.taken) {
    send_queue_.finish_unreliable(i);
  }
  return true;
}

// Sends a packed frame again, from the same slots. `failed` is the message that has the `error`.
template <class Platform>
Sent Transmitter<Platform>::resend_packed(ViIndex i, std::uint32_t position,
                                                         bool ask, std::uint32_t& failed,
                                                         std::uint32_t& error) {
  Vi& vi = vis_[i];
  const std::uint32_t psn = in_flight(i, position).first_psn;
  Frame frame;
  if (!frames_out_.reserve_frame(vi, pack_limit(vi), frame)) return Sent::kSome;
  std::size_t at = 0;
  for (std::uint32_t p = position; send_queue_.shares_frame(i, p, psn); ++p) {
    Message message;
    failed = in_flight(i, p).slot;
    error = send_queue_.load_message(vi, failed, message);
    // A program that changed the request after posting it has broken its own connection.
    if (error == 0 &&
        (message.length != in_flight(i, p).length || !send_queue_.may_pack(vi, message) ||
         at + wire::kPackedBytes + message.length > pack_limit(vi))) {
      error = vip::kLengthError;
    }
    if (error != 0) {
      port_.cancel({&frame, 1});
      return Sent::kUnreadable;
    }
    at = pack(message, payload_of(frame), at);
  }
  submit_packed(i, frame, psn, at, ask, probes_train(vi, psn));
  return Sent::kAll;
}

template <class Platform>
bool Transmitter<Platform>::await_read(ViIndex i) {
  return environment_.await_read(
      {i, vis_[i].generation, vis_[i].program, Platform::Environment::Late::What::kSend});
}

// The message that the VI goes on with, or the next one. False: there is none, or it has failed.
template <class Platform>
bool Transmitter<Platform>::load_next(ViIndex i, Message& message) {
  Vi& vi = vis_[i];
  if (vi.tx.current_slot == kNone) {
    if (vi.tx.path == Path::kSameHost && !choose_path(i)) [[unlikely]] return false;
    return vi.tx.response_begun != vi.tx.response_next ? send_queue_.begin_response(i, message)
                                                       : send_queue_.begin_message(i, message);
  }
  if (const std::uint32_t error = send_queue_.load_current(vi, vi.tx.current_slot, message)) {
    send_queue_.fail_current(i, vi.tx.current_slot, error);
    return false;
  }
  message.payload = send_queue_.current_payload(i);
  return true;
}

// There is no room for a frame: the VI becomes ready again when room is made.
template <class Platform>
void Transmitter<Platform>::await_send_room(ViIndex i) {
  Vi& vi = vis_[i];
  vi.tx.stalled = 1;
  if (vi.reliability == vip::kUnreliable && (vi.tx.current_slot != kNone || send_queue_.more_to_send(i))) {
    send_credit_.await_credit(i);
  }
}

// Whether the last of the next frames asks for an acknowledgement, or on Unreliable Delivery for credit. `ends`: they
// end the message; `more`: something is to be sent behind them.
template <class Platform>
bool Transmitter<Platform>::asks(ViIndex i, const Message& message, std::uint32_t room, unsigned wanted, bool ends,
                                 bool more) {
  Vi& vi = vis_[i];
  if (vi.reliability == vip::kUnreliable) {
    return send_credit_.asks_for_credit(vi, room, wanted) || (ends && may_follow(vi, message)) ||
           (ends && vi.tx.path == Path::kSameHost && asks_for_path(vi, wanted));
  }
  if (!more && !is_patient(i)) return true;
  if (has_parts(vi)) return ends_part(vi, room, wanted);
  return room <= wanted && !has_asked(vi, wanted);
}

// Whether the program waits for no completion of what is sent now (VipxSetPatient). Once frames are lost, their
// acknowledgements tell soon.
template <class Platform>
bool Transmitter<Platform>::is_patient(ViIndex i) const {
  const Vi& vi = vis_[i];
  return vi.tx.path == Path::kNetwork && vi.tx.losses == state::Losses::kNone &&
         view(vi).vi(i).send.patient.load(std::memory_order_relaxed) == vi.generation;
}

// Notes that `n` frames of the current message have been sent.
template <class Platform>
void Transmitter<Platform>::advance(ViIndex i, const Message& message, unsigned n, bool ask, Sent result) {
  Vi& vi = vis_[i];
  vi.tx.send_next += n;
  vi.tx.current_sent += n;
  const std::uint64_t sent_before = vi.tx.sent_time;
  if (n != 0) note_sent(i, ask);
  // Frames behind one that was given up need not wait as long as it did.
  if (result == Sent::kGivenUp) [[unlikely]] vi.tx.sent_time = sent_before;
  if (vi.tx.current_sent != vi.tx.current_frames) return;
  ++root_->counters.messages_sent;
  root_->counters.bytes_sent += message.data;
  vi.tx.current_slot = kNone;
  if (vi.reliability == vip::kUnreliable) send_queue_.finish_unreliable(i);
}

// Sends what this VI may send now. True if it could go on at once in the next round.
template <class Platform>
bool Transmitter<Platform>::transmit(ViIndex i, unsigned& sent) {
  Vi& vi = vis_[i];
  if (!vi.tx.lost.empty() && !retransmit(i, sent)) return !pending_disconnect_.pending();
  if (vi.reliability == vip::kUnreliable) {
    send_credit_.renew_credit(vi);
  } else if (vi.tx.send_una == vi.tx.send_next && now_ - vi.tx.progress_time > kIdle) {
    // The window was measured too long ago: begin a new one.
    vi.tx.progress_time = now_;
    const std::uint16_t window = vi.tx.congestion_window;
    congestion::begin_window(vi);
    delay::go_on(vi, delay(i), window);
  }
  Message message;
  bool quantum_of_trains = false;
  for (unsigned quantum = kQuantum; quantum > 0;) {
    const std::uint32_t room = send_queue_.send_room(vi);
    if (room == 0) return await_send_room(i), false;
    if (!load_next(i, message)) return false;
    const std::uint32_t first_psn = vi.tx.send_next - vi.tx.current_sent;
    const bool by_train = goes_by_train(vi, message.payload, std::min(message.payload, message.stream()));
    const bool whole = vi.reliability == vip::kUnreliable && vi.tx.current_frames <= kWholeTrain;
    const bool first_trains = by_train && vi.tx.send_una == first_psn && !whole;
    if (by_train && !std::exchange(quantum_of_trains, true)) quantum += kTrainQuantum - kQuantum;
    const unsigned batch = vi.tx.path == Path::kLocal ? 1 : first_trains ? kFirstTrains : kBatch;
    unsigned wanted = std::min({quantum, room, vi.tx.current_frames - vi.tx.current_sent, batch});
    if (has_parts(vi)) wanted = std::min(wanted, part_to_send(vi, room));
    // The doorbell announces descriptors posted from now on.
    const bool ends = wanted == vi.tx.current_frames - vi.tx.current_sent;
    const bool more = !ends || send_queue_.more_to_send(i);
    if (more && vi.tx.current_sent == 0 && send_queue_.may_pack(vi, message)) {
      bool another = false;
      if (send_packed(i, message, room, another)) {
        ++sent;
        --quantum;
        if (!another) return false;
        continue;
      }
    }
    unsigned n = 0;
    const bool ask = asks(i, message, room, wanted, ends, more);
    const Sent result =
        send_frames(i, message, vi.tx.current_sent, first_psn, wanted, ask, by_train, n);
    if (result == Sent::kUnreadable) {
      send_queue_.fail_current(i, vi.tx.current_slot, vip::kProtectionError);
      return false;
    }
    if (first_trains) frames_out_.flush();
    sent += n;
    quantum -= n;
    advance(i, message, n, ask && n == wanted, result);
    if (result == Sent::kSome) return vi.tx.path != Path::kLocal || await_room(vi);
    if (!more) return false;
  }
  return vi.tx.current_slot != kNone || send_queue_.more_to_send(i);
}

// A frame on a new path may overtake those on the old one, so a new path is taken when nothing is under way. On
// Unreliable Delivery the peer is asked whether that is so, and if no answer comes the path stays.
template <class Platform>
bool Transmitter<Platform>::choose_path(ViIndex i) {
  Vi& vi = vis_[i];
  if (!may_go_local(vi)) return true;
  if (vi.tx.send_una == vi.tx.send_next) {
    peer_table_.take_local_path(vi);
    return true;
  }
  if (vi.reliability == vip::kUnreliable) {
    if (vi.tx.asked != vi.tx.send_next) return true;
    if (vi.tx.timeouts >= kPathPatience) {
      vi.tx.path = Path::kByKernel;
      return true;
    }
    send_credit_.await_credit(i);
  }
  vi.tx.stalled = 1;
  return false;
}

template <class Platform>
bool Transmitter<Platform>::may_go_local(const Vi& vi) const {
  return (vi.reliability != vip::kUnreliable || vi.link.credit != 0) &&
         bulk_path_.payload_limit(vi.link.peer_address) > port_.mtu();
}

// Whether the last of these frames asks for credit, so that the path can change. They end a message on Unreliable
// Delivery.
template <class Platform>
bool Transmitter<Platform>::asks_for_path(Vi& vi, std::uint32_t frames) {
  if (!may_go_local(vi)) return false;
  vi.tx.asked = vi.tx.send_next + frames;
  return true;
}

template <class Platform>
typename Transmitter<Platform>::Room Transmitter<Platform>::local_room(const Vi& vi, std::uint32_t payload,
                                                                       Frame& frame) {
  if (frames_out_.reserve_frame(vi, payload, frame)) return Room::kYes;
  const bool waits = vi.reliability != vip::kUnreliable && vi.tx.send_una != vi.tx.send_next;
  if (waits || now_ - vi.tx.sent_time < kLocalPatience) return Room::kNotYet;
  ++root_->counters.local_given_up;
  return Room::kGivenUp;
}

// Waits until the local path has room: the receiver acknowledges frames that it takes out of the ring, which ends the
// wait.
template <class Platform>
bool Transmitter<Platform>::await_room(Vi& vi) {
  if (vi.reliability == vip::kUnreliable || vi.tx.send_una == vi.tx.send_next) return true;
  vi.tx.stalled = 1;
  return false;
}

// Notes that frames up to send_next have just been sent for the first time.
template <class Platform>
void Transmitter<Platform>::note_sent(ViIndex i, bool asked) {
  Vi& vi = vis_[i];
  vi.tx.sent_time = now_;
  if (vi.reliability == vip::kUnreliable) return;
  if (asked) vi.tx.asked = vi.tx.send_next;
  const bool was_patient = vi.tx.patient != 0;
  vi.tx.patient = !asked && is_patient(i);
  // An acknowledgement that was not asked for may be late, so a frame that asks is timed if there is one.
  if ((vi.tx.sample_time == 0 && vi.tx.patient == 0) || (asked && vi.tx.sample_asked == 0)) {
    vi.tx.sample_asked = asked;
    vi.tx.sample_time = now_;
    vi.tx.sample_psn = vi.tx.send_next - 1;
  }
  if (!wheel_.armed(vi_timer(i)) || (was_patient && vi.tx.patient == 0)) loss_recovery_.restart_timer(i);
}

// Copies the data of frames from number `first` on out of the program. False: it can't be read, or not now.
template <class Platform>
bool Transmitter<Platform>::read_data(ViIndex i, const Message& message, std::uint32_t first,
                                      std::uint32_t first_psn, std::span<const Frame> frames) {
  const auto n = static_cast<unsigned>(frames.size());
  const std::uint32_t begin = message.data_begin(first), end = message.data_end(first + n - 1);
  if (message.inline_data != nullptr) {
    for (unsigned f = 0; f < n; ++f) {
      const std::uint32_t at = message.data_begin(first + f);
      std::memcpy(payload_of(frames[f]), message.inline_data + at, message.data_end(first + f) - at);
    }
    return true;
  }
  if (end <= begin) return true;
  iovec local[kBatch], remote[layout::kMaxSegments];
  unsigned locals = 0, remotes = 0;
  for (unsigned f = 0; f < n; ++f) {
    const std::uint32_t number = first + f;
    const std::uint32_t at = message.data_begin(number);
    local[locals++] = {payload_of(frames[f]) + (number == 0 ? message.prefix : 0),
                       message.data_end(number) - at};
  }
  std::uint32_t offset = 0;
  for (unsigned s = message.first_segment; s < message.segment_count; ++s) {
    const layout::Segment& segment = message.segments[s];
    const std::uint32_t from = std::max(begin, offset);
    const std::uint32_t to = std::min(end, offset + segment.length);
    if (from < to) {
      remote[remotes++] = {reinterpret_cast<void*>(segment.address + (from - offset)), to - from};
    }
    offset += segment.length;
  }
  using Reader = typename Platform::Environment::Reader;
  const Vi& vi = vis_[i];
  return environment_.read_program(vi.program, Reader{Reader::What::kFrames, i, vi.generation, first_psn},
                                   {remote, remotes}, {local, locals});
}

// The header of frames of a message; at() makes it that of one frame.
template <class Platform>
struct Transmitter<Platform>::Head {
  Head(const Vi& vi, const Message& message, std::uint32_t first_psn, bool by_train)
      : message(message), first_psn(first_psn), last(message.frames() - 1),
        flags(static_cast<std::uint16_t>(wire_op(message.op) | checked_flag(vi, by_train))) {
    header.type = wire::Type::kData;
    header.message_length = message.length;
    if ((message.flags & layout::kSlotImmediate) != 0) {
      flags |= wire::kFlagImmediate;
      header.immediate = message.immediate;
    }
  }
  const wire::Header& at(std::uint32_t number, bool ask) {
    header.flags = flags;
    if (number == 0) header.flags |= wire::kFlagFirst;
    if (number == last) header.flags |= wire::kFlagLast;
    if (ask) header.flags |= wire::kFlagAckNow;
    header.psn = first_psn + number;
    header.offset = message.data_begin(number);
    header.payload_length = static_cast<std::uint16_t>(message.data_end(number) - header.offset +
                                                       (number == 0 ? message.prefix : 0));
    return header;
  }

  wire::Header header{};
  const Message& message;
  const std::uint32_t first_psn, last;
  std::uint16_t flags;
};

// Writes the headers of frames from number `first` on, whose data is there.
template <class Platform>
void Transmitter<Platform>::write_headers(Vi& vi, const Message& message, std::uint32_t first,
                                          std::uint32_t first_psn, bool ask, bool by_train, std::span<Frame> frames) {
  const auto n = static_cast<unsigned>(frames.size());
  Head head(vi, message, first_psn, by_train);
  acknowledger_.fill_header(vi, head.header);
  for (unsigned f = 0; f < n; ++f) {
    frames[f].length = static_cast<std::uint32_t>(wire::encode(head.at(first + f, f + 1 == n && ask), vi.link.peer_address,
                                                               address_, ether_type_, frames[f].data));
  }
}

// Where the data of a message's frame lies in the program. Returns how many pieces it has; more than there is room for: it can't
// be said so.
inline std::size_t pieces_of(const Message& message, std::uint32_t begin, std::uint32_t end, std::span<iovec> out) {
  std::size_t count = 0;
  std::uint32_t offset = 0;
  for (unsigned s = message.first_segment; s < message.segment_count && offset < end; ++s) {
    const layout::Segment& segment = message.segments[s];
    const std::uint32_t from = std::max(begin, offset), to = std::min(end, offset + segment.length);
    offset += segment.length;
    if (from >= to) continue;
    if (count == out.size()) return count + 1;
    out[count++] = {reinterpret_cast<void*>(segment.address + (from - (offset - segment.length))), to - from};
  }
  return count;
}

// On Unreliable Delivery a send is done, and its data may change, before the train has left.
template <class Platform>
bool Transmitter<Platform>::may_send_in_place(const Vi& vi, const Message& message) const {
  return message.inline_data == nullptr && vi.reliability != vip::kUnreliable && !is_checked(vi, true) &&
         bulk_path_.takes_pieces_of(vi.program);
}

// Sends frames of a message by train as they lie in the program, without a copy of their own. Returns how many: the first that
// can't be sent so ends them.
template <class Platform>
unsigned Transmitter<Platform>::send_in_place(ViIndex i, const Message& message, std::uint32_t first, std::uint32_t first_psn,
                                              unsigned count, bool ask) {
  constexpr std::size_t kMostPieces = 8, kAround = wire::kEthernetBytes + wire::kHeaderBytes;
  Vi& vi = vis_[i];
  Head head(vi, message, first_psn, true);
  acknowledger_.fill_header(vi, head.header);
  unsigned n = 0;
  for (; n < count; ++n) {
    const std::uint32_t number = first + n;
    const wire::Header& header = head.at(number, n + 1 == count && ask);
    iovec pieces[kMostPieces];
    const std::size_t used = pieces_of(message, header.offset, message.data_end(number), pieces);
    std::byte bytes[kAround + wire::kRdmaBytes];
    const std::size_t prefix = number == 0 ? message.prefix : 0;
    if (used > kMostPieces || kAround + header.payload_length < wire::kMinFrameBytes) break;
    wire::encode(header, vi.link.peer_address, address_, ether_type_, bytes);
    if (prefix != 0) wire::encode(message.remote, bytes + kAround);
    if (!bulk_path_.submit_pieces({bytes, kAround + prefix}, {pieces, used})) break;
  }
  if (n == 0) return 0;
  frames_out_.note_submitted();
  note_train(vi, first_psn + first + n, n);
  root_->counters.data_frames_sent += n;
  return n;
}

// Builds and submits frames [first_frame, first_frame + count) of a message whose frame 0 has first_psn. `ask`:
// nothing follows that would bring the acknowledgement by itself, or credit is running out. `sent` says how many;
// fewer when the port has no more buffers.
template <class Platform>
Sent Transmitter<Platform>::send_frames(ViIndex i, const Message& message, std::uint32_t first_frame,
                                        std::uint32_t first_psn, unsigned count, bool ask,
                                        bool by_train, unsigned& sent) {
  Vi& vi = vis_[i];
  if (by_train && may_send_in_place(vi, message)) {
    frames_out_.end_bundle();
    sent = send_in_place(i, message, first_frame, first_psn, count, ask);
    if (sent != 0) return sent < count ? Sent::kSome : Sent::kAll;
  }
  Frame frames[kBatch];
  unsigned n = 1;
  if (vi.tx.path == Path::kLocal) {
    const std::uint32_t bytes = message.data_end(first_frame) - message.data_begin(first_frame) +
                                (first_frame == 0 ? message.prefix : 0);
    const Room room = local_room(vi, bytes, frames[0]);
    sent = room == Room::kGivenUp ? 1 : 0;
    if (room != Room::kYes) return room == Room::kGivenUp ? Sent::kGivenUp : Sent::kSome;
  } else {
    n = static_cast<unsigned>(port_.reserve({frames, count}));
    if (n < count) ++root_->counters.tx_postponed;
  }
  sent = n;
  if (n == 0) return Sent::kSome;
  if (!read_data(i, message, first_frame, first_psn, {frames, n})) {
    port_.cancel({frames, n});
    sent = 0;
    return environment_.postponed ? Sent::kSome : Sent::kUnreadable;
  }
  if (first_frame == 0 && message.prefix != 0) wire::encode(message.remote, payload_of(frames[0]));
  write_headers(vi, message, first_frame, first_psn, ask, by_train, {frames, n});
  submit(vi, {frames, n}, first_psn + first_frame + n, by_train);
  root_->counters.data_frames_sent += n;
  return n < count ? Sent::kSome : Sent::kAll;
}

// Finds the work request or response that a lost frame belongs to. False: it belongs to none any more. `position`:
// where the search begins in the send queue, and where it ended.
template <class Platform>
bool Transmitter<Platform>::find_lost(ViIndex i, std::uint32_t psn, std::uint32_t& position, Lost& lost) {
  Vi& vi = vis_[i];
  while (position != vi.tx.send.taken &&
         psn - in_flight(i, position).first_psn >= in_flight(i, position).frames) {
    ++position;
  }
  if (position != vi.tx.send.taken) {
    const state::InFlight& flight = in_flight(i, position);
    lost = {flight.slot, flight.first_psn, flight.length, flight.payload,
            send_queue_.shares_frame(i, position, psn) && send_queue_.shares_frame(i, position + 1, psn)};
    return true;
  }
  position = vi.tx.send.completed;  // the frame after it may be a work request's again
  const std::uint32_t r = send_queue_.response_with(i, psn);
  if (r == kNone) return false;
  const state::Response& answered = response(i, r);
  lost = {state::kResponse | r % state::kMaxReads, answered.first_psn, answered.length, answered.payload, false};
  return true;
}

// Sends one lost frame again. `error` is not 0 if that is impossible: the program has changed the request, or its
// data can't be read.
template <class Platform>
Sent Transmitter<Platform>::resend_one(ViIndex i, std::uint32_t psn, const Lost& lost, std::uint32_t& error) {
  Vi& vi = vis_[i];
  Message message;
  error = send_queue_.load_current(vi, lost.name, message);
  // A program that changed the request after posting it has broken its own connection.
  if (error == 0 && message.length != lost.length) error = vip::kLengthError;
  if (error != 0) return Sent::kUnreadable;
  message.payload = lost.payload;
  const bool last = psn - lost.first_psn + 1 == message.frames();
  const bool ask = send_queue_.send_room(vi) <= 1 || (last && !send_queue_.more_to_send(i));
  unsigned n = 0;
  const Sent result =
      send_frames(i, message, psn - lost.first_psn, lost.first_psn, 1, ask, probes_train(vi, psn), n);
  if (result == Sent::kUnreadable) error = vip::kProtectionError;
  return result;
}

// Sends again what is known to be lost. False when the port has no buffers or the VI has failed.
template <class Platform>
bool Transmitter<Platform>::retransmit(ViIndex i, unsigned& sent) {
  Vi& vi = vis_[i];
  std::uint32_t position = vi.tx.send.completed;
  for (std::uint32_t psn = vi.tx.send_una; psn != vi.tx.send_next; ++psn) {
    if (vi.tx.lost.empty()) break;
    if (!vi.tx.lost.has(psn)) continue;
    Lost lost;
    if (!find_lost(i, psn, position, lost)) continue;
    std::uint32_t error = 0;
    Sent result;
    if (lost.packed) {
      const bool ask = send_queue_.send_room(vi) <= 1 || !send_queue_.more_to_send(i);
      result = resend_packed(i, position, ask, lost.name, error);
    } else {
      result = resend_one(i, psn, lost, error);
    }
    if (result == Sent::kSome) return true;
    if (error != 0) {
      send_queue_.fail_current(i, lost.name, error);
      return false;
    }
    ++sent;
    ++root_->counters.retransmissions;
    vi.tx.lost.remove(psn);
    vi.tx.resent.add(psn);
    resent_mark(i, psn) = vi.tx.send_next << 16 | ++vi.tx.resends;
    if (vi.tx.smoothed_rtt != 0 && psn == vi.tx.sample_psn) vi.tx.sample_time = 0;
  }
  return true;
}

}  // namespace viaduct
