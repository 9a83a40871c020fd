// Calls that answer at once: that something is ready, that an argument is bad, that they will not wait; and those that
// a call in another thread frees, or leaves waiting.
#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

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
  pollfd* const volatile polled = nowhere<pollfd>();  // the compiler would warn
  t.note("poll", poll(polled, 1, 0));
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
  Fd counted = t.pair();
  if (t.client()) {
    t.meet();
    for (int i = 0; i < 3; ++i) {
      send_all(counted, "c");
      t.meet();
    }
  } else {
    set_option(counted, IPPROTO_TCP, kTcpInq, 1);
    t.meet();
    for (int i = 0; i < 3; ++i) {
      t.note("TCP_INQ", has_control(counted));
      t.meet();
    }
  }
}

// A cork holds back for 200 ms. Whether it did is known only if the ends have looked sooner.
CASE(answers, a_cork_holds_back, kEach) {
  constexpr int kSooner = 150;
  Fd s = t.pair();
  int early = -1;
  std::string then;
  short bits = 0;
  for (bool known = false; !known;) {
    if (t.client()) {
      set_option(s, IPPROTO_TCP, TCP_CORK, 1);
      const Clock since;
      send_all(s, "cork");
      t.meet();
      known = t.hear() == "nothing" || !since.at_least(kSooner);
      set_option(s, IPPROTO_TCP, TCP_CORK, 0);
      t.tell(known ? "known" : "again");
    } else {
      t.meet();
      pollfd at{s, POLLIN, 0};
      early = poll(&at, 1, kAWhile);
      t.tell(early == 0 ? "nothing" : "something");
      bits = wait_for(s, POLLIN);
      then = read_exactly(s, 4);
      known = t.hear() == "known";
    }
  }
  if (t.server()) {
    t.note("corked", early);
    t.say(poll_bits(bits));
    t.data("then", then);
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

// ---------------------------------------------------------------- programs that have little

CASE(answers, threads_with_the_least_stack, kEach | kAlone) {
  Fd s = t.pair();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, static_cast<std::size_t>(PTHREAD_STACK_MIN));
  pthread_t thread;
  const auto run = [](void* socket) -> void* {
    send(*static_cast<int*>(socket), "t", 1, MSG_NOSIGNAL);
    return nullptr;
  };
  int number = s;
  const int made = pthread_create(&thread, &attributes, run, &number);
  pthread_attr_destroy(&attributes);
  t.note("made", made);
  if (made == 0) pthread_join(thread, nullptr);
  t.data("came", read_exactly(s, 1));
  t.meet();
}

CASE(answers, descriptors_of_the_programs_choice, kEach) {
  Fd s = t.pair();
  long good = 0;
  for (int number = 890; number < 930; ++number) {
    const Fd copy(dup2(STDERR_FILENO, number));
    good += copy == number;
  }
  t.note("good", good);
  t.meet();
}

// A thread for each connection, and not many more descriptors than connections.
CASE(answers, many_threads_and_few_descriptors, kAlone) {
  constexpr std::size_t kConnections = 60;
  constexpr int kRounds = 12;
  const rlimit few{128, 128};
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<Fd> all = t.pairs(kConnections);
  std::atomic<long> good{0};
  std::vector<std::thread> threads;
  for (const Fd& s : all) {
    threads.emplace_back([&good, fd = int{s}, first = t.client()] {
      for (int i = 0; i < kRounds; ++i) {
        char byte = 'r';
        if (first) send(fd, &byte, 1, MSG_NOSIGNAL);
        if (recv(fd, &byte, 1, 0) == 1) ++good;
        if (!first) send(fd, &byte, 1, MSG_NOSIGNAL);
        if (first && i > 4) pause_ms(2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  t.note("good", good);
  t.meet();
}

// System calls that are none of a plain program's on a socket fail from now on; a new signal handler ends the
// process, as in sshd's sandbox.
bool forbid_calls() {
  constexpr std::array kForbidden = {SYS_ppoll,      SYS_sendmsg,    SYS_recvmsg,  SYS_madvise,
                                     SYS_getsockopt, SYS_setsockopt, SYS_ioctl,    SYS_fcntl,
                                     SYS_eventfd2,   SYS_membarrier, SYS_sched_yield};
  std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long number : kForbidden) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 0, 1));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

CASE(answers, after_a_filter_of_system_calls, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    t.note("filter", forbid_calls());
    long good = 0;
    for (int i = 0; i < 40; ++i) {
      char byte = 'f';
      pollfd at{s, POLLIN, 0};
      if (write(s, &byte, 1) == 1 && poll(&at, 1, kSoon) == 1 && read(s, &byte, 1) == 1) ++good;
    }
    t.note("good", good);
    t.note("shutdown", shutdown(s, SHUT_WR));
  } else {
    for (char byte; recv(s, &byte, 1, 0) == 1;) send(s, &byte, 1, MSG_NOSIGNAL);
  }
  t.meet();
}

}  // namespace
}  // namespace semantics
