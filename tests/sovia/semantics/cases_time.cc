// Time limits of calls, and signals that interrupt them.
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include <cerrno>
#include <ctime>

#include "calls.h"

namespace semantics {
namespace {

constexpr int kLimit = 60;  // ms

CASE(limits, of_recv, kEach) {
  Fd s = t.pair();
  set_time_limit(s, SO_RCVTIMEO, kLimit);
  char to[8];
  const Clock clock;
  t.note("recv", recv(s, to, 8, 0));
  t.say(clock.at_least(kLimit) ? "in time" : "too early");
  t.meet();
  // The connection is as before.
  send_all(s, "after");
  t.data("came", read_exactly(s, 5));
}

CASE(limits, of_read_and_readv, kCold | kWarm) {
  Fd s = t.pair();
  set_time_limit(s, SO_RCVTIMEO, kLimit / 2);
  char to[8];
  t.note("read", read(s, to, 8));
  msghdr message{};
  iovec part{to, 8};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  t.note("recvmsg", recvmsg(s, &message, 0));
  t.note("peek", recv(s, to, 8, MSG_PEEK));
  t.meet();
}

CASE(limits, of_recv_for_all, kEach) {
  Fd s = t.pair();
  set_time_limit(s, SO_RCVTIMEO, kLimit);
  if (t.client()) {
    send_all(s, "half");
    t.meet();
  } else {
    wait_for_bytes(s, 4);
    char to[8];
    t.note("recv", recv(s, to, 8, MSG_WAITALL));
    t.meet();
  }
}

CASE(limits, of_send, kEach) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    set_time_limit(s, SO_SNDTIMEO, kLimit);
    fill_up(s);
    const Clock clock;
    ssize_t n;
    const std::string piece(60'000, 'p');
    while ((n = send(s, piece.data(), piece.size(), 0)) > 0) {
    }
    t.note("send", n);
    t.say(clock.at_least(kLimit) ? "in time" : "too early");
  }
  t.meet();
}

CASE(limits, taken_away_again, kEach) {
  Fd s = t.pair();
  set_time_limit(s, SO_RCVTIMEO, kLimit / 2);
  char to[8];
  t.note("recv", recv(s, to, 8, 0));
  set_time_limit(s, SO_RCVTIMEO, 0);
  t.meet();
  if (t.client()) {
    pause_ms(kInCall);
    send_all(s, "late");
  } else {
    t.data("came", read_exactly(s, 4));
  }
}

CASE(limits, of_accept, kOnce) {
  const Fd listener(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  must(listen(listener, 1), "listen");
  set_time_limit(listener, SO_RCVTIMEO, kLimit);
  const Clock clock;
  t.note("accept", accept(listener, nullptr, nullptr));
  t.say(clock.at_least(kLimit) ? "in time" : "too early");
}

CASE(limits, what_was_set_can_be_asked, kCold | kWarm) {
  Fd s = t.pair();
  set_time_limit(s, SO_RCVTIMEO, 1500);
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    timeval limit{};
    socklen_t size = sizeof limit;
    t.note("getsockopt", getsockopt(s, SOL_SOCKET, option, &limit, &size));
    t.note("seconds", limit.tv_sec);
    t.note("at least half a second", limit.tv_usec >= 490'000 ? 1 : 0);
  }
  const timeval bad{1, 2'000'000};
  t.note("bad", setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &bad, sizeof bad));
  t.meet();
}

CASE(limits, of_poll_and_select, kEach) {
  Fd s = t.pair();
  pollfd at{s, POLLIN, 0};
  Clock first;
  t.note("poll", poll(&at, 1, kLimit));
  t.say(first.at_least(kLimit) ? "in time" : "too early");
  fd_set readable;
  FD_ZERO(&readable);
  FD_SET(s, &readable);
  timeval limit{0, kLimit * 1000};
  Clock second;
  t.note("select", select(s + 1, &readable, nullptr, nullptr, &limit));
  t.say(second.at_least(kLimit) ? "in time" : "too early");
  t.note("set", FD_ISSET(s, &readable) ? 1 : 0);
  // Linux says what is left.
  t.note("left", limit.tv_sec * 1'000'000 + limit.tv_usec);
  t.meet();
}

// ---------------------------------------------------------------- signals

CASE(interrupts, recv, kEach | kAlone) {
  Fd s = t.pair();
  {
    const Interrupts alarms(false);
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
    t.note("read", read(s, to, 8));
    t.note("for all", recv(s, to, 8, MSG_WAITALL));
    t.note("peek", recv(s, to, 8, MSG_PEEK));
    msghdr message{};
    iovec part{to, 8};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    t.note("recvmsg", recvmsg(s, &message, 0));
  }
  t.meet();
}

CASE(interrupts, recv_that_is_restarted, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    t.meet();
    pause_ms(2 * kInCall);
    send_all(s, "came");
    t.meet();
  } else {
    const Interrupts alarms(true);
    t.meet();
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
    t.say(Interrupts::seen() > 0 ? "signals were handled" : "no signal was handled");
    t.meet();
  }
}

