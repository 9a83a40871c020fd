// Error handler, notifications, autodiscovery, and the functions of which no description is known.
#include "vipl/session/callback_thread.h"
#include "vipl/session/completion_queue.h"
#include "vipl/api/discovery.h"
#include "vipl/session/session_guard.h"
#include "vipl/session/work_queue.h"

using namespace viaduct::vipl;

namespace {

bool is_vi(const Visit& visit) {
  return visit && WorkQueue(visit.session(), visit.handle(), WorkQueue::Side::kSend).valid();
}

bool is_cq(const Visit& visit) {
  return visit && CompletionQueue(visit.session(), visit.handle()).valid();
}

VIP_RETURN not_supported(bool valid) {
  return valid ? VIP_ERROR_NOT_SUPPORTED : VIP_INVALID_PARAMETER;
}

VIP_RETURN notify_vi(VIP_VI_HANDLE vi, bool receive, void* context, VIP_VI_CALLBACK handler) {
  const Visit visit(vi, Kind::kVi);
  if (!is_vi(visit) || handler == nullptr) return VIP_INVALID_PARAMETER;
  return caller::notify(visit.session(), {visit.handle(), receive, handler, nullptr, context});
}

}  // namespace

VIP_RETURN VipErrorCallback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context,
                            VIP_ERROR_HANDLER Handler) {
  const Visit visit(NicHandle, Kind::kNic);
  if (!visit) return VIP_INVALID_PARAMETER;
  if (Handler != nullptr && !caller::start(visit.session())) return VIP_ERROR_RESOURCE;
  caller::set_error_handler(visit.session(), Handler, Context);
  return VIP_SUCCESS;
}

VIP_RETURN VipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler) {
  return notify_vi(ViHandle, false, Context, Handler);
}

VIP_RETURN VipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler) {
  return notify_vi(ViHandle, true, Context, Handler);
}

VIP_RETURN VipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context, VIP_CQ_CALLBACK Handler) {
  const Visit visit(CQHandle, Kind::kCq);
  if (!is_cq(visit) || Handler == nullptr) return VIP_INVALID_PARAMETER;
  return caller::notify(visit.session(), {visit.handle(), false, nullptr, Handler, Context});
}

VIP_RETURN VipQuerySystemManagementInfo(VIP_NIC_HANDLE NicHandle, VIP_ULONG InfoType,
                                        VIP_PVOID SysManInfo) {
  const Visit visit(NicHandle, Kind::kNic);
  if (!visit || SysManInfo == nullptr || InfoType != VIP_SMI_AUTODISCOVERY) {
    return VIP_INVALID_PARAMETER;
  }
  return discover(visit.session(), *static_cast<VIP_AUTODISCOVERY_LIST*>(SysManInfo));
}

VIP_RETURN VipAddTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE*, VIP_ULONG, VIP_ULONG) {
  return not_supported(is_cq(Visit(CQHandle, Kind::kCq)));
}

VIP_RETURN VipRemoveTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE, VIP_ULONG) {
  return not_supported(is_cq(Visit(CQHandle, Kind::kCq)));
}

VIP_RETURN VipPostDeferredSends(VIP_VI_HANDLE ViHandle, VIP_BOOLEAN, VIP_BOOLEAN*) {
  return not_supported(is_vi(Visit(ViHandle, Kind::kVi)));
}
