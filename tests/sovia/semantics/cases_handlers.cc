// Signal handlers that interrupt calls, and leave them by longjmp or use the socket.
#include <setjmp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>

#include <string>
#include <thread>

#include "calls.h"

namespace semantics {
namespace {

sigjmp_buf out_of_call;
int the_socket = -1;

// SIGALRM after a while, once or again and again.
class Alarm {
 public:
  explicit Alarm(void (*handler)(int), int ms = kInCall, bool again = false) {
    before_ = signal(SIGALRM, handler);
    const timeval first{0, ms * 1000}, never{0, 0};
    const itimerval timer{again ? first : never, first};
    must(setitimer(ITIMER_REAL, &timer, nullptr), "setitimer");
  }
  ~Alarm() {
    const itimerval none{};
    setitimer(ITIMER_REAL, &none, nullptr);
    signal(SIGALRM, before_);
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  void (*before_)(int);
};

void jump(int) { siglongjmp(out_of_call, 1); }

// The connection is as good as before.
void exchange(const Case& t, int s) {
  t.meet();
  if (t.client()) {
    send_all(s, "after the jump");
    t.data("answer", read_exactly(s, 6));
  } else {
    t.data("got", read_exactly(s, 14));
    send_all(s, "answer");
  }
  t.meet();
}

template <class Call>
void leave(const Case& t, int s, Call&& call) {
  {
    const Alarm alarm(jump);
    if (sigsetjmp(out_of_call, 1) == 0) {
      call(s);
      t.say("it has returned");
    } else {
      t.say("left");
    }
  }
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  t.note("still blocked", sigismember(&blocked, SIGALRM));
  exchange(t, s);
}

CASE(handlers, leave_recv, kEach | kAlone) {
  Fd s = t.pair();
  leave(t, s, [](int fd) {
    char to[8];
    recv(fd, to, 8, 0);
  });
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
CASE(handlers, set_by_sigset, kEach | kAlone) {
  Fd s = t.pair();
  t.say(sigset(SIGALRM, jump) == SIG_DFL ? "was the default" : "was something else");
  t.say(sigset(SIGALRM, SIG_HOLD) == jump ? "was the handler" : "was something else");
  t.say(sigset(SIGALRM, SIG_HOLD) == SIG_HOLD ? "was held" : "was something else");
  t.say(sigset(SIGALRM, jump) == SIG_HOLD ? "was held" : "was something else");
  const itimerval once{{}, {0, kInCall * 1000}};
  if (sigsetjmp(out_of_call, 1) == 0) {
    must(setitimer(ITIMER_REAL, &once, nullptr), "setitimer");
    char to[8];
    recv(s, to, 8, 0);
    t.say("it has returned");
  } else {
    t.say("left");
  }
  t.say(sigset(SIGALRM, SIG_DFL) == jump ? "was the handler" : "was something else");
  t.note("of no signal", sigset(-1, jump) == SIG_ERR ? errno : 0);
  exchange(t, s);
}
#pragma GCC diagnostic pop

CASE(handlers, leave_a_read_for_all, kEach | kAlone) {
  Fd s = t.pair();
  leave(t, s, [](int fd) {
    char to[8];
    recv(fd, to, 8, MSG_WAITALL | MSG_PEEK);
  });
}

CASE(handlers, leave_poll, kEach | kAlone) {
  Fd s = t.pair();
  leave(t, s, [](int fd) {
    pollfd at{fd, POLLIN, 0};
    poll(&at, 1, kSoon);
  });
}

CASE(handlers, leave_select, kEach | kAlone) {
  Fd s = t.pair();
  leave(t, s, [](int fd) {
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(fd, &readable);
    select(fd + 1, &readable, nullptr, nullptr, nullptr);
  });
}

CASE(handlers, leave_epoll_wait, kEach | kAlone) {
  Fd s = t.pair();
  const Fd set(must(epoll_create1(0), "epoll_create1"));
  epoll_event event{EPOLLIN, {}};
  must(epoll_ctl(set, EPOLL_CTL_ADD, s, &event), "epoll_ctl");
  leave(t, s, [&](int) { epoll_wait(set, &event, 1, kSoon); });
  if (t.client()) {
    t.note("epoll_wait", epoll_wait(set, &event, 1, kSoon));
  } else {
    send_all(s, "x");
  }
  t.meet();
}

CASE(handlers, leave_send, kEach | kAlone) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    const std::string much(4'000'000, 'm');
    const Alarm alarm(jump);
    if (sigsetjmp(out_of_call, 1) == 0) {
      send(s, much.data(), much.size(), 0);
      t.say("it has returned");
    } else {
      t.say("left");
    }
    t.meet();
    shutdown(s, SHUT_WR);
  } else {
    t.meet();
    std::string how;
    const std::string got = read_to_end(s, &how);
    t.say(how);
    t.say(got.find_first_not_of('m') == std::string::npos ? "only what was sent" : "something else");
  }
  t.meet();
}

CASE(handlers, leave_calls_again_and_again, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    static constexpr int kJumps = 200;
    static volatile int jumps;
    jumps = 0;
    // The last alarm must not lead back into the loop.
    const auto jump_in_loop = [](int) {
      if (jumps < kJumps) siglongjmp(out_of_call, 1);
    };
    const Alarm alarm(jump_in_loop, 1, true);
    for (volatile long calls = 0; jumps < kJumps && calls < 50'000'000;) {
      calls = calls + 1;
      if (sigsetjmp(out_of_call, 1) != 0) {
        jumps = jumps + 1;
        continue;
      }
      char to[700];
      pollfd at{s, POLLIN, 0};
      if (jumps % 2 == 0) poll(&at, 1, 1);
      recv(s, to, sizeof to, MSG_DONTWAIT);
    }
    t.note("jumps", jumps);
  } else {
    const Pattern pattern(3);
    signal(SIGPIPE, SIG_IGN);
    const std::string piece = pattern.bytes(0, 3000);
    while (send(s, piece.data(), piece.size(), 0) > 0) continue;
    t.say("the peer has gone");
  }
}

CASE(handlers, use_the_socket, kEach | kAlone) {
  Fd s = t.pair();
  the_socket = s;
  if (t.client()) {
    const Alarm alarm([](int) { send(the_socket, "ping", 4, 0); });
    t.data("answer", read_exactly(s, 4));
  } else {
    t.data("got", read_exactly(s, 4));
    send_all(s, "pong");
  }
  t.meet();
}

void send_often(int) {
  for (int i = 0; i < 40; ++i) {
    if (send(the_socket, "x", 1, 0) != 1) _exit(1);
  }
}

// The handler's sends may make the connection faster; the call that it has interrupted must not miss that.
CASE(handlers, send_often_while_a_receive_waits, kEach | kAlone) {
  Fd s = t.pair();
  the_socket = s;
  t.meet();
  if (t.client()) {
    const Alarm alarm(send_often);
    t.data("answer", read_exactly(s, 6));
  } else {
    for (int i = 0; i < 40; ++i) t.note("read", static_cast<long>(read_exactly(s, 1).size()));
    pause_ms(5 * kInCall);
    send_all(s, "answer");
  }
  exchange(t, s);
}

CASE(handlers, close_the_socket, kEach | kAlone) {
  Fd s = t.pair();
  the_socket = s;
  if (t.client()) {
    const Alarm alarm([](int) {
      close(the_socket);
      siglongjmp(out_of_call, 1);
    });
    char to[8];
    if (sigsetjmp(out_of_call, 1) == 0) recv(s, to, 8, 0);
    s.release();
  } else {
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
  }
  t.meet();
}

CASE(handlers, get_what_was_sent_with_the_signal, kEach | kAlone) {
  Fd s = t.pair();
  static volatile int value, code, masked;
  struct sigaction action = {}, before;
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    value = info->si_value.sival_int;
    code = info->si_code;
    sigset_t now;
    sigprocmask(SIG_SETMASK, nullptr, &now);
    masked = sigismember(&now, SIGUSR1) * 4 + sigismember(&now, SIGUSR2) * 2 +
             sigismember(&now, SIGHUP);
  };
  action.sa_flags = SA_SIGINFO;
  sigaddset(&action.sa_mask, SIGUSR2);
  must(sigaction(SIGUSR1, &action, nullptr), "sigaction");
  const pthread_t self = pthread_self();
  std::thread other([self] {
    pause_ms(kInCall);
    sigval sent;
    sent.sival_int = 42;
    pthread_sigqueue(self, SIGUSR1, sent);
  });
  char to[8];
  t.note("recv", recv(s, to, 8, 0));
  other.join();
  t.note("value", value);
  t.say(code == SI_QUEUE ? "queued" : "not queued");
  t.note("masked", masked);
  must(sigaction(SIGUSR1, nullptr, &before), "sigaction");
  t.say(before.sa_sigaction == action.sa_sigaction ? "the same handler" : "another handler");
  t.note("flags", before.sa_flags);
  t.meet();
}

CASE(handlers, are_reset_when_they_ask_for_it, kEach | kAlone) {
  Fd s = t.pair();
  static volatile int runs;
  runs = 0;
  struct sigaction action = {}, before;
  action.sa_handler = [](int) { runs = runs + 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  must(sigaction(SIGALRM, &action, nullptr), "sigaction");
  const itimerval timer{{0, 0}, {0, kInCall * 1000}};
  must(setitimer(ITIMER_REAL, &timer, nullptr), "setitimer");
  char to[8];
  t.note("recv", recv(s, to, 8, 0));
  t.note("runs", runs);
  must(sigaction(SIGALRM, nullptr, &before), "sigaction");
  t.say(before.sa_handler == SIG_DFL ? "reset" : "not reset");
  t.meet();
}

}  // namespace
}  // namespace semantics
