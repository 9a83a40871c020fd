#include "vipl/caller.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "vipl/completion_queue.h"
#include "vipl/lock.h"
#include "vipl/sys.h"
#include "vipl/thread.h"
#include "vipl/vipl_ext.h"
#include "vipl/work_queue.h"

namespace viaduct::vipl::caller {
namespace {

// A handler and what to call it with.
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

  void make() {
    if (error_handler != nullptr) error_handler(context, &error);
    if (vi_handler != nullptr) vi_handler(context, nic, vi, descriptor);
    if (cq_handler != nullptr) cq_handler(context, nic, vi, receive ? VIP_TRUE : VIP_FALSE);
  }
};

// What happens without a handler: one line on standard error. Nothing for what the program knows or
// has to expect anyway.
void report(const Session& session, const VIP_ERROR_DESCRIPTOR& error, bool orderly) {
  if (orderly || error.ErrorCode == VIP_ERROR_VI_OVERRUN) return;
  char text[256];
  int bytes;
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
  if (bytes > 0) sys::write(STDERR_FILENO, text, static_cast<std::size_t>(bytes));
}

bool blame(Session& session, VIP_ERROR_DESCRIPTOR& error, bool orderly, Call& call) {
  error.NicHandle = session.handle();
  {
    Lock lock(session.lock);
    call.error_handler = session.error_handler;
    call.context = session.error_context;
  }
  if (call.error_handler == nullptr) {
    report(session, error, orderly);
    return false;
  }
  call.error = error;
  return true;
}

// The oldest error that the driver has reported. False if there is none.
bool take_event(Session& session, VIP_ERROR_DESCRIPTOR& error, bool& orderly) {
  layout::Errors& errors = session.view.header().errors;
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

// What one notification asks for, if it has come. True if the notification is used up.
bool serve(Session& session, const Notification& wanted, Call& call) {
  if (wanted.object.is(Kind::kCq)) {
    CompletionQueue::Entry entry{};
    const VIP_RETURN result = CompletionQueue(session, wanted.object).take(entry);
    if (result == VIP_INVALID_PARAMETER) return true;
    if (result != VIP_SUCCESS) return false;
    call.cq_handler = wanted.cq_handler;
    call.vi = entry.vi;
    call.receive = entry.receive;
  } else {
    VIP_DESCRIPTOR* descriptor = nullptr;
    const auto side = wanted.receive ? WorkQueue::Side::kReceive : WorkQueue::Side::kSend;
    const VIP_RETURN result = WorkQueue(session, wanted.object, side).take(descriptor);
    if (result == VIP_INVALID_PARAMETER) return true;
    if (descriptor == nullptr) return false;
    call.vi_handler = wanted.vi_handler;
    call.vi = wanted.object.pointer();
    call.descriptor = descriptor;
  }
  call.context = wanted.context;
  call.nic = session.handle();
  return true;
}

// The oldest notification that can be served. Arms the others.
bool next_notification(Session& session, Call& call) {
  Lock lock(session.notify_lock);
  Session::Notifications& all = session.notifications;
  for (std::uint32_t i = 0; i < all.count;) {
    const Notification& wanted = all.entries[i];
    std::atomic<std::uint32_t>& sleepers = wanted.sleepers(session);
    if ((sleepers.load() & layout::kCaller) == 0) sleepers.fetch_or(layout::kCaller);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!serve(session, wanted, call)) {
      ++i;
      continue;
    }
    --all.count;
    memmove(&all.entries[i], &all.entries[i + 1], (all.count - i) * sizeof all.entries[0]);
    if (call.vi_handler != nullptr || call.cq_handler != nullptr) return true;
  }
  return false;
}

// Finds something to call. False when there was nothing and the thread has slept.
bool next_call(Session& session, std::uint32_t key, Call& call) {
  std::atomic<std::uint32_t>& alerted = session.view.header().alert;
  alerted.store(0);
  if (next_error(session, call) || next_notification(session, call)) return true;
  if (session.key.load() != key) return false;
  sys::futex_wait(alerted, 0, ~0ull);
  return false;
}

void* run(void* argument) {
  const VIP_NIC_HANDLE nic = argument;
  ::syscall(SYS_prctl, PR_SET_NAME, "vipl-call", 0, 0, 0);
  for (;;) {
    Call call;
    {
      const Visit visit(nic, Kind::kNic);
      if (!visit) return nullptr;
      if (!next_call(visit.session(), Session::kOpen | visit.handle().key(), call)) continue;
    }
    call.make();
  }
}

}  // namespace

bool start(Session& session) {
  if (session.has_caller.load(std::memory_order_acquire)) return true;
  Lock lock(session.notify_lock);
  if (session.has_caller.load(std::memory_order_relaxed)) return true;
  session.view.header().errors.wanted.store(1);
  // Handlers are the program's: they get a stack of the usual size.
  if (!make_thread(run, session.handle(), 0)) return false;
  session.has_caller.store(true, std::memory_order_release);
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
  alert(session);
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

void raise(Session& session, VIP_VI_HANDLE vi, VIP_RESOURCE_CODE resource, VIP_ERROR_CODE code) {
  {
    Lock lock(session.lock);
    Session::OwnErrors& own = session.own_errors;
    if (own.count == Session::OwnErrors::kMost) return;
    VIP_ERROR_DESCRIPTOR& error = own.errors[own.count++];
    error = {};
    error.ViHandle = vi;
    error.ResourceCode = resource;
    error.ErrorCode = code;
  }
  alert(session);
}

void alert(Session& session) {
  std::atomic<std::uint32_t>& word = session.view.header().alert;
  if (word.exchange(1) == 0) sys::futex_wake(word);
}

}  // namespace viaduct::vipl::caller
