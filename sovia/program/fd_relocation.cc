#include "sovia/program/fd_relocation.h"

#include "sovia/background/background.h"
#include "sovia/datagram/datagram_table.h"
#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/process/signals.h"
#include "sovia/socket/fork_handoff.h"
#include "sovia/socket/socket.h"
#include "sovia/socket/table.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

bool give_way(int fd) {
  static constinit Mutex lock;
  const KeepErrno keep;
  const signals::Inside inside;
  const LockGuard guard(lock);
  if (!own_descriptors::is_of_vipl(fd)) return !own_descriptors::has(fd);
  table::for_each([](int each, Socket& socket) {
    socket.leave(each, Reason::kResources);
    gather(socket, each);
  });
  datagram::table::give_up_all(Reason::kResources, false);
  background::stop();
  background::resume();
  return !own_descriptors::has(fd);
}

}  // namespace viaduct::sovia
