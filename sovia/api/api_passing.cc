#include "sovia/api/api_passing.h"

#include <sys/syscall.h>

#include "sovia/api/api.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/rings.h"
#include "sovia/program/seccomp_filter.h"

namespace viaduct::sovia::passing {

void before_submit(long count, iocb* const* requests) {
  for (long i = 0; i < count; ++i) {
    iocb* request;
    iocb given;
    if (!copy_guarded(&request, requests + i, sizeof request) || !copy_guarded(&given, request, sizeof given)) return;
    leave_for_kernel(static_cast<int>(given.aio_fildes));
  }
}

bool makes_call(long number, const unsigned long* arguments, long& result) {
  switch (number) {
    case SYS_close:
      result = sovia_close(static_cast<int>(arguments[0]));
      return true;
    case SYS_close_range:
      result = sovia_close_range(static_cast<unsigned>(arguments[0]), static_cast<unsigned>(arguments[1]),
                                 static_cast<int>(arguments[2]));
      return true;
    case SYS_io_uring_setup:
      if (!rings::are_refused()) return false;
      result = failed(ENOSYS);
      return true;
    case SYS_io_submit:
      before_submit(static_cast<long>(arguments[1]), reinterpret_cast<iocb* const*>(arguments[2]));
      return false;
    case SYS_seccomp:
      if (seccomp::installs(arguments[0], arguments[2])) seccomp::prepare();
      return false;
    case SYS_prctl:
      if (seccomp::installs_by_prctl(static_cast<int>(arguments[0]), arguments[1], arguments[2])) seccomp::prepare();
      return false;
    default:
      return false;
  }
}

}  // namespace viaduct::sovia::passing
