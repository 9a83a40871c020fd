#include "sovia/lane/arrival_threads.h"

#include <errno.h>
#include <vipl/vipl_ext.h>

#include "sovia/lane/engine.h"
#include "sovia/process/options.h"
#include "sovia/process/threads.h"

namespace viaduct::sovia {
namespace {

// The paper's handler thread: sleeps on the completion queue and processes arrivals.
void* run_handler(void*) {
  while (ProcessNic* const nic = engine::nic()) {
    if (engine::turn()) continue;
    if (VipxPoll(nic->cq(), nullptr, 0, nullptr, nullptr) >= 0 || errno == EINTR) continue;
    if (errno == ENODEV) engine::lost(*nic);
    break;
  }
  return nullptr;
}

// The notify function: called by a thread of VIPL's for each entry of the completion queue.
void on_notify(void*, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_BOOLEAN) {
  engine::take_in(vi);
  if (ProcessNic* const nic = engine::nic(); nic != nullptr) VipCQNotify(nic->cq(), nullptr, on_notify);
}

}  // namespace

void start_arrival_threads(ProcessNic& nic) {
  if (options().handling == Handling::kNotify) VipCQNotify(nic.cq(), nullptr, on_notify);
  if (options().handling != Handling::kHandler) return;
  start_thread(run_handler, nullptr);
}

}  // namespace viaduct::sovia
