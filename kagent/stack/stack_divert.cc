// Receives that are diverted: while a program waits for a message, its data goes where the program
// wants it, and not first to where the receive says.
//
// Only for a driver in the program, which calls these between two rounds of progress(): the program's
// memory is at hand, and the divert is in force, or over, when they return.
//
//   kNone --divert()--> kPending --message complete--> kUsed --undivert()--> kNone
//                          |  ^ what has come of the message already is moved there
//                          +--undivert(), message too long, receive used up--> kNone
#include <algorithm>
#include <utility>

#include "kagent/stack/stack.h"

namespace viaduct {

using state::Divert;
using state::kNone;
using state::Vi;

// The diverted receive, in place of what its slot says.
[[gnu::noinline, gnu::cold]] void Stack::diverted(const Vi& vi, Target& out) {
  out.segment_count = 1;
  out.segments[0] = {vi.divert_address, vi.divert_handle, vi.divert_length};
  out.capacity = vi.divert_length;
}

// A message begins: whether it goes there.
[[gnu::noinline, gnu::cold]] void Stack::begin_diverted(Vi& vi, std::uint32_t length,
                                                      Target& target) {
  if (length <= vi.divert_length &&
      span_allowed(vi, vi.divert_address, vi.divert_handle, vi.divert_length)) {
    diverted(vi, target);
  } else {
    vi.divert = Divert::kNone;
  }
}

// Whether a piece of a message lies in the receive that is next to complete.
bool Stack::receives_in_part(const Vi& vi) {
  return vi.receive_slot != kNone && vi.in_message && vi.message_op == wire::kOpSend;
}

// Moves what has come of a message. Reads and writes the program's memory.
bool Stack::move_received(const Vi& vi, const Target& from, const Target& to) {
  iovec source[layout::kMaxSegments], target[layout::kMaxSegments];
  const auto pieces = [&vi](const Target& of, iovec* out) {
    std::size_t left = vi.message_received, count = 0;
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

vip::Return Stack::divert(std::uint32_t i, std::uint32_t generation, const layout::Segment& to) {
  Vi* const vi = find_vi(0, i, generation);
  if (vi == nullptr || to.length == 0) return vip::kInvalidParameter;
  if (!span_allowed(*vi, to.address, to.handle, to.length)) return vip::kInvalidParameter;
  // The next message must be the one that the program waits for.
  std::uint32_t slot;
  const std::uint32_t taken_back = view(*vi).vi(i).receive.dequeued.load(std::memory_order_acquire);
  if (vi->state != vip::kConnected || vi->divert != Divert::kNone ||
      taken_back != vi->receive.completed) {
    return vip::kNotDone;
  }
  if (vi->receive_slot == kNone &&
      !next_posted(*vi, view(*vi).receive_ring(i), vi->receive.taken, slot)) {
    return vip::kNotDone;
  }
  if (receives_in_part(*vi)) {
    Target own, other;
    if (vi->message_length > to.length || !load_target(*vi, vi->receive_slot, 0, own)) {
      return vip::kNotDone;
    }
    other.segment_count = 1;
    other.segments[0] = to;
    if (!move_received(*vi, own, other)) return vip::kNotDone;
  }
  vi->divert_address = to.address;
  vi->divert_handle = to.handle;
  vi->divert_length = to.length;
  vi->divert = Divert::kPending;
  return vip::kSuccess;
}

vip::Return Stack::undivert(std::uint32_t i, std::uint32_t generation) {
  Vi* const vi = find_vi(0, i, generation);
  if (vi == nullptr) return vip::kInvalidParameter;
  const Divert was = std::exchange(vi->divert, Divert::kNone);
  if (was == Divert::kUsed) return vip::kSuccess;
  if (was == Divert::kPending && receives_in_part(*vi)) {
    Target own, other;
    diverted(*vi, other);
    if (!load_target(*vi, vi->receive_slot, 0, own) || own.capacity < vi->message_length ||
        !move_received(*vi, other, own)) {
      vi->receive_failed = 1;
    }
  }
  return vip::kNotDone;
}

}  // namespace viaduct
