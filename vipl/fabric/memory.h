// Memory that a program registers.
#ifndef VIADUCT_VIPL_FABRIC_MEMORY_H
#define VIADUCT_VIPL_FABRIC_MEMORY_H

#include "vipl/fabric/provider.h"

namespace viaduct::fabric {

class Domain;
struct Region;

class Memory : public fid_mr {
 public:
  static int reg(struct fid* fid, const void* address, std::size_t length, std::uint64_t access,
                 std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr** mr,
                 void* context);
  static int regv(struct fid* fid, const iovec* ranges, std::size_t count, std::uint64_t access,
                  std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr** mr,
                  void* context);
  static int regattr(struct fid* fid, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** mr);

 private:
  Memory(Domain& domain, Region& region);

  static int close(struct fid* fid);
  static int control(struct fid* fid, int command, void* argument);
  static fi_ops fid_ops;

  Domain& domain_;
  Region& region_;
};

}  // namespace viaduct::fabric

#endif