CASE(interrupts, recv_with_a_time_limit_is_not_restarted, kEach | kAlone) {
  Fd s = t.pair();
  {
    set_time_limit(s, SO_RCVTIMEO, 2000);
    const Interrupts alarms(true);
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
  }
  t.meet();
}

CASE(interrupts, recv_for_all_gives_what_it_has, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "half");
    t.meet();
  } else {
    wait_for_bytes(s, 4);
    {
      const Interrupts alarms(false);
      char to[8];
      t.note("recv", recv(s, to, 8, MSG_WAITALL));
    }
    t.meet();
  }
}

CASE(interrupts, send_into_full_buffers, kEach | kAlone) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    fill_up(s);
    const Interrupts alarms(false);
    const std::string piece(60'000, 'p');
    ssize_t n;
    while ((n = send(s, piece.data(), piece.size(), 0)) > 0) {
    }
    t.note("send", n);
  }
  t.meet();
}

CASE(interrupts, send_that_is_restarted, kEach | kAlone) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  constexpr std::size_t kBytes = 2'000'000;
  if (t.client()) {
    const Interrupts alarms(true, 10);
    std::size_t at = 0;
    const std::string bytes(kBytes, 'r');
    bool interrupted = false;
    while (at < kBytes) {
      const ssize_t n = send(s, bytes.data() + at, kBytes - at, 0);
      if (n < 0) {
        interrupted = true;
        break;
      }
      at += static_cast<std::size_t>(n);
    }
    t.say(interrupted ? errno_name(errno) : "never interrupted");
    t.note("sent", static_cast<long>(at));
  } else {
    pause_ms(2 * kInCall);
    t.say(drain(s, kBytes) ? "all came" : "not all came");
  }
}

CASE(interrupts, poll_and_select, kEach | kAlone) {
  Fd s = t.pair();
  {
    const Interrupts alarms(true);  // these are never restarted
    pollfd at{s, POLLIN, 0};
    t.note("poll", poll(&at, 1, kSoon));
    t.note("ppoll", ppoll(&at, 1, nullptr, nullptr));
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(s, &readable);
    timeval limit{3, 0};
    t.note("select", select(s + 1, &readable, nullptr, nullptr, &limit));
    FD_SET(s, &readable);
    t.note("pselect", pselect(s + 1, &readable, nullptr, nullptr, nullptr, nullptr));
  }
  t.meet();
}

CASE(interrupts, epoll_wait, kEach | kAlone) {
  Fd s = t.pair();
  {
    const Fd set(must(epoll_create1(0), "epoll_create1"));
    epoll_event event{EPOLLIN, {}};
    must(epoll_ctl(set, EPOLL_CTL_ADD, s, &event), "epoll_ctl");
    const Interrupts alarms(true);
    t.note("epoll_wait", epoll_wait(set, &event, 1, kSoon));
    t.note("epoll_pwait", epoll_pwait(set, &event, 1, -1, nullptr));
  }
  t.meet();
}

