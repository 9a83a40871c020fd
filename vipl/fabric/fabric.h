// A fabric: the link that the NIC is on.
#ifndef VIADUCT_VIPL_FABRIC_FABRIC_H
#define VIADUCT_VIPL_FABRIC_FABRIC_H

#include <atomic>
#include <memory>

#include "vipl/fabric/shared_nic.h"

namespace viaduct::fabric {

class Fabric : public fid_fabric {
 public:
  static int open(fi_fabric_attr* attr, fid_fabric** fabric, void* context);

  const std::shared_ptr<SharedNic>& nic() const { return nic_; }
  void acquire() { ++users_; }
  void release() { --users_; }

 private:
  explicit Fabric(std::shared_ptr<SharedNic> nic, const fi_fabric_attr& attr);

  static int close(struct fid* fid);
  static int no_wait_open(fid_fabric*, fi_wait_attr*, fid_wait**) { return -FI_ENOSYS; }
  static fi_ops ops;
  // operations.cc
  static int try_wait(fid_fabric* fabric, struct fid** fids, int count);
  static fi_ops_fabric fabric_ops;

  const std::shared_ptr<SharedNic> nic_;
  std::atomic<unsigned> users_ = 0;
};

}  // namespace viaduct::fabric

#endif
