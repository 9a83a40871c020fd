#include "vipl/fabric/domain.h"

#include <new>

#include "vipl/fabric/fabric.h"

namespace viaduct::fabric {

fi_ops Domain::ops = ops_of(&Domain::close);

int Domain::open(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  auto* made = new (std::nothrow) Domain(object<Fabric>(fabric));
  if (made == nullptr) return -FI_ENOMEM;
  made->fid.context = context;
  if (info->domain_attr != nullptr && info->domain_attr->data_progress == FI_PROGRESS_AUTO) {
    const std::lock_guard lock(made->nic_->mutex());
    made->nic_->progress_always();
  }
  *domain = made;
  return 0;
}

Domain::Domain(Fabric& fabric)
    : fid_domain{{FI_CLASS_DOMAIN, nullptr, &ops}, &domain_ops, &memory_ops},
      fabric_(fabric),
      nic_(fabric.nic()),
      regions_(nic_->handle()) {
  fabric_.acquire();
}

int Domain::close(struct fid* fid) {
  auto& domain = object_of<Domain, fid_domain>(fid);
  if (domain.users_ != 0) return -FI_EBUSY;
  Fabric& fabric = domain.fabric_;
  delete &domain;
  fabric.release();
  return 0;
}

}  // namespace viaduct::fabric
