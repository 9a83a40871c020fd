#include "vipl/session/callback_thread.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "vipl/session/completion_queue.h"
#include "vipl/process/exit_drain.h"
#include "vipl/process/lock.h"
#include "vipl/process/standard_error.h"
#include "vipl/process/sys.h"
#include "vipl/process/thread.h"
#include "vipl/session/session_guard.h"
#include "vipl/vipl_ext.h"
#include "vipl/session/work_queue.h"

namespace viaduct::vipl::callback_thread {
namespace {

// A handler and what to call it with; or the text that stands for the handler.
struct Call {
  VIP_ERROR_HANDLER error_handler = nullptr;
  VIP_VI_CALLBACK vi_handler = nullptr;
  VIP_CQ_CALLBACK cq_handler = nullptr;
  void* context = nullptr;
  VIP_NIC_HANDLE nic = nullptr;
  VIP_VI_HANDLE vi = nullptr;
  bool receive = false;
  VIP_DESCRIPTOR* descriptor = nullptr;
  VIP_ERROR_DESCRIPTOR error = {};
  struct Line {
    char text[192];
    int bytes;
  } line = {};

  void make() {
    if (line.bytes > 0) {
      standard_error::write(line.text, static_cast<std::size_t>(line.bytes));
    }
    if (error_handler != nullptr) error_handler(context, &error);
    if (vi_handler != nullptr) vi_handler(context, nic, vi, descriptor);
    if (cq_handler != nullptr) cq_handler(context, nic, vi, receive ? VIP_TRUE : VIP_FALSE);
  }
};

// Reports an error that has no handler: one line on standard error. Nothing for an error that the program
// knows or has to expect anyway.
bool report(const Session& session, const VIP_ERROR_DESCRIPTOR& error, bool orderly, Call& call) {
  if (orderly || error.ErrorCode == VIP_ERROR_VI_OVERRUN) return false;
  auto& [text, bytes] = call.line;
  const char* const what = VipxErrorText(error.ErrorCode);
  if (error.ResourceCode == VIP_RESOURCE_NIC) {
    bytes = snprintf(text, sizeof text, "libvipl: %s: %s\n", session.nic.name, what);
  } else if (error.ResourceCode == VIP_RESOURCE_DESCRIPTOR) {
    bytes = snprintf(text, sizeof text, "libvipl: %s, VI %p, descriptor %p: %s\n", session.nic.name,
                     error.ViHandle, static_cast<void*>(error.DescriptorPtr), what);
  } else {
    bytes = snprintf(text, sizeof text, "libvipl: %s, VI %p: %s\n", session.nic.name,
                     error.ViHandle, what);
  }
  return true;
}

bool blame(Session& session, VIP_ERROR_DESCRIPTOR& error, bool orderly, Call& call) {
  error.NicHandle = session.handle();
  {
    Lock lock(session.lock);
    call.error_handler = session.error_handler;
    call.context = session.error_context;
  }
  if (call.error_handler == nullptr) return report(session, error, orderly, call);
  call.error = error;
  return true;
}

// The oldest error that the driver has reported. False if there is none.
bool take_event(Session& session, VIP_ERROR_DESCRIPTOR& error, bool& orderly) {
  layout::Errors& errors = session.view.errors(session.member);
  const std::uint32_t at = errors.taken.load(std::memory_order_relaxed);
  const layout::ErrorEvent& event = errors.events[at % layout::kErrorEvents];
  if (event.number.load(std::memory_order_acquire) != at + 1) return false;
  error = {};
  error.ViHandle = Handle(Kind::kVi, session.nic_part(),
                          indexed_object(event.vi, event.vi_generation)).pointer();
  error.DescriptorPtr = reinterpret_cast<VIP_DESCRIPTOR*>(event.descriptor);
  error.OpCode = event.op;
  error.ResourceCode = static_cast<VIP_RESOURCE_CODE>(event.resource);
  error.ErrorCode = static_cast<VIP_ERROR_CODE>(event.code);
  orderly = (event.flags & layout::kEventOrderly) != 0;
  errors.taken.store(at + 1, std::memory_order_release);
  return true;
}

bool take_own_error(Session& session, VIP_ERROR_DESCRIPTOR& error) {
  Lock lock(session.lock);
  Session::OwnErrors& own = session.own_errors;
  if (own.count == 0) return false;
  error = own.errors[0];
  --own.count;
  memmove(&own.errors[0], &own.errors[1], own.count * sizeof own.errors[0]);
  return true;
}

bool next_error(Session& session, Call& call) {
  VIP_ERROR_DESCRIPTOR error;
  bool orderly = false;
  while (take_event(session, error, orderly)) {
    if (blame(session, error, orderly, call)) return true;
  }
  while (take_own_error(session, error)) {
    if (blame(session, error, false, call)) return true;
  }
  return false;
}

struct Completion {
  VIP_VI_HANDLE vi = nullptr;
  bool receive = false;
  VIP_DESCRIPTOR* descriptor = nullptr;
};

enum class Found { kNothing, kCompletion, kDestroyed };

// Takes off the queue what a notification asks for.
Found take(Session& session, const Notification& wanted, Completion& come) {
  VIP_RETURN result;
  bool taken;
  if (wanted.object.is(Kind::kCq)) {
    CompletionQueue::Entry entry{};
    result = CompletionQueue(session, wanted.object).take(entry);
    come = {entry.vi, entry.receive, nullptr};
    taken = result == VIP_SUCCESS;
  } else {
    const auto side = wanted.receive ? WorkQueue::Side::kReceive : WorkQueue::Side::kSend;
    come = {wanted.object.pointer(), wanted.receive, nullptr};
    result = WorkQueue(session, wanted.object, side).take(come.descriptor);
    taken = come.descriptor != nullptr;
  }
  if (taken) return Found::kCompletion;
  return result == VIP_INVALID_PARAMETER ? Found::kDestroyed : Found::kNothing;
}

void prepare(const Session& session, const Notification& served, const Completion& come,
             Call& call) {
  call.vi_handler = served.vi_handler;
  call.cq_handler = served.cq_handler;
  call.context = served.context;
  call.nic = session.handle();
  call.vi = come.vi;
  call.receive = come.receive;
  call.descriptor = come.descriptor;
}

// The first of the notifications for the same queue as number `i`: its turn comes first. It may have found nothing
// only because the completion came after it was looked at.
std::uint32_t whose_turn(const Session::Notifications& all, std::uint32_t i) {
  const Notification& wanted = all.entries[i];
  for (std::uint32_t first = 0; first < i; ++first) {
    const Notification& other = all.entries[first];
    if (other.object.bits == wanted.object.bits && other.receive == wanted.receive) return first;
  }
  return i;
}

// Serves the oldest notification that has a completion. Arms the others.
bool next_notification(Session& session, Call& call) {
  Lock lock(session.notify_lock);
  Session::Notifications& all = session.notifications;
  for (std::uint32_t i = 0; i < all.count;) {
    std::atomic<std::uint32_t>& sleepers = all.entries[i].sleepers(session);
    if ((sleepers.load() & layout::kCallbackThread) == 0) sleepers.fetch_or(layout::kCallbackThread);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    Completion come;
    const Found found = take(session, all.entries[i], come);
    if (found == Found::kNothing) {
      ++i;
      continue;
    }
    const std::uint32_t served = whose_turn(all, i);
    if (found == Found::kCompletion) prepare(session, all.entries[served], come, call);
    --all.count;
    memmove(&all.entries[served], &all.entries[served + 1],
            (all.count - served) * sizeof all.entries[0]);
    if (found == Found::kCompletion) return true;
    i = served;
  }
  return false;
}

// Finds something to call. False when there was nothing and the thread has slept.
bool next_call(Session& session, std::uint32_t key, Call& call) {
  std::atomic<std::uint32_t>& alerted = session.view.alert(session.member);
  alerted.store(0);
  if (next_error(session, call) || next_notification(session, call)) return true;
  if (session.key.load() != key) return false;
  sys::futex_wait(alerted, 0, ~0ull);
  return false;
}

// Whether this is the session's thread, and the session is open. The thread announces itself when it comes for the
// first time: either VipCloseNic sees it, or the thread sees that the session is closed.
bool is_mine(Session& session, std::uint32_t key, ThreadRecord& self, bool first) {
  if (first) session.callback_thread.store(&self);
  return session.callback_thread.load() == &self && session.key.load() == key;
}

void* run(void* argument) {
  const VIP_NIC_HANDLE nic = argument;
  sys::name_thread("vipl-call");
  bool first = true;
  for (;;) {
    Call call;
    {
      const SessionGuard inside(nic, Kind::kNic);
      if (!inside) return nullptr;
      Session& session = inside.session();
      const std::uint32_t key = Session::kOpen | inside.handle().key();
      // The same handle may belong to a later session, as this thread may have been in a handler for long.
      if (!is_mine(session, key, inside.thread(), first)) return nullptr;
      first = false;
      if (!next_call(session, key, call)) continue;
      // Closing flushes queues, of which handlers are not told.
      if (session.key.load() != key) return nullptr;
    }
    if (exit_drain::begun()) return nullptr;
    call.make();
  }
}

}  // namespace

bool start(Session& session) {
  if (session.has_callback_thread.load(std::memory_order_acquire)) return true;
  Lock lock(session.notify_lock);
  if (session.has_callback_thread.load(std::memory_order_relaxed)) return true;
  session.view.errors(session.member).wanted.store(1);
  constexpr std::size_t kStack = 256 * 1024;
  if (!make_thread(run, session.handle(), kStack)) return false;
  session.has_callback_thread.store(true, std::memory_order_release);
  return true;
}

void set_error_handler(Session& session, VIP_ERROR_HANDLER handler, void* context) {
  Lock lock(session.lock);
  session.error_handler = handler;
  session.error_context = context;
}

VIP_RETURN notify(Session& session, const Notification& wanted) {
  if (!start(session)) return VIP_ERROR_RESOURCE;
  {
    Lock lock(session.notify_lock);
    Session::Notifications& all = session.notifications;
    if (all.entries == nullptr) {
      all.entries = static_cast<Notification*>(sys::map(Session::Notifications::kBytes, -1));
    }
    if (all.entries == nullptr || all.count == Session::Notifications::kMost) {
      return VIP_ERROR_RESOURCE;
    }
    all.entries[all.count++] = wanted;
  }
  session.alert();
  return VIP_SUCCESS;
}

void cancel(Session& session, Handle object) {
  Lock lock(session.notify_lock);
  Session::Notifications& all = session.notifications;
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < all.count; ++i) {
    if (all.entries[i].object.bits != object.bits) all.entries[kept++] = all.entries[i];
  }
  all.count = kept;
}

void raise(Session& session, VIP_VI_HANDLE vi, VIP_RESOURCE_CODE resource, VIP_ERROR_CODE code,
           VIP_ULONG op) {
  {
    Lock lock(session.lock);
    Session::OwnErrors& own = session.own_errors;
    const bool last = resource == VIP_RESOURCE_NIC;
    if (own.count >= Session::OwnErrors::kMost - (last ? 0 : 1)) return;
    VIP_ERROR_DESCRIPTOR& error = own.errors[own.count++];
    error = {};
    error.ViHandle = vi;
    error.OpCode = op;
    error.ResourceCode = resource;
    error.ErrorCode = code;
  }
  session.alert();
}

}  // namespace viaduct::vipl::callback_thread
