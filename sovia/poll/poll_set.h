// The descriptors of one call of poll() or select(), some of which are sockets that have a lane or may get one, or
// epoll descriptors with such sockets in them. The kernel is asked for the events that it knows, the lanes for the
// others.
#ifndef VIADUCT_SOVIA_POLL_POLL_SET_H
#define VIADUCT_SOVIA_POLL_POLL_SET_H

#include <poll.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "sovia/datagram/datagram_table.h"
#include "sovia/lane/waiting.h"
#include "sovia/poll/epoll_set.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

// An array whose length is known when it is made, on the stack if it is short. Numbers in it have no value at first.
template <class T, std::size_t kFew>
class ShortArray {
 public:
  explicit ShortArray(std::size_t length) {
    if (length > kFew) more_.reset(new T[length]);
  }
  T& operator[](std::size_t i) { return more_ ? more_[i] : few_[i]; }
  const T& operator[](std::size_t i) const { return more_ ? more_[i] : few_[i]; }
  T* data() { return more_ ? more_.get() : few_; }

 private:
  T few_[kFew];
  std::unique_ptr<T[]> more_;
};

class PollSet final : private WaitCondition {
 public:
  // Whether lanes may have events of this descriptor, too.
  static bool concerns_us(int fd);
  // Whether the kernel alone has events of this descriptor, as far as that is known without a lock.
  static bool known_kernel_alone(int fd);

  // `room`: how many descriptors are going to be added. `as_select`: ready counts as select() defines it.
  PollSet(std::size_t room, bool as_select);

  void add(int fd, short wanted);
  void forget(std::size_t place);  // as if it had not been added

  // As poll(): how many are ready, or -1 with errno. `look_only`: don't wait, whatever the deadline.
  int wait(bool look_only, std::uint64_t deadline, const sigset_t* mask);

  std::size_t size() const { return size_; }
  short ready(std::size_t place) const { return fds_[place].revents; }  // after wait()

 private:
  // A descriptor whose events the kernel alone can't tell.
  struct Item {
    std::size_t place = 0;
    short wanted = 0;  // by the program, with its own names of the bits
    short asked = 0;   // of the kernel
    std::uint32_t routes = 0;  // of the socket, when that was decided
    SocketRef socket;  // either this
    EpollSetRef set;   // or this
    datagram::DatagramRef datagrams;  // or this: the kernel is asked for all, the lanes may have more to read
    short answer(short kernel_says, int fd) const;
  };

  bool ready() override;
  bool concerns(const Watched& source) const override;

  void adapt();
  int answer_from_lanes();
  bool kernel_can_wait();
  bool asked_in_vain() const;
  int merge(bool kernel_has_spoken);
  enum class Look : std::uint8_t { kEnds, kAgain, kAsked };
  Look look_at_kernel(bool last, int lanes, const sigset_t* mask, int& count);
  Woken sleep(std::uint64_t deadline, const sigset_t* mask);
  void leave_out(std::size_t place);
  short counted(short wanted, short answer) const;

  const bool as_select_;
  ShortArray<pollfd, 64> fds_;  // fd: the program's; its complement: left out for now
  ShortArray<Item, 8> items_;
  std::size_t size_ = 0;
  std::size_t item_count_ = 0;
  std::size_t live_ = 0;      // descriptors that are not negative
  std::size_t left_out_ = 0;  // left out, as the kernel reports events of them that don't count
  std::size_t on_lanes_ = 0;  // items of which the kernel has no events
  bool spin_ = false;
};

}  // namespace viaduct::sovia

#endif
