// What calls answer at once: that something is ready, that an argument is bad, that they will not wait;
// and those that a call in another thread frees, or leaves waiting.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <thread>

#include "calls.h"

namespace semantics {
namespace {

template <class T>
T* nowhere() {
  return reinterpret_cast<T*>(8);
}

// ---------------------------------------------------------------- readiness

// Waits by one of the ways there are until the socket can be read.
bool wait_readable(int way, int epoll, int s) {
  if (way == 0) {
    epoll_event event{};
    return epoll_wait(epoll, &event, 1, kSoon) == 1;
  }
  if (way == 1) {
    pollfd at{s, POLLIN, 0};
    return poll(&at, 1, kSoon) == 1;
  }
  fd_set read;
  FD_ZERO(&read);
  FD_SET(s, &read);
  timeval limit{kSoon / 1000, 0};
  return select(s + 1, &read, nullptr, nullptr, &limit) == 1;
}

// Connections that end while something that would take part in them has only just begun to.
CASE(answers, readable_is_readable_up_to_the_end, kOnce) {
  constexpr int kConnections = 60;
  long in_vain = 0, hung = 0, bytes = 0;
  for (int i = 0; i < kConnections; ++i) {
    Fd s = t.cold_pair();
    set_option(s, IPPROTO_TCP, TCP_NODELAY, 1);
    const int messages = 3 + i * 7 % 18;
    if (t.client()) {
      char answer;
      for (int n = 0; n < messages; ++n) {
        send_all(s, "m");
        if (n % 2 == 0) bytes += recv(s, &answer, 1, MSG_WAITALL);
      }
      if (i % 4 != 0) pause_ms(i % 4);
      continue;
    }
    set_nonblocking(s);
    Fd epoll(epoll_create1(0));
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    epoll_ctl(epoll, EPOLL_CTL_ADD, s, &wanted);
    long got = 0;
    for (;;) {
      if (!wait_readable(i % 3, epoll, s)) {
        ++hung;
        break;
      }
      char data;
      const ssize_t one = recv(s, &data, 1, 0);
      if (one < 0 && errno == EAGAIN) {
        ++in_vain;
      } else if (one <= 0) {
        break;
      } else if (got++ % 2 == 0) {
        send(s, "a", 1, MSG_NOSIGNAL);
      }
    }
    bytes += got;
  }
  t.note("bytes", bytes);
  t.note("hung", hung);
  t.note("in vain", in_vain);
  t.meet();
}

CASE(answers, a_reset_is_told_while_bytes_are_unread, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "0123456789");
    t.meet();
    const linger now{1, 0};
    setsockopt(s, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    s.close();
    t.meet();
  } else {
    wait_for_bytes(s, 10);
    t.meet();
    t.say(poll_bits(wait_for(s, 0, POLLERR | POLLHUP)));
    t.data("unread", read_exactly(s, 10));
    t.meet();
  }
}

CASE(answers, an_end_is_told_while_bytes_are_unread, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "0123456789");
    shutdown(s, SHUT_WR);
    t.meet();
  } else {
    wait_for_bytes(s, 10);
    t.say(poll_bits(wait_for(s, POLLRDHUP)));
    t.say(poll_bits(wait_for(s, POLLIN | POLLRDHUP)));
    t.data("unread", read_exactly(s, 10));
    t.meet();
  }
}

// ---------------------------------------------------------------- arguments

CASE(answers, bad_addresses, kEach) {
  Fd s = t.pair();
  timeval no_time{};
  Fd epoll(epoll_create1(0));
  t.note("poll", poll(nowhere<pollfd>(), 1, 0));
  t.note("select", select(s + 1, nowhere<fd_set>(), nullptr, nullptr, &no_time));
  t.note("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_ADD, s, nowhere<epoll_event>()));
  t.note("FIOASYNC", ioctl(s, FIOASYNC, nowhere<int>()));
  t.note("FIONREAD", ioctl(s, FIONREAD, nowhere<int>()));
  t.note("sendmsg", sendmsg(s, nowhere<msghdr>(), 0));
  t.note("recvmsg", recvmsg(s, nowhere<msghdr>(), MSG_DONTWAIT));
  t.note("sendmmsg", sendmmsg(s, nowhere<mmsghdr>(), 1, 0));
  t.note("recvmmsg", recvmmsg(s, nowhere<mmsghdr>(), 1, MSG_DONTWAIT, nullptr));
  t.meet();
}

CASE(answers, bad_time_for_recvmmsg, kEach) {
  Fd s = t.pair();
  char to[4];
  iovec piece{to, sizeof to};
  mmsghdr message{};
  message.msg_hdr.msg_iov = &piece;
  message.msg_hdr.msg_iovlen = 1;
  timespec time{0, 2'000'000'000};
  t.note("too many ns", recvmmsg(s, &message, 1, 0, &time));
  time = {-1, 0};
  t.note("negative", recvmmsg(s, &message, 1, 0, &time));
  t.note("nowhere", recvmmsg(s, &message, 1, 0, nowhere<timespec>()));
  t.meet();
}

CASE(answers, negative_time_limit, kEach) {
  Fd s = t.pair();
  const timeval negative{-1, 0}, none{0, 0};
  char to[4];
  t.note("set", setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &negative, sizeof negative));
  t.note("recv", recv(s, to, sizeof to, 0));
  t.note("unset", setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none));
  t.meet();
  if (t.client()) {
    pause_ms(kInCall / 2);
    send_all(s, "came");
  } else {
    t.note("recv", recv(s, to, sizeof to, MSG_WAITALL));
  }
  t.meet();
}

