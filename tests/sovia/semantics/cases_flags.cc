// The flags of send and recv.
#include <netinet/tcp.h>
#include <sys/uio.h>

#include "calls.h"

namespace semantics {
namespace {

CASE(flags, peek_leaves_the_bytes, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "hello");
    t.meet();
    t.meet();
    return;
  }
  t.meet();
  wait_for_bytes(s, 5);
  char to[10] = {};
  for (int i = 0; i < 3; ++i) {
    t.note("peek", recv(s, to, sizeof to, MSG_PEEK));
    t.data("seen", {to, 5});
  }
  t.note("peek 2", recv(s, to, 2, MSG_PEEK));
  t.data("read", read_exactly(s, 5));
  t.note("peek at nothing", recv(s, to, 5, MSG_PEEK | MSG_DONTWAIT));
  t.meet();
}

CASE(flags, peek_between_reads, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "abcdefghij");
    t.meet();
    return;
  }
  t.meet();
  wait_for_bytes(s, 10);
  for (const std::size_t n : {2u, 3u, 4u}) {
    char to[10];
    const ssize_t seen = recv(s, to, n + 1, MSG_PEEK);
    t.note("peek", seen);
    t.data("seen", {to, static_cast<std::size_t>(seen)});
    t.data("read", read_exactly(s, n));
  }
}

CASE(flags, peek_waits_for_all, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "abc");
    pause_ms(20);
    send_all(s, "def");
  } else {
    char to[6];
    t.note("peek", recv(s, to, 6, MSG_PEEK | MSG_WAITALL));
    t.data("seen", {to, 6});
    t.data("read", read_exactly(s, 6));
  }
}

CASE(flags, peek_over_many_packets, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::size_t kBytes = 50'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 1000);
    t.meet();
  } else {
    std::string to(kBytes, '\0');
    t.meet();
    wait_for_bytes(s, kBytes);
    t.note("peek", recv(s, to.data(), kBytes, MSG_PEEK));
    t.say(pattern.matches(0, to) ? "right" : "wrong");
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 7001)));
  }
}

CASE(flags, peek_at_the_end, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    shutdown(s, SHUT_WR);
    t.meet();
  } else {
    char to;
    t.note("peek", recv(s, &to, 1, MSG_PEEK));
    t.note("peek", recv(s, &to, 1, MSG_PEEK));
    t.note("recv", recv(s, &to, 1, 0));
    t.meet();
  }
}

CASE(flags, recvmsg_peeks, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "peekable");
    t.meet();
    return;
  }
  t.meet();
  wait_for_bytes(s, 8);
  char a[3], b[10];
  iovec parts[] = {{a, 3}, {b, 10}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  t.note("recvmsg", recvmsg(s, &message, MSG_PEEK));
  t.data("seen", std::string(a, 3) + std::string(b, 5));
  t.note("recvmsg", recvmsg(s, &message, 0));
  t.data("read", std::string(a, 3) + std::string(b, 5));
}

CASE(flags, dontwait_on_nothing, kEach) {
  Fd s = t.pair();
  char to[4];
  t.note("recv", recv(s, to, 4, MSG_DONTWAIT));
  t.note("peek", recv(s, to, 4, MSG_DONTWAIT | MSG_PEEK));
  t.note("all", recv(s, to, 4, MSG_DONTWAIT | MSG_WAITALL));
  msghdr message{};
  iovec part{to, 4};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  t.note("recvmsg", recvmsg(s, &message, MSG_DONTWAIT));
  t.meet();
}

CASE(flags, dontwait_takes_what_is_there, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "abc");
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, 3);
    char to[8];
    t.note("recv", recv(s, to, 8, MSG_DONTWAIT | MSG_WAITALL));
    t.note("recv", recv(s, to, 8, MSG_DONTWAIT));
  }
  t.meet();
}

