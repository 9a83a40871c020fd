#include "vipl/fabric/memory.h"

#include <sys/uio.h>

#include <new>

#include "vipl/fabric/domain.h"

namespace viaduct::fabric {
namespace {

// ofi_rxm asks with one of these that its buffers be kept out of a cache.
constexpr std::uint64_t kProviderFlags = std::uint64_t{15} << 60;

}  // namespace

fi_ops_mr Domain::memory_ops = {
    .size = sizeof(fi_ops_mr),
    .reg = &Memory::reg,
    .regv = &Memory::regv,
    .regattr = &Memory::regattr,
};

fi_ops Memory::fid_ops = ops_of(&Memory::close, &Memory::control);

Memory::Memory(Domain& domain, Region& region)
    : fid_mr{{FI_CLASS_MR, nullptr, &fid_ops}, nullptr, region.handle},
      domain_(domain),
      region_(region) {
  mem_desc = reinterpret_cast<void*>(static_cast<std::uintptr_t>(region.handle));
  domain_.acquire();
}

int Memory::regattr(struct fid* fid, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** mr) {
  if (fid->fclass != FI_CLASS_DOMAIN) return -FI_EINVAL;
  if ((flags & ~kProviderFlags) != 0) return -FI_EBADFLAGS;
  if (attr->iov_count != 1 || attr->iface != FI_HMEM_SYSTEM) return -FI_EINVAL;
  auto& domain = object_of<Domain, fid_domain>(fid);
  Region* region = domain.regions().acquire(attr->mr_iov[0].iov_base, attr->mr_iov[0].iov_len,
                                            (attr->access & FI_REMOTE_READ) != 0,
                                            (attr->access & FI_REMOTE_WRITE) != 0);
  if (region == nullptr) return attr->mr_iov[0].iov_base == nullptr ? -FI_EINVAL : -FI_ENOMEM;
  auto* memory = new (std::nothrow) Memory(domain, *region);
  if (memory == nullptr) {
    domain.regions().release(*region);
    return -FI_ENOMEM;
  }
  memory->fid.context = attr->context;
  *mr = memory;
  return 0;
}

int Memory::regv(struct fid* fid, const iovec* ranges, std::size_t count, std::uint64_t access,
                 std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr** mr,
                 void* context) {
  fi_mr_attr attr{};
  attr.mr_iov = ranges;
  attr.iov_count = count;
  attr.access = access;
  attr.offset = offset;
  attr.requested_key = key;
  attr.context = context;
  return regattr(fid, &attr, flags, mr);
}

int Memory::reg(struct fid* fid, const void* address, std::size_t length, std::uint64_t access,
                std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr** mr,
                void* context) {
  const iovec range{const_cast<void*>(address), length};
  return regv(fid, &range, 1, access, offset, key, flags, mr, context);
}

int Memory::close(struct fid* fid) {
  auto& memory = object_of<Memory, fid_mr>(fid);
  Domain& domain = memory.domain_;
  domain.regions().release(memory.region_);
  delete &memory;
  domain.release();
  return 0;
}

int Memory::control(struct fid* fid, int command, void* argument) {
  auto& memory = object_of<Memory, fid_mr>(fid);
  switch (command) {
    case FI_ENABLE:
      return 0;
    case FI_GET_RAW_MR: {
      auto& raw = *static_cast<struct fi_mr_raw_attr*>(argument);
      const bool fits = *raw.key_size >= sizeof memory.key;
      *raw.key_size = sizeof memory.key;
      if (!fits) return -FI_ETOOSMALL;
      *raw.base_addr = 0;
      __builtin_memcpy(raw.raw_key, &memory.key, sizeof memory.key);
      return 0;
    }
    default:
      return -FI_ENOSYS;
  }
}

}  // namespace viaduct::fabric
