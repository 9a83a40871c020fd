// The provider as libfabric knows it, and what its objects have in common.
#ifndef VIADUCT_VIPL_FABRIC_PROVIDER_H
#define VIADUCT_VIPL_FABRIC_PROVIDER_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <cstddef>
#include <cstdint>

#include "vipl/vipl.h"
#include "vipl/vipl_ext.h"

namespace viaduct::fabric {

extern fi_provider provider;

// The NICs to offer, as VipOpenNic takes them (FI_VIADUCT_DEVICE); whether regions are kept after
// their end (FI_VIADUCT_MR_CACHE).
const char* device_name();
bool keeps_regions();

// An error of libfabric's for a return code of VIPL's; 0 for success.
int error_of(VIP_RETURN code);

// An object begins with its fid: the fid_domain that Domain inherits from, say, with the fid in front.
template <class Object, class Fid>
Object& object(Fid* fid) {
  return *static_cast<Object*>(fid);
}
template <class Object, class Base>
Object& object_of(fid* f) {
  return *static_cast<Object*>(reinterpret_cast<Base*>(f));
}

// Functions that libfabric calls without checking whether they exist.
int no_close(fid*);
int no_bind(fid*, fid*, std::uint64_t);
int no_control(fid*, int, void*);
int no_ops_open(fid*, const char*, std::uint64_t, void**, void*);

// The functions that each object has.
constexpr fi_ops ops_of(int (*close)(fid*), int (*control)(fid*, int, void*) = no_control,
                        int (*bind)(fid*, fid*, std::uint64_t) = no_bind) {
  return {sizeof(fi_ops), close, bind, control, no_ops_open, nullptr, nullptr};
}

}  // namespace viaduct::fabric

#endif
