// A message that is being sent, and the frames that it is cut into.
#ifndef VIADUCT_KAGENT_STACK_MESSAGE_H
#define VIADUCT_KAGENT_STACK_MESSAGE_H

#include <atomic>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kagent/contract/session_layout.h"
#include "kagent/contract/wire.h"
#include "kagent/stack/vi_state.h"
#include "xdp/port.h"

namespace viaduct {

inline constexpr std::uint16_t kOpReadResponse = 4;  // beside layout::SlotOp

// A work request, copied from its slot and checked; or the answer to an RDMA read.
//
// The stack cuts a stream into frames: the RdmaHeader where there is one (`prefix` bytes), then
// `data` bytes from the segments.
struct Message {
  std::uint16_t op;  // layout::SlotOp, or kOpReadResponse
  std::uint16_t flags;
  std::uint32_t length;  // message length as the frames tell it
  std::uint32_t data;    // bytes that follow the prefix
  std::uint32_t prefix;
  std::uint32_t immediate;
  std::uint32_t payload;  // bytes in each of its frames but the last
  std::uint64_t
      stray_descriptor;  // the descriptor's address, if it lies outside its memory region; else 0
  unsigned first_segment;
  unsigned segment_count;
  const std::byte* inline_data;  // null: the data is where the segments say
  wire::RdmaHeader remote;
  layout::Segment segments[layout::kMaxSegments];

  std::uint32_t stream() const { return prefix + data; }
  std::uint32_t frames() const {
    return stream() == 0 ? 1 : (stream() + payload - 1) / payload;
  }
  // The data of a frame: where it begins in the message, and where it ends.
  std::uint32_t data_begin(std::uint32_t frame) const {
    const std::uint32_t at = frame * payload;
    return at > prefix ? at - prefix : 0;
  }
  std::uint32_t data_end(std::uint32_t frame) const {
    return std::min((frame + 1) * payload - prefix, data);
  }
};

inline std::uint16_t wire_op(std::uint16_t op) {
  switch (op) {
    case layout::kOpRdmaWrite:
      return wire::kOpRdmaWrite;
    case layout::kOpRdmaRead:
      return wire::kOpRdmaReadRequest;
    case kOpReadResponse:
      return wire::kOpRdmaReadResponse;
    default:
      return wire::kOpSend;
  }
}

// Whether data that goes this way has a checksum. A datagram of a train has one of its own.
inline bool is_checked(const state::Vi& vi, bool by_train) {
  return vi.tx.checked != 0 && !(by_train && vi.tx.plain_trains != 0);
}

inline std::uint16_t checked_flag(const state::Vi& vi, bool by_train) {
  return is_checked(vi, by_train) ? wire::kFlagChecked : std::uint16_t{0};
}

// Whether frames that went by train have not been acknowledged.
inline bool has_gone_by_train(const state::Vi& vi) {
  return vi.tx.train_frames != 0 &&
         static_cast<std::int32_t>(vi.tx.send_una - vi.tx.train_end) < 0;
}

// PSN of the first frame of those that have gone by train lately.
inline std::uint32_t train_begin(const state::Vi& vi) { return vi.tx.train_end - vi.tx.train_frames; }

inline bool went_by_train(const state::Vi& vi, std::uint32_t psn) {
  return psn - train_begin(vi) < vi.tx.train_frames;
}

inline std::byte* payload_of(const Frame& frame) {
  return frame.data + wire::kEthernetBytes + wire::kHeaderBytes;
}

}  // namespace viaduct

#endif
