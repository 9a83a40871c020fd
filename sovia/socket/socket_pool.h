// The allocator of sockets. Their memory is never used for anything else, so that retain() can be tried without a lock
// on a socket that may have gone.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_POOL_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_POOL_H

#include "sovia/socket/socket.h"

namespace viaduct::sovia {

class SocketPool {
 public:
  // A socket with one reference and one descriptor; nullptr when out of memory. `read_known`: nothing has
  // been read from it yet.
  static Socket* make(bool read_known);
  // Counts one more reference; false if there was none any more.
  static bool retain(Socket* socket);
  // Takes back the memory of a socket whose last reference has gone.
  static void give_back(Socket* socket);
  static void add_descriptor(Socket& socket);
  static void remove_descriptor(Socket& socket);
  static void before_fork();
  static void after_fork();  // in parent and child
};

}  // namespace viaduct::sovia

#endif
