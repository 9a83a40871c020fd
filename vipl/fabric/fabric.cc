#include "vipl/fabric/fabric.h"

#include <new>

namespace viaduct::fabric {

fi_ops Fabric::ops = ops_of(&Fabric::close);

int Fabric::open(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
  std::shared_ptr<SharedNic> nic;
  if (const int error = SharedNic::open(nic); error != 0) return error;
  auto* made = new (std::nothrow) Fabric(std::move(nic), *attr);
  if (made == nullptr) return -FI_ENOMEM;
  made->fid.context = context;
  *fabric = made;
  return 0;
}

Fabric::Fabric(std::shared_ptr<SharedNic> nic, const fi_fabric_attr& attr)
    : fid_fabric{{FI_CLASS_FABRIC, nullptr, &ops}, &fabric_ops, attr.api_version},
      nic_(std::move(nic)) {}

int Fabric::close(struct fid* fid) {
  auto& fabric = object_of<Fabric, fid_fabric>(fid);
  if (fabric.users_ != 0) return -FI_EBUSY;
  // The program may unload what a thread calls at its end: Open MPI does.
  fabric.nic_->end_idle_workers();
  delete &fabric;
  return 0;
}

}  // namespace viaduct::fabric
