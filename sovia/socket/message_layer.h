// The messages on a socket's stream (sovia/message), as an interface for the stream, which tells them of shutdown,
// close and fork. All functions may be called by several threads at once.
#ifndef VIADUCT_SOVIA_SOCKET_MESSAGE_LAYER_H
#define VIADUCT_SOVIA_SOCKET_MESSAGE_LAYER_H

namespace viaduct::sovia {

class MessageLayer {
 public:
  virtual ~MessageLayer() = default;
  // The program calls shutdown(2). Returns the part of `how` (SHUT_*) to be done at once; kNothing: the layer does it
  // later.
  virtual int before_shutdown(int how) = 0;
  static constexpr int kNothing = -1;
  // The process's last descriptor of the socket is about to be closed.
  virtual void before_release() = 0;
  // To be called in the child of a fork, where no other thread exists.
  virtual void after_fork_in_child() = 0;
};

}  // namespace viaduct::sovia

#endif
