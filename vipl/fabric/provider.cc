#include "vipl/fabric/provider.h"

#include <cstdlib>
#include <mutex>

#include "config.h"
#include "vipl/fabric/selection.h"

namespace viaduct::fabric {
namespace {

constexpr const char* kDevice = "nic0";

char* device = nullptr;
int keep_regions = 1;

}  // namespace

const char* device_name() { return device != nullptr && *device != '\0' ? device : kDevice; }

bool keeps_regions() { return keep_regions != 0; }

int error_of(VIP_RETURN code) {
  switch (code) {
    case VIP_SUCCESS:
      return 0;
    case VIP_NO_MATCH:
    case VIP_REJECT:
      return FI_ECONNREFUSED;
    case VIP_TIMEOUT:
      return FI_ETIMEDOUT;
    case VIP_NOT_REACHABLE:
    case VIP_ERROR_NAMESERVICE:
      return FI_EHOSTUNREACH;
    case VIP_ERROR_RESOURCE:
      return FI_ENOMEM;
    case VIP_INVALID_STATE:
      return FI_EOPBADSTATE;
    default:
      return FI_EINVAL;
  }
}

int no_close(fid*) { return -FI_ENOSYS; }
int no_bind(fid*, fid*, std::uint64_t) { return -FI_ENOSYS; }
int no_control(fid*, int, void*) { return -FI_ENOSYS; }
int no_ops_open(fid*, const char*, std::uint64_t, void**, void*) { return -FI_ENOSYS; }

}  // namespace viaduct::fabric

extern "C" FI_EXT_INI {
  using viaduct::fabric::provider;
  viaduct::fabric::prepare_ofi_rxm();
  fi_param_define(&provider, "device", FI_PARAM_STRING,
                  "The NIC, as VipOpenNic() takes it (default: %s)", viaduct::fabric::kDevice);
  fi_param_define(&provider, "mr_cache", FI_PARAM_BOOL,
                  "Keep registrations of memory for their next use (default: yes)");
  fi_param_get_str(&provider, "device", &viaduct::fabric::device);
  fi_param_get_bool(&provider, "mr_cache", &viaduct::fabric::keep_regions);
  return &provider;
}
