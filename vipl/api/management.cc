// Error handler, notifications, autodiscovery, and the functions of which no description is known.
#include "vipl/session/callback_thread.h"
#include "vipl/session/completion_queue.h"
#include "vipl/api/discovery.h"
#include "vipl/session/session_guard.h"
#include "vipl/session/work_queue.h"

using namespace viaduct::vipl;

namespace {

bool is_vi(const SessionGuard& inside) {
  return inside && WorkQueue(inside.session(), inside.handle(), WorkQueue::Side::kSend).valid();
}

bool is_cq(const SessionGuard& inside) {
  return inside && CompletionQueue(inside.session(), inside.handle()).valid();
}

VIP_RETURN not_supported(bool valid) {
  return valid ? VIP_ERROR_NOT_SUPPORTED : VIP_INVALID_PARAMETER;
}

VIP_RETURN notify_vi(VIP_VI_HANDLE vi, bool receive, void* context, VIP_VI_CALLBACK handler) {
  const SessionGuard inside(vi, Kind::kVi);
  if (!is_vi(inside) || handler == nullptr) return VIP_INVALID_PARAMETER;
  return callback_thread::notify(inside.session(), {inside.handle(), receive, handler, nullptr, context});
}

}  // namespace

VIP_RETURN VipErrorCallback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context,
                            VIP_ERROR_HANDLER Handler) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside) return VIP_INVALID_PARAMETER;
  if (Handler != nullptr && !callback_thread::start(inside.session())) return VIP_ERROR_RESOURCE;
  callback_thread::set_error_handler(inside.session(), Handler, Context);
  return VIP_SUCCESS;
}

VIP_RETURN VipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler) {
  return notify_vi(ViHandle, false, Context, Handler);
}

VIP_RETURN VipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler) {
  return notify_vi(ViHandle, true, Context, Handler);
}

VIP_RETURN VipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context, VIP_CQ_CALLBACK Handler) {
  const SessionGuard inside(CQHandle, Kind::kCq);
  if (!is_cq(inside) || Handler == nullptr) return VIP_INVALID_PARAMETER;
  return callback_thread::notify(inside.session(), {inside.handle(), false, nullptr, Handler, Context});
}

VIP_RETURN VipQuerySystemManagementInfo(VIP_NIC_HANDLE NicHandle, VIP_ULONG InfoType,
                                        VIP_PVOID SysManInfo) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside || SysManInfo == nullptr || InfoType != VIP_SMI_AUTODISCOVERY) {
    return VIP_INVALID_PARAMETER;
  }
  return discover(inside.session(), *static_cast<VIP_AUTODISCOVERY_LIST*>(SysManInfo));
}

VIP_RETURN VipAddTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE*, VIP_ULONG, VIP_ULONG) {
  return not_supported(is_cq(SessionGuard(CQHandle, Kind::kCq)));
}

VIP_RETURN VipRemoveTagCQ(VIP_CQ_HANDLE CQHandle, VIP_EVENT_HANDLE, VIP_ULONG) {
  return not_supported(is_cq(SessionGuard(CQHandle, Kind::kCq)));
}

VIP_RETURN VipPostDeferredSends(VIP_VI_HANDLE ViHandle, VIP_BOOLEAN, VIP_BOOLEAN*) {
  return not_supported(is_vi(SessionGuard(ViHandle, Kind::kVi)));
}