CASE(answers, more_messages_than_sendmmsg_takes, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    static std::array<mmsghdr, 1100> messages;
    char byte = 'm';
    iovec piece{&byte, 1};
    for (mmsghdr& each : messages) {
      each.msg_hdr.msg_iov = &piece;
      each.msg_hdr.msg_iovlen = 1;
    }
    t.note("sent", sendmmsg(s, messages.data(), messages.size(), 0));
    shutdown(s, SHUT_WR);
  } else {
    t.note("came", static_cast<long>(read_to_end(s).size()));
  }
  t.meet();
}

// ---------------------------------------------------------------- options

// Whether a receive comes with control data.
bool has_control(int s) {
  char to[16];
  alignas(cmsghdr) char control[256];
  iovec piece{to, sizeof to};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  return recvmsg(s, &message, 0) > 0 && CMSG_FIRSTHDR(&message) != nullptr;
}

CASE(answers, control_data_from_the_first_receive_on, kEach) {
  constexpr int kTcpInq = 36;
  Fd counted = t.pair(), timed = t.pair();
  if (t.client()) {
    t.meet();
    for (int i = 0; i < 3; ++i) {
      send_all(counted, "c");
      send_all(timed, "t");
      t.meet();
    }
  } else {
    set_option(counted, IPPROTO_TCP, kTcpInq, 1);
    set_option(timed, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    t.meet();
    for (int i = 0; i < 3; ++i) {
      t.note("TCP_INQ", has_control(counted));
      // The kernel begins to take times a little after it is asked to.
      const bool has_time = has_control(timed);
      if (i > 0) t.note("SO_TIMESTAMPNS", has_time);
      t.meet();
    }
  }
}

CASE(answers, a_cork_holds_back, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    set_option(s, IPPROTO_TCP, TCP_CORK, 1);
    send_all(s, "cork");
    t.meet();
    t.hear();
    set_option(s, IPPROTO_TCP, TCP_CORK, 0);
  } else {
    t.meet();
    pollfd at{s, POLLIN, 0};
    t.note("corked", poll(&at, 1, kAWhile));
    t.tell("uncork");
    t.say(poll_bits(wait_for(s, POLLIN)));
    t.data("then", read_exactly(s, 4));
  }
  t.meet();
}

// ---------------------------------------------------------------- other threads

CASE(answers, more_room_for_a_send_that_waits, kEach | kAlone) {
  constexpr std::size_t kMore = 50'000;
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    const std::uint64_t before = fill_up(s);
    ssize_t sent = -2;
    std::thread sender([&] {
      const std::string more(kMore, 'm');
      sent = send(s, more.data(), more.size(), MSG_NOSIGNAL);
    });
    pause_ms(kInCall);
    set_option(s, SOL_SOCKET, SO_SNDBUF, 200'000);
    sender.join();
    t.note("sent", sent);
    t.tell(std::to_string(before + kMore));
  } else {
    t.say(drain(s, std::stoull(t.hear())) ? "all came" : "not all came");
  }
  t.meet();
}

CASE(answers, closed_while_another_thread_receives, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    std::string got;
    const int number = s;
    std::thread reader([&] { got = read_exactly(number, 4); });
    pause_ms(kInCall);
    s.close();
    // The number is another's now.
    Fd other(dup(STDERR_FILENO));
    t.note("the same number", other == number);
    t.meet();
    reader.join();
    t.data("got", got);
  } else {
    t.meet();
    send_all(s, "late");
    std::string how;
    read_to_end(s, &how);
    t.say(how);
  }
  t.meet();
}

}  // namespace
}  // namespace semantics
