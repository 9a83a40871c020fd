// A domain: what endpoints, completion queues and memory belong to.
#ifndef VIADUCT_VIPL_FABRIC_DOMAIN_H
#define VIADUCT_VIPL_FABRIC_DOMAIN_H

#include <atomic>
#include <memory>

#include "vipl/fabric/shared_nic.h"
#include "vipl/fabric/regions.h"

namespace viaduct::fabric {

class Fabric;

class Domain : public fid_domain {
 public:
  static int open(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context);

  const std::shared_ptr<SharedNic>& nic() const { return nic_; }
  Regions& regions() { return regions_; }
  void acquire() { ++users_; }
  void release() { --users_; }

 private:
  explicit Domain(Fabric& fabric);

  static int close(struct fid* fid);
  static int no_av_open(fid_domain*, fi_av_attr*, fid_av**, void*) { return -FI_ENOSYS; }
  static int no_scalable(fid_domain*, fi_info*, fid_ep**, void*) { return -FI_ENOSYS; }
  static int no_poll_open(fid_domain*, fi_poll_attr*, fid_poll**) { return -FI_ENOSYS; }
  static int no_shared_send(fid_domain*, fi_tx_attr*, fid_stx**, void*) { return -FI_ENOSYS; }
  static int no_shared_receive(fid_domain*, fi_rx_attr*, fid_ep**, void*) { return -FI_ENOSYS; }
  static int no_atomic(fid_domain*, fi_datatype, fi_op, fi_atomic_attr*, std::uint64_t) {
    return -FI_EOPNOTSUPP;
  }
  static int no_collective(fid_domain*, fi_collective_op, fi_collective_attr*, std::uint64_t) {
    return -FI_EOPNOTSUPP;
  }
  static fi_ops ops;
  // operations.cc
  static fi_ops_domain domain_ops;
  static fi_ops_mr memory_ops;

  Fabric& fabric_;
  const std::shared_ptr<SharedNic> nic_;
  Regions regions_;
  std::atomic<unsigned> users_ = 0;
};

}  // namespace viaduct::fabric

#endif
