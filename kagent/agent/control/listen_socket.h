// The socket that programs find the agent at.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_LISTEN_SOCKET_H
#define VIADUCT_KAGENT_AGENT_CONTROL_LISTEN_SOCKET_H

#include <sys/socket.h>
#include <sys/un.h>

#include <stdexcept>
#include <string>

#include "xdp/descriptor.h"

namespace viaduct {

// The address of "@NAME" or of a path. The name must have passed check_socket_name().
struct SocketAddress {
  explicit SocketAddress(const std::string& name);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address;
  socklen_t bytes;
};

struct SocketError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ListenSocket {
 public:
  // Waits a while for another agent to go: the kernel takes a killed one's sockets away one by one.
  // Throws SocketError: another agent answers there, no such folder, no permission, the path is
  // something else than a socket. A path that is left over from an agent that died is taken over.
  explicit ListenSocket(const std::string& name, unsigned wait_ms = 2000);
  // Removes the path if it still is this socket's.
  ~ListenSocket();
  ListenSocket(const ListenSocket&) = delete;
  ListenSocket& operator=(const ListenSocket&) = delete;

  int fd() const { return fd_.get(); }

 private:
  // False: another agent has the name.
  bool bind_abstract();
  bool bind_path();

  std::string name_;
  Descriptor fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace viaduct

#endif
