// Whether the process has one thread, this one.
#ifndef VIADUCT_SOVIA_PROCESS_THREADS_H
#define VIADUCT_SOVIA_PROCESS_THREADS_H

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace viaduct::sovia {

// False when in doubt, and for good once there have been two.
inline bool has_one_thread() {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

}  // namespace viaduct::sovia

#endif