CASE(flags, dontwait_send_until_full, kEach) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    const std::uint64_t n = fill_up(s);
    t.say(n > 4000 ? "some was taken" : "next to nothing was taken");
    t.note("send", send(s, "x", 1, MSG_DONTWAIT));
    t.tell(std::to_string(n));
    t.hear();
    t.say(poll_bits(wait_for(s, POLLOUT)));
    t.note("send", send(s, "x", 1, MSG_DONTWAIT));
  } else {
    const std::uint64_t n = std::stoull(t.hear());
    t.say(drain(s, n) ? "all came" : "not all came");
    t.tell("drained");
    t.data("last", read_exactly(s, 1));
  }
}

CASE(flags, waitall_over_pauses, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    for (int i = 0; i < 5; ++i) {
      send_all(s, "12345678");
      pause_ms(5);
    }
  } else {
    char to[40];
    t.note("recv", recv(s, to, 40, MSG_WAITALL));
    t.data("came", {to, 40});
  }
}

CASE(flags, waitall_is_short_at_the_end, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "only this");
    pause_ms(10);
  } else {
    char to[40];
    t.note("recv", recv(s, to, 40, MSG_WAITALL));
    t.note("recv", recv(s, to, 40, MSG_WAITALL));
  }
}

CASE(flags, waitall_larger_than_any_window, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::size_t kBytes = 8 << 20;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 300'000);
  } else {
    std::string to(kBytes, '\0');
    t.note("recv", recv(s, to.data(), kBytes, MSG_WAITALL));
    t.say(pattern.matches(0, to) ? "right" : "wrong");
  }
}

CASE(flags, readv_and_waitall_by_recvmsg, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "aaa");
    pause_ms(10);
    send_all(s, "bbbccc");
  } else {
    char a[4], b[5];
    iovec parts[] = {{a, 4}, {b, 5}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    t.note("recvmsg", recvmsg(s, &message, MSG_WAITALL));
    t.data("first", {a, 4});
    t.data("second", {b, 5});
  }
}

CASE(flags, trunc_drops_bytes, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "dropped-kept");
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, 12);
    char to[12];
    for (char& c : to) c = '.';
    t.note("recv", recv(s, to, 8, MSG_TRUNC));
    t.data("buffer", {to, 12});
    t.note("without a buffer", recv(s, nullptr, 2, MSG_TRUNC));
    t.data("read", read_exactly(s, 2));
  }
}

CASE(flags, more_holds_back_until_the_rest, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    for (int i = 0; i < 10; ++i) {
      t.note("more", send(s, "part ", 5, MSG_MORE));
      t.note("last", send(s, "rest\n", 5, 0));
    }
  } else {
    t.data("came", read_exactly(s, 100));
  }
}

CASE(flags, more_goes_out_with_the_end, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    t.note("more", send(s, "held back", 9, MSG_MORE));
    t.note("shutdown", shutdown(s, SHUT_WR));
    t.meet();
  } else {
    std::string how;
    t.data("came", read_to_end(s, &how));
    t.say(how);
    t.meet();
  }
}

CASE(flags, cork_and_uncork, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    set_option(s, IPPROTO_TCP, TCP_CORK, 1);
    send_all(s, "under ");
    send_all(s, "the cork");
    t.note("corked", get_option(s, IPPROTO_TCP, TCP_CORK));
    set_option(s, IPPROTO_TCP, TCP_CORK, 0);
    t.meet();
  } else {
    t.meet();
    t.data("came", read_exactly(s, 14));
  }
}

CASE(flags, dontroute_and_confirm_are_taken, kCold | kWarm) {
  Fd s = t.pair();
  if (t.client()) {
    t.note("MSG_DONTROUTE", send(s, "ab", 2, MSG_DONTROUTE));
    t.note("MSG_CONFIRM", send(s, "cd", 2, MSG_CONFIRM));
    t.note("MSG_EOR", send(s, "ef", 2, MSG_EOR));
  } else {
    t.data("came", read_exactly(s, 6));
  }
}

CASE(flags, errqueue_is_empty, kCold | kWarm) {
  Fd s = t.pair();
  char to[8], control[128];
  iovec part{to, 8};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  t.note("recvmsg", recvmsg(s, &message, MSG_ERRQUEUE));
  t.meet();
}

}  // namespace
}  // namespace semantics
