#include "vipl/session/command.h"

#include <cstring>

#include "vipl/process/idle.h"
#include "vipl/process/lock.h"
#include "vipl/session/session_guard.h"
#include "vipl/session/thread_registry.h"
#include "vipl/session/wait.h"

namespace viaduct::vipl {
namespace {

// Commands that wait for a program elsewhere may not take the last slots, which are left to commands that wait for a
// host; and these leave some to commands that are answered at once.
constexpr std::uint32_t kForEverEnd = layout::kCommands - 32;
constexpr std::uint32_t kAWhileEnd = layout::kCommands - 8;

void give_command_slot(const layout::View& view, std::uint32_t slot) {
  view.command(slot).owner.store(0, std::memory_order_release);
}

// While this object lives, the session's control session is not replaced by that of a new agent. `can_drift`: it could
// be; if not, nobody needs the lock, and Clang may take it for held.
class VIADUCT_SCOPED_CAPABILITY ControlLock {
 public:
  ControlLock(Session& session, bool can_drift) VIADUCT_ACQUIRE(session.control_lock)
      : word_(can_drift ? &session.control_lock : nullptr) {
    if (word_ != nullptr) Lock::acquire(*word_);
  }
  ~ControlLock() VIADUCT_RELEASE() {
    if (word_ != nullptr) Lock::release(*word_);
  }
  ControlLock(const ControlLock&) = delete;
  ControlLock& operator=(const ControlLock&) = delete;

