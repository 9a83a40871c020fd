// What the readiness functions of SOVIA stand on, made of test code: sockets whose lanes do what a
// test says, a table of descriptors, and a wait that really sleeps. The kernel is the real one, and
// counts how often it is asked.
#ifndef VIADUCT_TESTS_UNIT_SOVIA_FAKE_H
#define VIADUCT_TESTS_UNIT_SOVIA_FAKE_H

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "sovia/lane/watchers.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia::fake {

// How a fake socket's lane is.
struct LaneState {
  std::atomic<bool> in{false};    // what comes, comes over the lane ...
  std::atomic<bool> data{false};  // ... and some has
  std::atomic<bool> out{false};   // what goes, goes over the lane ...
  std::atomic<bool> room{false};  // ... and there is room
  std::atomic<bool> open{false};  // or nothing goes over it yet ...
  std::atomic<bool> early{false};  // ... and the end of the connection has come before its own
  std::atomic<int> answers{0};    // how often it was asked
  std::atomic<int> left{0};       // how often leave_for_good() was called
};
LaneState& lane(SocketRoute& socket);

// Tells epoll sets and sleepers, as the engine does.
void changed(SocketRoute& socket, short what = kAnyChange);

// System calls that the code under test has made.
struct Calls {
  std::atomic<int> poll{0};
  std::atomic<int> epoll_wait{0};
  std::atomic<int> epoll_ctl{0};
};
extern Calls calls;
extern std::atomic<int> sleeping;  // threads in wait_for that sleep

// A TCP connection over loopback whose near end is a fake socket of ours.
class Connection {
 public:
  Connection();
  ~Connection();
  Connection(const Connection&) = delete;

  int fd() const { return fd_; }
  int peer() const { return peer_; }
  Socket& socket() { return *socket_; }
  LaneState& lane() { return fake::lane(*socket_); }

  void peer_sends(const std::string& text);  // through the kernel
  std::string receive();                     // from the kernel
  void close_peer();
  // Both directions are on the lane, or in the kernel.
  void up();
  void down();
  // The lane has something to read, or has been read empty (of which nobody is told).
  void data(bool there = true);
  void room(bool there = true);

  // As sovia_dup does it.
  int dup();

 private:
  int fd_ = -1;
  int peer_ = -1;
  Socket* socket_ = nullptr;
};

// A pipe with something in it or not.
class Pipe {
 public:
  Pipe();
  ~Pipe();
  int reader() const { return fds_[0]; }
  int writer() const { return fds_[1]; }
  void fill();
  void drain();
  void close_writer();

 private:
  int fds_[2];
};

// An epoll descriptor that the library knows.
class Epoll {
 public:
  Epoll();
  ~Epoll();
  int fd() const { return fd_; }
  // As epoll_ctl: the result, or the errno as a negative number.
  int add(int fd, std::uint32_t events, std::uint64_t data);
  int modify(int fd, std::uint32_t events, std::uint64_t data);
  int remove(int fd);
  // As epoll_wait: "DATA:EVENTS" for each event, sorted; "" if there are none.
  std::string wait(int timeout = 0, int most = 16);
  void close();

 private:
  int fd_;
};

// Closes any descriptor as sovia_close does it.
void close_descriptor(int fd);

// Runs something a little later, in another thread.
class Later {
 public:
  template <class F>
  explicit Later(F&& f, int ms = 30)
      : thread_([f, ms] {
          std::this_thread::sleep_for(std::chrono::milliseconds(ms));
          f();
        }) {}
  ~Later() { thread_.join(); }

 private:
  std::thread thread_;
};

// ms that `f` takes.
template <class F>
long time_of(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begin)
      .count();
}

}  // namespace viaduct::sovia::fake

#endif
