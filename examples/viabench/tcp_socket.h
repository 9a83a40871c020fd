// A TCP socket that waits as a case says: asleep in the kernel, or asking again and again.
#ifndef VIADUCT_EXAMPLES_VIABENCH_TCP_SOCKET_H
#define VIADUCT_EXAMPLES_VIABENCH_TCP_SOCKET_H

#include <cstddef>
#include <cstdint>
#include <string>

#include "examples/viabench/lines.h"

namespace viabench {

// All functions throw Failure, also when nothing has happened for kSilence.
class TcpSocket {
 public:
  // Without delay (TCP_NODELAY), unless `delay` is set.
  static TcpSocket connect(const std::string& host, std::uint16_t port, bool spin, bool delay = false);

  int fd() const { return fd_.get(); }
  void send(const void* from, std::size_t bytes) const;
  void receive(void* to, std::size_t bytes) const;
  void await_end() const;  // the other side has closed the connection

 private:
  friend class TcpListener;
  TcpSocket(Fd fd, bool spin, bool delay);
  template <typename Call>
  long again(const char* what, Call call) const;
  Fd fd_;
  bool spin_;
};

class TcpListener {
 public:
  // On a port of the system's choice if `port` is 0.
  explicit TcpListener(bool spin, std::uint16_t port = 0, bool delay = false);
  std::uint16_t port() const { return port_; }
  int fd() const { return fd_.get(); }
  TcpSocket accept() const;

 private:
  Fd fd_;
  bool spin_, delay_;
  std::uint16_t port_ = 0;
};

// Switches segmentation offload (TSO, GSO, GRO) of an interface on or off.
void switch_offload(const std::string& interface, bool on);

}  // namespace viabench

#endif
