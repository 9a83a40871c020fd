// The report of one operation that a completion queue gives a program.
#ifndef VIADUCT_VIPL_FABRIC_COMPLETION_H
#define VIADUCT_VIPL_FABRIC_COMPLETION_H

#include <cstddef>
#include <cstdint>

namespace viaduct::fabric {

struct Completion {
  void* context = nullptr;
  std::uint64_t flags = 0;
  std::size_t length = 0;
  void* buffer = nullptr;
  std::uint64_t data = 0;
  std::size_t overflow = 0;  // bytes that did not fit
  int error = 0;             // FI_E...
  int status = 0;            // VIP_STATUS_* of an error
};

}  // namespace viaduct::fabric

#endif
