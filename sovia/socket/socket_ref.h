// Counted references to sockets. The pool of sockets (socket_pool.cc) implements them, as it gets the memory back when
// the last reference has gone.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_REF_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_REF_H

#include <atomic>
#include <cstdint>

namespace viaduct::sovia {

class Socket;
class SocketRef;

// The counts at the beginning of a socket's memory, which stay valid while that is free.
class SocketCounts {
 public:
  int descriptors() const { return descriptors_.load(); }  // of this process
  SocketRef reference();

 private:
  friend class SocketPool;
  friend class SocketRef;
  std::atomic<std::uint32_t> references_{0};  // first: see SocketPool
  std::atomic<int> descriptors_{0};
};

class SocketRef {
 public:
  SocketRef() = default;
  explicit SocketRef(Socket* counted) : socket_(counted) {}
  SocketRef(SocketRef&& other) noexcept : socket_(other.socket_) { other.socket_ = nullptr; }
  SocketRef& operator=(SocketRef&& other) noexcept;
  SocketRef(const SocketRef&) = delete;
  ~SocketRef() { reset(); }
  void reset();

  explicit operator bool() const { return socket_ != nullptr; }
  Socket* operator->() const { return socket_; }
  Socket& operator*() const { return *socket_; }
  Socket* get() const { return socket_; }

 private:
  Socket* socket_ = nullptr;
};

}  // namespace viaduct::sovia

#endif
