#include "sovia/socket/readiness.h"

#include <poll.h>

namespace viaduct::sovia {
namespace {

constexpr short kIn = POLLIN | POLLRDNORM;
constexpr short kOut = POLLOUT | POLLWRNORM;
constexpr short kEnd = POLLRDHUP | POLLHUP;

constexpr short without(short events, short some) { return static_cast<short>(events & ~some); }

}  // namespace

short Readiness::to_ask(short wanted) const {
  short ask = wanted;
  if (on_lane) {
    ask = without(ask, kIn);
    if (!lane_ended) ask = without(ask, POLLRDHUP);
    if (lane_broken) ask |= POLLIN;  // so that the kernel, which may tell of a reset, is asked each time
  } else if (has_lane && (ask & kIn) != 0) {
    ask |= POLLRDHUP;  // so that to_tell() can tell the end from data
  }
  // With the peer's end it is a hangup, of which the kernel does not know yet.
  if (write_shut && (!on_lane || lane_ended)) ask |= POLLRDHUP;
  if ((sending != TxRoute::kKernel && !lands_now) || reset) ask = without(ask, kOut);
  return ask;
}

short Readiness::tell_reading(short kernel_says) const {
  short says = kernel_says;
  if (record_next) says = without(says, kIn | kEnd);
  if (record_next && read_shut) says |= kIn | POLLRDHUP;
  if (has_inherited) says |= kIn;
  if (!has_lane) return says;
  // The kernel's end is reported only when the lane's end has come too; a reset is reported at once.
  const bool failed = (kernel_says & POLLERR) != 0;
  const bool all_has_come = lane_ended && (kernel_says & kEnd) != 0;
  if (on_lane) {
    if (!failed && !all_has_come) says = without(says, kEnd);
    says = without(says, kIn);
    if (lane_unread || read_shut || has_inherited) says |= kIn;
    if (read_shut) says = static_cast<short>(says | POLLRDHUP | (kernel_says & POLLHUP));
  } else if (awaits_lane_end) {
    if (early_end || ((says & POLLRDHUP) != 0 && !kernel_unread)) says = has_inherited ? says : without(says, kIn);
    if (!failed && !all_has_come) says = without(says, kEnd);
    if (read_shut) says = static_cast<short>(says | kIn | POLLRDHUP | (kernel_says & POLLHUP));
  }
  return says;
}

// While a direction leaves its lane for good, a send awaits that all has arrived for a moment (await_coming_down()).
short Readiness::tell_writing(short says) const {
  if (!has_lane || sending == TxRoute::kKernel || lands_now) return says;
  const bool room = sending == TxRoute::kLane ? lane_room && !lane_broken : write_shut || lands_soon;
  return static_cast<short>(without(says, kOut) | (room ? kOut : 0));
}

short Readiness::to_tell(short wanted, short kernel_says) const {
  if (reset) return static_cast<short>((kIn | kOut | kEnd | (untold ? POLLERR : 0)) & (wanted | POLLERR | POLLHUP));
  short says = tell_reading(kernel_says);
  if (write_shut && (says & POLLRDHUP) != 0) says |= POLLHUP;
  if ((wanted & kOut) != 0) says = tell_writing(says);
  // A reset is always reported: a receive meets it behind the unread bytes of the lane.
  if ((kernel_says & POLLERR) != 0 && (kernel_says & POLLHUP) != 0) says |= POLLHUP;
  if (untold && (kernel_says & POLLHUP) != 0) says |= POLLERR | POLLHUP;
  // While the lane had a direction the kernel was not asked for all events. For TCP, POLLHUP implies that it is
  // readable and writable and POLLRDHUP, so they are added.
  if ((says & POLLHUP) != 0 && had_lanes) says |= kIn | kOut | POLLRDHUP;
  return static_cast<short>(says & (wanted | POLLERR | POLLHUP | POLLNVAL));
}

}  // namespace viaduct::sovia