 private:
  LockWord* word_;
};

// Takes back the command of a thread that was cancelled in run(), so that no request is given to it.
void abandon_command(std::uint32_t key, std::uint32_t control_session, std::uint32_t slot) {
  const SessionGuard inside(Handle(Kind::kNic, key, 0).pointer(), Kind::kNic);
  if (!inside) return;
  Session& session = inside.session();
  const bool for_agent = (slot & kForAgent) != 0;
  const layout::View& view = for_agent ? session.control_session : session.view;
  slot &= ~kForAgent;
  const bool can_drift = for_agent && session.driver != nullptr;
  const auto is_gone = [&] { return can_drift && session.control_epoch.load() != control_session; };
  layout::Command& left = view.command(slot);
  constexpr int kTries = 1000;  // the driver may not have seen it yet
  for (int i = 0; left.state.load(std::memory_order_acquire) != layout::kFinished; ++i) {
    if (i == kTries || session.over() || is_gone()) return;
    Command cancel(session, layout::Op::kCancel, for_agent);
    if (can_drift) cancel.only_for(control_session);
    cancel->handle = slot;
    cancel.run();
  }
  if (left.body.op == layout::Op::kConnectWait && left.body.result == VIP_SUCCESS) {
    Command reject(session, layout::Op::kConnectReject);
    reject->handle = left.body.handle;
    reject.run();
  }
  const ControlLock lock(session, can_drift);
  if (is_gone()) return;
  left.state.store(layout::kIdle, std::memory_order_relaxed);
  give_command_slot(view, slot);
}

}  // namespace

Command::Takes Command::takes() const {
  switch (body_.op) {
    case layout::Op::kConnectWait:
    case layout::Op::kConnectRequest:
    case layout::Op::kPeerWait:
      return Takes::kForEver;
    case layout::Op::kConnectAccept:
    case layout::Op::kHostByName:
    case layout::Op::kHostByAddress:
    case layout::Op::kDiscover:
    case layout::Op::kVerify:
      return Takes::kAWhile;
    default:
      return Takes::kNoTime;
  }
}

// Names, hosts and claims are the agent's business, also if the program drives the stack.
bool Command::is_for_control_session(layout::Op op) {
  switch (op) {
    case layout::Op::kHostByName:
    case layout::Op::kHostByAddress:
    case layout::Op::kDiscover:
    case layout::Op::kDiscovered:
    case layout::Op::kClaim:
    case layout::Op::kUnclaim:
    case layout::Op::kVerify:
      return true;
    default:
      return false;
  }
}

// Connection requests come by way of the agent, so a command that waits for one waits for the agent, too.
Session::Awaited Command::awaited() const {
  if (for_agent_) return Session::Awaited::kAgent;
  return body_.op == layout::Op::kConnectWait ? Session::Awaited::kStackAndAgent
                                              : Session::Awaited::kStack;
}

bool Command::take_slot(std::uint32_t end, std::uint32_t& slot) {
  for (std::uint32_t i = 0; i < end; ++i) {
    std::atomic<std::uint32_t>& owner = view_.command(i).owner;
    std::uint32_t nobody = 0;
    if (owner.load(std::memory_order_relaxed) != 0) continue;
    if (!owner.compare_exchange_strong(nobody, 1 + member(), std::memory_order_acquire)) continue;
    slot = i;
    return true;
  }
  return false;
}

// kAnswered: the command is in the slot.
Command::Outcome Command::submit(std::uint32_t control_session, std::uint32_t& slot) {
  const Takes time = takes();
  const std::uint32_t end = time == Takes::kForEver ? kForEverEnd
                            : time == Takes::kAWhile ? kAWhileEnd
                                                     : layout::kCommands;
  for (;;) {
    {
      const ControlLock lock(session_, can_drift());
      if (control_session != this->control_session()) return Outcome::kOtherControlSession;
      if (take_slot(end, slot)) {
        layout::Command& taken = view_.command(slot);
        body_.member = member();
        std::memcpy(&taken.body, &body_, sizeof body_);
        taken.state.store(layout::kSubmitted, std::memory_order_release);
        if (for_agent_) session_.ring_control_session(layout::command_bit(slot));
        break;
      }
    }
    if (time == Takes::kForEver || gone()) return Outcome::kNoSlot;
    if (time == Takes::kAWhile) {
      nap();
    } else {
      sys::yield();
    }
  }
  return Outcome::kAnswered;
}

Command::Outcome Command::ask() {
  const std::uint32_t control_session = one_session_only_ ? wanted_session_ : this->control_session();
  if ((control_session & 1) != 0) return Outcome::kOtherControlSession;  // there is no control session now
  std::uint32_t taken;
  // If this thread is cancelled while it waits, its end takes the command back.
  const Uncancellable guard;
  if (const Outcome submitted = submit(control_session, taken); submitted != Outcome::kAnswered) {
    return submitted;
  }
  ThreadRecord* const thread = thread_registry::t_record;
  if (thread != nullptr) {
    thread->command_key = session_.nic_part();
    thread->command_epoch = control_session;
    thread->abandon_command = abandon_command;
    thread->command = (taken + 1) | (for_agent_ ? kForAgent : 0);
  }
  if (!for_agent_) session_.ring(layout::command_bit(taken));
  layout::Command& slot = view_.command(taken);
  bool finished = false;
  session_.wait(
      slot.sleepers, kNever,
      [&] {
        finished = slot.state.load(std::memory_order_acquire) == layout::kFinished;
        return finished || gone() || control_session != this->control_session();
      },
      takes() != Takes::kNoTime, awaited());
  if (thread != nullptr) thread->command = 0;
  const ControlLock lock(session_, can_drift());
  if (control_session != this->control_session()) return Outcome::kOtherControlSession;
  // A slot whose command the driver did not finish is lost with the session.
  if (!finished) return Outcome::kLost;
  std::memcpy(&body_, &slot.body, sizeof body_);
  slot.state.store(layout::kIdle, std::memory_order_relaxed);
  give_command_slot(view_, taken);
  return Outcome::kAnswered;
}

// Returns false if the session is lost first.
bool Command::wait_for_control_session() {
  for (;;) {
    const std::uint32_t seen = session_.control_epoch.load();
    if (session_.over()) return false;
    if ((seen & 1) == 0) return true;
    const Cancellable here(takes() != Takes::kNoTime);
    sys::futex_wait(session_.control_epoch, seen, kNever);
  }
}

VIP_RETURN Command::run() {
  lost_ = gone();
  if (lost_) return VIP_ERROR_RESOURCE;
  Outcome outcome = ask();
  while (outcome == Outcome::kOtherControlSession && !one_session_only_ && wait_for_control_session()) outcome = ask();
  lost_ = outcome == Outcome::kLost || outcome == Outcome::kOtherControlSession;
  if (outcome != Outcome::kAnswered) return VIP_ERROR_RESOURCE;
  if (body_.result > VIP_ERROR_NOT_SUPPORTED) return VIP_ERROR_RESOURCE;
  return static_cast<VIP_RETURN>(body_.result);
}

}  // namespace viaduct::vipl
