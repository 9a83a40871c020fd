#include "vipl/fabric/fabric.h"

#include <new>

#include "vipl/fabric/completion_queue.h"
#include "vipl/fabric/domain.h"
#include "vipl/fabric/event_queue.h"
#include "vipl/fabric/passive_endpoint.h"

namespace viaduct::fabric {

fi_ops Fabric::ops = {
    .size = sizeof(fi_ops),
    .close = &Fabric::close,
    .bind = no_bind,
    .control = no_control,
    .ops_open = no_ops_open,
    .tostr = nullptr,
    .ops_set = nullptr,
};

fi_ops_fabric Fabric::fabric_ops = {
    .size = sizeof(fi_ops_fabric),
    .domain = &Domain::open,
    .passive_ep = &PassiveEndpoint::open,
    .eq_open = &EventQueue::open,
    .wait_open = &Fabric::no_wait_open,
    .trywait = &Fabric::try_wait,
    .domain2 = nullptr,
};

int Fabric::open(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
  std::shared_ptr<Nic> nic;
  if (const int error = Nic::open(nic); error != 0) return error;
  auto* made = new (std::nothrow) Fabric(std::move(nic), *attr);
  if (made == nullptr) return -FI_ENOMEM;
  made->fid.context = context;
  *fabric = made;
  return 0;
}

Fabric::Fabric(std::shared_ptr<Nic> nic, const fi_fabric_attr& attr)
    : fid_fabric{{FI_CLASS_FABRIC, nullptr, &ops}, &fabric_ops, attr.api_version},
      nic_(std::move(nic)) {}

int Fabric::close(struct fid* fid) {
  auto& fabric = object_of<Fabric, fid_fabric>(fid);
  if (fabric.users_ != 0) return -FI_EBUSY;
  delete &fabric;
  return 0;
}

int Fabric::try_wait(fid_fabric*, struct fid** fids, int count) {
  for (int i = 0; i < count; ++i) {
    int error = -FI_ENOSYS;
    if (fids[i]->fclass == FI_CLASS_CQ) {
      auto& queue = object_of<CompletionQueue, fid_cq>(fids[i]);
      const std::lock_guard lock(queue.nic().mutex());
      error = queue.try_wait();
    } else if (fids[i]->fclass == FI_CLASS_EQ) {
      error = object_of<EventQueue, fid_eq>(fids[i]).try_wait();
    }
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace viaduct::fabric
