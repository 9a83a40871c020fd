#include "vipl/command.h"

#include <cstring>

#include "vipl/idle.h"
#include "vipl/wait.h"

namespace viaduct::vipl {
namespace {

// Commands that wait for other hosts may not take the last slots, so that the others, which are
// answered at once, always find one.
constexpr std::uint32_t kForShortOnes = 32;

}  // namespace

bool Command::may_take_long() const {
  switch (body_.op) {
    case layout::Op::kConnectWait:
    case layout::Op::kConnectAccept:
    case layout::Op::kConnectRequest:
    case layout::Op::kPeerWait:
    case layout::Op::kHostByName:
      return true;
    default:
      return false;
  }
}

bool Command::take_slot(std::uint32_t& slot) {
  auto& words = session_.view.header().busy_commands;
  const std::uint32_t end = layout::kCommands - (may_take_long() ? kForShortOnes : 0);
  for (;;) {
    for (std::uint32_t i = 0; i < end; ++i) {
      std::atomic<std::uint64_t>& word = words[i / 64];
      const std::uint64_t bit = 1ull << (i % 64);
      if ((word.load(std::memory_order_relaxed) & bit) != 0) continue;
      if ((word.fetch_or(bit, std::memory_order_acquire) & bit) != 0) continue;
      slot = i;
      return true;
    }
    if (may_take_long() || session_.over()) return false;
    sys::yield();
  }
}

void Command::give_slot(std::uint32_t slot) {
  session_.view.header().busy_commands[slot / 64].fetch_and(~(1ull << (slot % 64)),
                                                            std::memory_order_release);
}

VIP_RETURN Command::run() {
  std::uint32_t taken;
  if (session_.over() || !take_slot(taken)) return VIP_ERROR_RESOURCE;
  layout::Command& slot = session_.view.command(taken);
  std::memcpy(&slot.body, &body_, sizeof body_);
  slot.state.store(layout::kSubmitted, std::memory_order_release);
  session_.ring(layout::command_bit(taken));
  bool finished = false;
  session_.wait(slot.sleepers, kNever, [&] {
    finished = slot.state.load(std::memory_order_acquire) == layout::kFinished;
    return finished || session_.over();
  });
  // A slot whose command the driver did not finish is lost with the session.
  if (!finished) return VIP_ERROR_RESOURCE;
  std::memcpy(&body_, &slot.body, sizeof body_);
  slot.state.store(layout::kIdle, std::memory_order_relaxed);
  give_slot(taken);
  if (body_.result > VIP_ERROR_NOT_SUPPORTED) return VIP_ERROR_RESOURCE;
  return static_cast<VIP_RETURN>(body_.result);
}

}  // namespace viaduct::vipl
