// Connections whose near end is a socket of the library's with a real lane, the peer of which the test
// plays; and what the tests of readiness use besides: pipes, epoll sets. System calls are counted.
#ifndef VIADUCT_TESTS_UNIT_SOVIA_LANED_CONNECTION_H
#define VIADUCT_TESTS_UNIT_SOVIA_LANED_CONNECTION_H

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/socket.h"
#include "tests/unit/sovia/fake_transport.h"

namespace viaduct::sovia::ready {

// System calls that the code under test has made.
struct Calls {
  std::atomic<int> poll{0};
  std::atomic<int> epoll_wait{0};
  std::atomic<int> epoll_ctl{0};
};
extern Calls calls;

// A TCP connection over loopback, and a lane beside it over memory. Packets move when the test says so.
class Connection {
 public:
  Connection();
  ~Connection();
  Connection(const Connection&) = delete;

  int fd() const { return fd_; }
  int peer() const { return peer_; }
  Socket& socket() { return *socket_; }

  void peer_sends(const std::string& text);  // through the kernel
  std::string receive();                     // as the program does
  void close_peer();
  void reset_by_peer();
  // The peer has more to send than the lane takes: a window, of which nothing is read.
  void peer_has_more();

  // Something that the peer has sent on the lane will never come.
  void lane_misses();

  // The connection gets a lane, on which no direction is; one direction comes there; both do. receives_on_lane(): the
  // first packet has come and been read, unless bytes of the kernel's are unread, or the connection carries messages:
  // then it comes with the next data.
  void open_lane();
  void receives_on_lane();
  void sends_on_lane();
  void up();
  // The peer goes on by the kernel: what it sends there begins with a record. It comes to the lane again with
  // lane_brings().
  void peer_goes_down();
  // The peer says that nothing more comes on the lane.
  void peer_ends_lane();
  // The same, but the answer does not get back to the peer.
  void peer_ends_lane_unanswered();
  // What is on its way from the peer arrives, and the peer does not learn of it.
  void arrive_unanswered();
  // The record that a peer which leaves the lane sends through the kernel: the bytes of the present stay that it knows
  // to have arrived, without that of receives_on_lane().
  std::string record_of_peer(std::uint64_t offset) const;
  // The peer says of its next time on the lane that so many bytes more have gone through the kernel before.
  void peer_lies(std::uint64_t bytes) { peer_sent_ += bytes; }
  // Both directions leave the lane, which is over.
  void down();
  // It asks for a lane, and none is to be had.
  void lane_is_refused();
  // The lane's VI loses its connection: the kernel brings the rest. lane_cuts(): no thread has noticed it.
  void lane_breaks();
  void lane_cuts();
  // The background thread finds that the lane is over, and takes it from the socket.
  bool lane_is_over();
  // The program sends this on the lane; it does not come until something settles.
  void sends(const std::string& text);
  // These bytes come on the lane; the peer reads what has come there.
  void lane_brings(const std::string& bytes);
  // The same, but the peer does not learn that they have come.
  void lane_brings_unanswered(const std::string& bytes);
  std::string lane_takes();
  // The peer's end of the lane: to be used with settle(), which shows what is on its way to both ends.
  Lane& peer_lane() { return *far_; }
  FakeTransport& peer_transport() { return transports_->far; }
  FakeTransport& near_transport() { return transports_->near; }
  std::recursive_mutex& mutex() { return mutex_; }
  // Something more comes on the lane, or all that there is to read has been read.
  void data(bool there = true);
  void room(bool there = true);
  // Packets in flight arrive, on both sides.
  void settle();

  // Threads that look at the lane wait until this is unlocked.
  Lock& lane_lock() { return end_->lane.lock(); }

  // As sovia_dup does it.
  int dup();

 private:
  struct Transports {
    explicit Transports(const LanePlaces& places) : near(places), far(places) {
      near.connect(far);
      far.connect(near);
    }
    FakeTransport near, far;
  };
  bool step();
  void peer_follows();
  void peer_reads();

  int fd_ = -1;
  int peer_ = -1;
  SocketRef socket_;
  std::uint64_t peer_sent_ = 0;
  std::uint64_t stays_first_ = 0;  // bytes of receives_on_lane() in the peer's present stay on the lane

  std::recursive_mutex mutex_;  // of threads of the test that play the peer
  Transports* transports_ = nullptr;      // never freed, as ends are the background thread's to free
  LaneEndpoint* end_ = nullptr;
  std::unique_ptr<Lane> far_;
  bool in_ = false, out_ = false, full_ = false;
};

// The peer of a connection answers while the test does something else.
class Answering {
 public:
  explicit Answering(Connection& connection);
  ~Answering();

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
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

// Which bytes the lanes of this program carry (options.h), all as long as nobody says something else.
class Routes {
 public:
  explicit Routes(std::uint64_t route);
  ~Routes();
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

}  // namespace viaduct::sovia::ready

#endif
