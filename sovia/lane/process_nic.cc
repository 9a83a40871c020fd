#include "sovia/lane/process_nic.h"

#include <vipl/vipl_ext.h>

#include <algorithm>
#include <new>

#include "sovia/lane/packet.h"
#include "sovia/process/options.h"

namespace viaduct::sovia {
namespace {

constexpr VIP_ULONG kCqEntries = 8192;
// Lanes learn of a VI's errors by themselves; without a handler VIPL would write to the program's standard error.
void on_error(VIP_PVOID nic, VIP_ERROR_DESCRIPTOR* error) {
  SOVIA_LOG("VIPL: %s", VipxErrorText(error->ErrorCode));
  if (error->ResourceCode == VIP_RESOURCE_NIC) static_cast<ProcessNic*>(nic)->lost();
}

}  // namespace

ProcessNic::ProcessNic(void (*on_lost)(ProcessNic& nic))
    : on_lost_(on_lost), registrations_(options().registration_cache != 0) {}

ProcessNic* ProcessNic::open(const char* interface, void (*on_lost)(ProcessNic& nic)) {
  ProcessNic* const nic = new (std::nothrow) ProcessNic(on_lost);
  if (nic == nullptr) return nullptr;
  if (VipOpenNic(interface, &nic->nic_) != VIP_SUCCESS) {
    delete nic;
    return nullptr;
  }
  const bool ready =
      VipQueryNic(nic->nic_, &nic->attributes_) == VIP_SUCCESS &&
      nic->attributes_.MaxTransferSize >= kChunkBytes && nic->attributes_.NicAddressLen == 6 &&
      VipCreatePtag(nic->nic_, &nic->ptag_) == VIP_SUCCESS &&
      VipCreateCQ(nic->nic_, std::min(kCqEntries, nic->attributes_.MaxCQEntries), &nic->cq_) ==
          VIP_SUCCESS;
  if (ready && VipErrorCallback(nic->nic_, nic, on_error) == VIP_SUCCESS) return nic;
  nic->close();
  return nullptr;
}

void ProcessNic::close() {
  VipCloseNic(nic_);
  delete this;
}

bool ProcessNic::next(Arrival& arrival) {
  VIP_VI_HANDLE vi;
  VIP_BOOLEAN receive;
  while (VipxCQDone(cq_, &vi, &receive) == VIP_SUCCESS) {
    if (take(vi, arrival)) return true;
  }
  return false;
}

bool ProcessNic::set_finisher(int (*step)(void* context)) {
  return VipxSetFinisher(nic_, step, nullptr) == VIP_SUCCESS;
}

void ProcessNic::learn_stack_from(VIP_VI_HANDLE vi) {
  // No redirection is there to end: only whether the call is supported counts.
  if (VipxUnredirect(vi) == VIP_ERROR_NOT_SUPPORTED) has_own_stack_.store(false, std::memory_order_relaxed);
}

bool ProcessNic::take(VIP_VI_HANDLE vi, Arrival& arrival) {
  VIP_DESCRIPTOR* descriptor = nullptr;
  const VIP_RETURN result = VipRecvDone(vi, &descriptor);
  if (descriptor == nullptr) return false;
  auto& posted = *reinterpret_cast<PostedDescriptor*>(descriptor);
  arrival.owner = posted.owner;
  arrival.lost = result != VIP_SUCCESS || (descriptor->CS.Status & VIP_STATUS_IMMEDIATE) == 0;
  arrival.missing = (descriptor->CS.Status & VIP_STATUS_TRANSPORT_ERROR) != 0;
  arrival.place = posted.place;
  arrival.bytes = descriptor->CS.Length;
  arrival.immediate = descriptor->CS.ImmediateData;
  return true;
}

}  // namespace viaduct::sovia
