// A failure that ends lanevid, with the text for its user.
#ifndef VIADUCT_VIPL_LANEVI_FAILURE_H
#define VIADUCT_VIPL_LANEVI_FAILURE_H

#include <vipl_ext.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace viaduct::lanevi {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A system call has failed: errno says why.
[[noreturn]] inline void fail(const std::string& what) {
  throw Failure(what + ": " + std::strerror(errno));
}

inline void check(VIP_RETURN code, const char* call) {
  if (code != VIP_SUCCESS) throw Failure(std::string(call) + ": " + VipxReturnText(code));
}

}  // namespace viaduct::lanevi

#endif
