// VipCreateCQ, VipDestroyCQ, VipResizeCQ, VipCQDone, VipCQWait.
#include "vipl/session/callback_thread.h"
#include "vipl/session/command.h"
#include "vipl/session/completion_queue.h"
#include "vipl/session/session_guard.h"
#include "vipl/session/wait.h"

using namespace viaduct::vipl;
using viaduct::layout::Op;

namespace {

// VIP_SUCCESS or what is wrong with a number of entries.
VIP_RETURN judge_entries(const Session& session, VIP_ULONG entries) {
  if (entries == 0) return VIP_INVALID_PARAMETER;
  return entries > session.nic.max_cq_entries ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
}

VIP_RETURN deliver(VIP_RETURN result, const CompletionQueue::Entry& entry, VIP_VI_HANDLE* vi,
                   VIP_BOOLEAN* receive) {
  *vi = result == VIP_SUCCESS ? entry.vi : nullptr;
  *receive = result == VIP_SUCCESS && entry.receive ? VIP_TRUE : VIP_FALSE;
  return result;
}

}  // namespace

VIP_RETURN VipCreateCQ(VIP_NIC_HANDLE NicHandle, VIP_ULONG EntryCount, VIP_CQ_HANDLE* CQHandle) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside || CQHandle == nullptr) return VIP_INVALID_PARAMETER;
  Session& session = inside.session();
  const VIP_RETURN judged = judge_entries(session, EntryCount);
  if (judged != VIP_SUCCESS) return judged;
  Command command(session, Op::kCreateCq);
  command->entries = static_cast<std::uint32_t>(EntryCount);
  const VIP_RETURN result = command.run();
  if (result != VIP_SUCCESS) return result;
  if (command->handle >= session.capacity.cqs) return VIP_ERROR_RESOURCE;
  const Handle handle(Kind::kCq, session.nic_part(),
                      indexed_object(command->handle, command->generation));
  CompletionQueue(session, handle).begin();
  *CQHandle = handle.pointer();
  return VIP_SUCCESS;
}

VIP_RETURN VipDestroyCQ(VIP_CQ_HANDLE CQHandle) {
  const SessionGuard inside(CQHandle, Kind::kCq);
  if (!inside) return VIP_INVALID_PARAMETER;
  CompletionQueue queue(inside.session(), inside.handle());
  Command command(inside.session(), Op::kDestroyCq);
  if (!queue.name(command.body())) return VIP_INVALID_PARAMETER;
  VIP_RETURN result = command.run();
  if (command.lost()) result = queue.in_use() ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
  if (result != VIP_SUCCESS) return result;
  queue.end();
  callback_thread::cancel(inside.session(), inside.handle());
  return result;
}

VIP_RETURN VipResizeCQ(VIP_CQ_HANDLE CQHandle, VIP_ULONG EntryCount) {
  const SessionGuard inside(CQHandle, Kind::kCq);
  if (!inside) return VIP_INVALID_PARAMETER;
  Command command(inside.session(), Op::kResizeCq);
  if (!CompletionQueue(inside.session(), inside.handle()).name(command.body())) {
    return VIP_INVALID_PARAMETER;
  }
  const VIP_RETURN judged = judge_entries(inside.session(), EntryCount);
  if (judged != VIP_SUCCESS) return judged;
  command->entries = static_cast<std::uint32_t>(EntryCount);
  return command.run();
}

VIP_RETURN VipCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE* ViHandle, VIP_BOOLEAN* RecvQueue) {
  const SessionGuard inside(CQHandle, Kind::kCq);
  if (!inside || ViHandle == nullptr || RecvQueue == nullptr) return VIP_INVALID_PARAMETER;
  CompletionQueue::Entry entry{};
  Session& session = inside.session();
  CompletionQueue queue(session, inside.handle());
  VIP_RETURN result = queue.take(entry);
  if (result == VIP_NOT_DONE && session.turn()) result = queue.take(entry);
  if (result == VIP_NOT_DONE) {
    session.missed(queue.sleepers(), inside.thread().misses, [&] {
      result = queue.take(entry);
      return result != VIP_NOT_DONE;
    });
  }
  if (result != VIP_NOT_DONE) inside.thread().misses = 0;
  return deliver(result, entry, ViHandle, RecvQueue);
}

VIP_RETURN VipxCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE* ViHandle, VIP_BOOLEAN* RecvQueue) {
  const SessionGuard inside(CQHandle, Kind::kCq);
  if (!inside || ViHandle == nullptr || RecvQueue == nullptr) return VIP_INVALID_PARAMETER;
  CompletionQueue::Entry entry{};
  CompletionQueue queue(inside.session(), inside.handle());
  VIP_RETURN result = queue.take(entry);
  if (result == VIP_NOT_DONE && inside.session().turn()) result = queue.take(entry);
  if (result != VIP_NOT_DONE) inside.thread().misses = 0;
  return deliver(result, entry, ViHandle, RecvQueue);
}

int VipxSpin(VIP_CQ_HANDLE CQHandle, unsigned long looks) {
  const SessionGuard inside(CQHandle, Kind::kCq);
  if (!inside) return 0;
  Session& session = inside.session();
  const bool hosted = session.driver == nullptr;
  return spin(session.crowd, static_cast<std::uint32_t>(looks), hosted) ? 1 : 0;
}

VIP_RETURN VipCQWait(VIP_CQ_HANDLE CQHandle, VIP_ULONG Timeout, VIP_VI_HANDLE* ViHandle,
                     VIP_BOOLEAN* RecvQueue) {
  const SessionGuard inside(CQHandle, Kind::kCq);
  if (!inside || ViHandle == nullptr || RecvQueue == nullptr) return VIP_INVALID_PARAMETER;
  CompletionQueue::Entry entry{};
  CompletionQueue queue(inside.session(), inside.handle());
  return deliver(queue.wait(Timeout, entry), entry, ViHandle, RecvQueue);
}
