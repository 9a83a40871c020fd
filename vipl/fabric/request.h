// A program's request to an endpoint.
#ifndef VIADUCT_VIPL_FABRIC_REQUEST_H
#define VIADUCT_VIPL_FABRIC_REQUEST_H

#include <sys/uio.h>

#include "vipl/fabric/provider.h"

namespace viaduct::fabric {

struct Request {
  const iovec* ranges = nullptr;
  void* const* descs = nullptr;
  std::size_t count = 0;
  const fi_rma_iov* remote = nullptr;
  std::size_t remote_count = 0;
  void* context = nullptr;
  std::uint64_t data = 0;
  std::uint64_t flags = 0;  // FI_INJECT, FI_REMOTE_CQ_DATA, FI_FENCE
  bool wanted = true;       // the program wants a completion
  bool silent = false;      // not even an error is told: the operation has no context that could name it
};

inline constexpr std::uint32_t kQueueSize = 256;     // operations of an endpoint, if it does not say
inline constexpr std::uint32_t kMostQueueSize = 896; // VIPL's queues have 1024 places
inline constexpr std::uint32_t kInjectBytes = 256;

}  // namespace viaduct::fabric

#endif
