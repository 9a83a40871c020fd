// Where sockets come from. Their memory is never anything else, so that a reference can be tried for
// without a lock.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_POOL_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_POOL_H

#include "sovia/socket/socket.h"
#include "sovia/socket/table.h"

namespace viaduct::sovia {

class SocketPool {
 public:
  // A socket for `fd` with one reference and one descriptor; nullptr when out of memory.
  static Socket* make(int fd, table::Origin origin);
  // Counts one more reference; false if there was none any more.
  static bool retain(Socket* socket);
  // The last reference has gone.
  static void give_back(Socket* socket);
  static void add_descriptor(Socket& socket);
  static void remove_descriptor(Socket& socket);
  static void before_fork();
  static void after_fork();  // in both
};

}  // namespace viaduct::sovia

#endif
