// A counter of libfabric's: how many operations have completed.
#ifndef VIADUCT_VIPL_FABRIC_COUNTER_H
#define VIADUCT_VIPL_FABRIC_COUNTER_H

#include <memory>

#include "vipl/fabric/shared_nic.h"

namespace viaduct::fabric {

class Domain;

class Counter : public fid_cntr {
 public:
  static int open(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** counter, void* context);

  // To be called with the NIC's mutex held.
  void acquire() { ++users_; }
  void release() { --users_; }
  void count(bool error) { ++(error ? errors_ : value_); }

 private:
  explicit Counter(Domain& domain);

  static int close(struct fid* fid);
  static std::uint64_t read(fid_cntr* counter);
  static std::uint64_t readerr(fid_cntr* counter);
  static int add(fid_cntr* counter, std::uint64_t value);
  static int set(fid_cntr* counter, std::uint64_t value);
  static int adderr(fid_cntr* counter, std::uint64_t value);
  static int seterr(fid_cntr* counter, std::uint64_t value);
  static int wait(fid_cntr* counter, std::uint64_t threshold, int timeout);
  static fi_ops ops;
  static fi_ops_cntr counter_ops;

  Domain& domain_;
  const std::shared_ptr<SharedNic> nic_;
  std::uint64_t value_ = 0;
  std::uint64_t errors_ = 0;
  unsigned users_ = 0;
};

}  // namespace viaduct::fabric

#endif
