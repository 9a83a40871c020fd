// Packing: small messages that wait behind each other share a frame.
//
// One that travels inline and has another such behind it. Each is in flight for itself, with the
// frame's PSN. Needs what stack_send.cc has: stack_all.cc includes it behind that.
#include <cstring>

#include "kagent/stack/stack.h"

namespace viaduct {

// On Reliable Reception the acknowledgement speaks of one message's memory.
bool Stack::may_pack(const Vi& vi, const Message& message) const {
  return message.inline_data != nullptr && vi.reliability != vip::kReliableReception &&
         (message.flags & layout::kSlotFence) == 0 &&
         2 * wire::kPackedBytes + message.length <= vi.payload;
}

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

}  // namespace

void Stack::submit_packed(ViIndex i, Frame& frame, std::uint32_t psn, std::size_t bytes,
                          bool ask) {
  Vi& vi = vis_[i];
  wire::Header header{};
  header.type = wire::Type::kData;
  fill_header(vi, header);
  header.flags = wire::kFlagPacked | wire::kFlagFirst | wire::kFlagLast | wire::kOpSend;
  header.flags |= checked_flag(vi);
  if (ask) header.flags |= wire::kFlagAckNow;
  header.psn = psn;
  header.message_length = static_cast<std::uint32_t>(bytes);
  header.payload_length = static_cast<std::uint16_t>(bytes);
  submit_frame(frame,
               wire::encode(header, vi.peer_address, address_, ether_type_, frame.data));
  ++root_->counters.data_frames_sent;
}

// The message that was just begun and those behind it in one frame. False, and nothing done, if
// there is none behind it that will do. `more`: something else waits.
[[gnu::noinline]] bool Stack::send_packed(ViIndex i, const Message& first, std::uint32_t room, bool& more) {
  Vi& vi = vis_[i];
  const layout::RingEntry* const ring = view(vi).send_ring(i);
  Message next;
  std::uint32_t slot;
  const auto another = [&](std::size_t at) {
    return next_posted(vi, ring, vi.send.taken, slot) &&
           vi.send.taken - vi.send.completed != kWindow && load_message(vi, slot, next) == 0 &&
           may_pack(vi, next) && at + wire::kPackedBytes + next.length <= vi.payload;
  };
  std::size_t at = wire::kPackedBytes + first.length;
  if (!another(at)) return false;
  Frame frame;
  if (!reserve_frame(frame)) return false;
  std::byte* const payload = payload_of(frame);
  pack(first, payload, 0);
  std::uint32_t messages = 1, bytes = first.length;
  do {
    at = pack(next, payload, at);
    ++messages;
    bytes += next.length;
    in_flight(i, vi.send.taken) = {slot, vi.send_next, 1, next.length, next.op, 0};
    ++vi.send.taken;
  } while (at + wire::kPackedBytes < vi.payload && another(at));
  more = more_to_send(i);
  const bool unreliable = vi.reliability == vip::kUnreliable;
  const bool ask = unreliable ? asks_for_credit(vi, room, 1) : !more || room == 1;
  submit_packed(i, frame, vi.send_next, at, ask);
  root_->counters.messages_sent += messages;
  root_->counters.messages_packed += messages;
  root_->counters.bytes_sent += bytes;
  vi.current_slot = kNone;
  ++vi.send_next;
  note_sent(i);
  while (unreliable && vi.send.completed != vi.send.taken) {
    finish_unreliable(i);
  }
  return true;
}

// Whether the message at a position of the send queue went with this frame, as others did.
bool Stack::shares_frame(ViIndex i, std::uint32_t position, std::uint32_t psn) {
  return position != vis_[i].send.taken && in_flight(i, position).first_psn == psn &&
         in_flight(i, position).frames == 1;
}

// The same frame again, from the same slots. `failed` is the one with `error`.
[[gnu::noinline]] Stack::Sent Stack::resend_packed(ViIndex i, std::uint32_t position, bool ask,
                                 std::uint32_t& failed, std::uint32_t& error) {
  Vi& vi = vis_[i];
  const std::uint32_t psn = in_flight(i, position).first_psn;
  Frame frame;
  if (!reserve_frame(frame)) return Sent::kSome;
  std::size_t at = 0;
  for (std::uint32_t p = position; shares_frame(i, p, psn); ++p) {
    Message message;
    failed = in_flight(i, p).slot;
    error = load_message(vi, failed, message);
    // A program that changed the request after posting it has broken its own connection.
    if (error == 0 && (message.length != in_flight(i, p).length || !may_pack(vi, message) ||
                       at + wire::kPackedBytes + message.length > vi.payload)) {
      error = vip::kLengthError;
    }
    if (error != 0) {
      port_.cancel({&frame, 1});
      return Sent::kUnreadable;
    }
    at = pack(message, payload_of(frame), at);
  }
  submit_packed(i, frame, psn, at, ask);
  return Sent::kAll;
}

}  // namespace viaduct
