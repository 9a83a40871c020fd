#include "sovia/program/seccomp_filter.h"

#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "sovia/background/background.h"
#include "sovia/datagram/datagram_table.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/seccomp.h"
#include "sovia/process/signals.h"
#include "sovia/socket/fork_handoff.h"
#include "sovia/socket/socket.h"
#include "sovia/socket/table.h"
#include "sovia/sovia.h"

namespace viaduct::sovia::seccomp {

void prepare() {
  if (g_in_force.exchange(true)) return;
  prepare_copying();
  const KeepErrno keep;
  const signals::Inside inside;
  table::for_each([](int fd, Socket& socket) {
    socket.leave_for_good(fd, Reason::kOption);
    gather(socket, fd);
  });
  datagram::table::give_up_all(Reason::kOption, false);
  background::stop();
}

bool installs_by_prctl(int option, unsigned long mode, unsigned long filter) {
  if (option != PR_SET_SECCOMP) return false;
  return mode == SECCOMP_MODE_STRICT || (mode == SECCOMP_MODE_FILTER && filter != 0);
}

bool installs(unsigned long operation, unsigned long filter) {
  return operation == SECCOMP_SET_MODE_STRICT ||
         (operation == SECCOMP_SET_MODE_FILTER && filter != 0);
}

}  // namespace viaduct::sovia::seccomp

using namespace viaduct::sovia;

int sovia_prctl(int option, ...) {
  // Reads all four arguments that prctl(2) can have, as the kernel does: those that were not given have any value.
  va_list arguments;
  va_start(arguments, option);
  unsigned long given[4];
  for (unsigned long& each : given) each = va_arg(arguments, unsigned long);
  va_end(arguments);
  if (seccomp::installs_by_prctl(option, given[0], given[1])) seccomp::prepare();
  return SOVIA_LATE(prctl)(option, given[0], given[1], given[2], given[3]);
}
