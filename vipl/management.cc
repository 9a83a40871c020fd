// Error handler, and the functions that this version does not provide.
#include "vipl/completion_queue.h"
#include "vipl/lock.h"
#include "vipl/work_queue.h"

using namespace viaduct::vipl;

namespace {

VIP_RETURN not_supported(bool valid) {
  return valid ? VIP_ERROR_NOT_SUPPORTED : VIP_INVALID_PARAMETER;
}

bool is_vi(VIP_VI_HANDLE handle) {
  const Visit visit(handle, Kind::kVi);
  return visit && WorkQueue(visit.session(), visit.handle(), WorkQueue::Side::kSend).valid();
}

bool is_cq(VIP_CQ_HANDLE handle) {
  const Visit visit(handle, Kind::kCq);
  return visit && CompletionQueue(visit.session(), visit.handle()).valid();
}

}  // namespace

VIP_RETURN VipErrorCallback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context,
                            VIP_ERROR_HANDLER Handler) {
  const Visit visit(NicHandle, Kind::kNic);
  if (!visit) return VIP_INVALID_PARAMETER;
  Session& session = visit.session();
  Lock lock(session.lock);
  session.error_handler = Handler;
  session.error_context = Context;
  return VIP_SUCCESS;
}

VIP_RETURN VipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID, VIP_VI_CALLBACK) {
  return not_supported(is_vi(ViHandle));
}

VIP_RETURN VipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID, VIP_VI_CALLBACK) {
  return not_supported(is_vi(ViHandle));
}

VIP_RETURN VipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID, VIP_CQ_CALLBACK) {
  return not_supported(is_cq(CQHandle));
}

VIP_RETURN VipQuerySystemManagementInfo(VIP_NIC_HANDLE NicHandle, VIP_ULONG, VIP_PVOID) {
  const Visit visit(NicHandle, Kind::kNic);
  return not_supported(static_cast<bool>(visit));
}

VIP_RETURN VipAddTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE*, VIP_ULONG, VIP_ULONG) {
  return not_supported(is_cq(CQHandle));
}

VIP_RETURN VipRemoveTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE, VIP_ULONG) {
  return not_supported(is_cq(CQHandle));
}

VIP_RETURN VipPostDeferredSends(VIP_VI_HANDLE ViHandle, VIP_BOOLEAN, VIP_BOOLEAN*) {
  return not_supported(is_vi(ViHandle));
}
