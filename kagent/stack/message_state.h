// Messages that are under way.
#ifndef VIADUCT_KAGENT_STACK_MESSAGE_STATE_H
#define VIADUCT_KAGENT_STACK_MESSAGE_STATE_H

#include <cstdint>

namespace viaduct::state {

// kReadWritten: the answer to an RDMA read has come but is not yet in the program's memory. kReadDone: it is there.
inline constexpr std::uint8_t kReadWritten = 2, kReadDone = 1;

// A message between its first transmission and its completion.
struct InFlight {
  std::uint32_t slot;
  std::uint32_t first_psn;
  std::uint32_t frames;
  std::uint32_t length;
  std::uint16_t payload;     // bytes in each of its frames but the last
  std::uint8_t op;           // layout::SlotOp
  std::uint8_t read_done;    // RDMA read: kReadDone when all of the answer is in place
};

// An RDMA read that the peer has asked for and that is being answered.
struct Response {
  std::uint64_t address;
  std::uint32_t handle;
  std::uint32_t length;
  std::uint32_t first_psn;
  std::uint32_t frames;      // 0: the answer has not begun
  std::uint16_t payload;     // bytes in each of its frames but the last
};
inline constexpr std::uint32_t kMaxReads = 16;  // of one VI under way at once
inline constexpr std::uint32_t kResponse = 0x80000000;  // current_slot names a Response

}  // namespace viaduct::state

#endif
