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
  const Visit visit(NicHandle, Kind::kNic);
  if (!visit || CQHandle == nullptr) return VIP_INVALID_PARAMETER;
  Session& session = visit.session();
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
  const Visit visit(CQHandle, Kind::kCq);
  if (!visit) return VIP_INVALID_PARAMETER;
  CompletionQueue queue(visit.session(), visit.handle());
  Command command(visit.session(), Op::kDestroyCq);
  if (!queue.name(command.body())) return VIP_INVALID_PARAMETER;
  VIP_RETURN result = command.run();
  if (command.lost()) result = queue.in_use() ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
  if (result != VIP_SUCCESS) return result;
  queue.end();
  caller::cancel(visit.session(), visit.handle());
  return result;
}

VIP_RETURN VipResizeCQ(VIP_CQ_HANDLE CQHandle, VIP_ULONG EntryCount) {
  const Visit visit(CQHandle, Kind::kCq);
  if (!visit) return VIP_INVALID_PARAMETER;
  Command command(visit.session(), Op::kResizeCq);
  if (!CompletionQueue(visit.session(), visit.handle()).name(command.body())) {
    return VIP_INVALID_PARAMETER;
  }
  const VIP_RETURN judged = judge_entries(visit.session(), EntryCount);
  if (judged != VIP_SUCCESS) return judged;
  command->entries = static_cast<std::uint32_t>(EntryCount);
  return command.run();
}

VIP_RETURN VipCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE* ViHandle, VIP_BOOLEAN* RecvQueue) {
  const Visit visit(CQHandle, Kind::kCq);
  if (!visit || ViHandle == nullptr || RecvQueue == nullptr) return VIP_INVALID_PARAMETER;
  CompletionQueue::Entry entry{};
  Session& session = visit.session();
  CompletionQueue queue(session, visit.handle());
  VIP_RETURN result = queue.take(entry);
  if (result == VIP_NOT_DONE && session.turn()) result = queue.take(entry);
  if (result == VIP_NOT_DONE) {
    session.missed(queue.sleepers(), visit.thread().misses, [&] {
      result = queue.take(entry);
      return result != VIP_NOT_DONE;
    });
  }
  if (result != VIP_NOT_DONE) visit.thread().misses = 0;
  return deliver(result, entry, ViHandle, RecvQueue);
}

VIP_RETURN VipxCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE* ViHandle, VIP_BOOLEAN* RecvQueue) {
  const Visit visit(CQHandle, Kind::kCq);
  if (!visit || ViHandle == nullptr || RecvQueue == nullptr) return VIP_INVALID_PARAMETER;
  CompletionQueue::Entry entry{};
  CompletionQueue queue(visit.session(), visit.handle());
  VIP_RETURN result = queue.take(entry);
  if (result == VIP_NOT_DONE && visit.session().turn()) result = queue.take(entry);
  if (result != VIP_NOT_DONE) visit.thread().misses = 0;
  return deliver(result, entry, ViHandle, RecvQueue);
}

int VipxSpin(VIP_CQ_HANDLE CQHandle, unsigned long looks) {
  const Visit visit(CQHandle, Kind::kCq);
  if (!visit) return 0;
  Session& session = visit.session();
  const bool hosted = session.driver == nullptr;
  return spin(session.crowd, static_cast<std::uint32_t>(looks), hosted) ? 1 : 0;
}

VIP_RETURN VipCQWait(VIP_CQ_HANDLE CQHandle, VIP_ULONG Timeout, VIP_VI_HANDLE* ViHandle,
                     VIP_BOOLEAN* RecvQueue) {
  const Visit visit(CQHandle, Kind::kCq);
  if (!visit || ViHandle == nullptr || RecvQueue == nullptr) return VIP_INVALID_PARAMETER;
  CompletionQueue::Entry entry{};
  CompletionQueue queue(visit.session(), visit.handle());
  return deliver(queue.wait(Timeout, entry), entry, ViHandle, RecvQueue);
}