CASE(interrupts, accept, kAlone) {
  const Fd listener(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  must(listen(listener, 1), "listen");
  const Interrupts alarms(false);
  t.note("accept", accept(listener, nullptr, nullptr));
}

CASE(interrupts, accept_that_is_restarted, kAlone) {
  if (t.server()) {
    const Fd listener = t.listen();
    const Interrupts alarms(true);
    const Fd s(accept(listener, nullptr, nullptr));
    t.say(s >= 0 ? "accepted" : "not accepted");
    t.say(Interrupts::seen() > 0 ? "signals were handled" : "no signal was handled");
    t.meet();
  } else {
    const sockaddr_storage to = t.hear_address();
    pause_ms(2 * kInCall);
    const Fd s(socket(AF_INET, SOCK_STREAM, 0));
    t.note("connect", connect(s, reinterpret_cast<const sockaddr*>(&to), size_of(to)));
    t.meet();
  }
}

CASE(interrupts, ppoll_unmasks_for_the_wait, kEach | kAlone) {
  Fd s = t.pair();
  sigset_t blocked, none;
  sigemptyset(&none);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  {
    const Counted signals(SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    kill(getpid(), SIGUSR1);
    pollfd at{s, POLLIN, 0};
    t.note("poll", poll(&at, 1, 10));
    t.note("handled", Counted::seen());
    const timespec limit{3, 0};
    t.note("ppoll", ppoll(&at, 1, &limit, &none));
    t.note("handled", Counted::seen());
    sigset_t now;
    sigprocmask(SIG_SETMASK, nullptr, &now);
    t.note("blocked again", sigismember(&now, SIGUSR1));
  }
  t.meet();
}

CASE(interrupts, pselect_unmasks_for_the_wait, kEach | kAlone) {
  Fd s = t.pair();
  sigset_t blocked, none;
  sigemptyset(&none);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  {
    const Counted signals(SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    kill(getpid(), SIGUSR1);
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(s, &readable);
    const timespec limit{3, 0};
    t.note("pselect", pselect(s + 1, &readable, nullptr, nullptr, &limit, &none));
    t.note("handled", Counted::seen());
  }
  t.meet();
}

CASE(interrupts, epoll_pwait_unmasks_for_the_wait, kEach | kAlone) {
  Fd s = t.pair();
  sigset_t blocked, none;
  sigemptyset(&none);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  {
    const Fd set(must(epoll_create1(0), "epoll_create1"));
    epoll_event event{EPOLLIN, {}};
    must(epoll_ctl(set, EPOLL_CTL_ADD, s, &event), "epoll_ctl");
    const Counted signals(SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    kill(getpid(), SIGUSR1);
    t.note("epoll_wait", epoll_wait(set, &event, 1, 10));
    t.note("epoll_pwait", epoll_pwait(set, &event, 1, kSoon, &none));
    t.note("handled", Counted::seen());
  }
  t.meet();
}

CASE(interrupts, many_signals_while_streaming, kEach | kAlone) {
  Fd s = t.pair();
  const Pattern out(t.client() ? 1 : 2), in(t.client() ? 2 : 1);
  constexpr std::uint64_t kBytes = 2'000'000;
  const Interrupts alarms(true, 1);
  std::uint64_t right = 0;
  if (t.client()) {
    send_pattern(s, out, 0, kBytes, 40'000);
    right = receive_pattern(s, in, 0, kBytes, 30'011);
  } else {
    right = receive_pattern(s, in, 0, kBytes, 30'011);
    send_pattern(s, out, 0, kBytes, 40'000);
  }
  t.note("right up to", static_cast<long>(right));
  t.meet();
}

}  // namespace
}  // namespace semantics
