// Memory that a program registers.
#ifndef VIADUCT_VIPL_FABRIC_MEMORY_H
#define VIADUCT_VIPL_FABRIC_MEMORY_H

#include "vipl/fabric/provider.h"

namespace viaduct::fabric {

class Domain;
struct Region;

class Memory : public fid_mr {
 public:
  static fi_ops_mr ops;

 private:
  Memory(Domain& domain, Region& region);

  static int reg(struct fid* fid, const void* address, std::size_t length, std::uint64_t access,
                 std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr** mr,
                 void* context);
  static int regv(struct fid* fid, const iovec* ranges, std::size_t count, std::uint64_t access,
                  std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr** mr,
                  void* context);
  static int regattr(struct fid* fid, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** mr);
  static int close(struct fid* fid);
  static int control(struct fid* fid, int command, void* argument);
  static fi_ops fid_ops;

  Domain& domain_;
  Region& region_;
};

// What `desc` of an operation says: the memory handle; 0 if there is none.
inline VIP_MEM_HANDLE handle_of(const void* desc) {
  return static_cast<VIP_MEM_HANDLE>(reinterpret_cast<std::uintptr_t>(desc));
}

}  // namespace viaduct::fabric

#endif
