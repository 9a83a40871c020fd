// epoll: triggers, changes of a set, ends.
#include <fcntl.h>

#include <algorithm>

#include "calls.h"
#include "epoll_set.h"

namespace semantics {
namespace {

CASE(epoll, level, kEach) {
  Fd s = t.pair();
  const Set set;
  set.add(s, EPOLLIN);
  t.say(set.wait(0));
  t.meet();
  send_all(s, "ab");
  t.meet();
  for (int i = 0; i < 3; ++i) t.say(set.wait(kSoon));
  read_exactly(s, 1);
  t.say(set.wait(kSoon));
  read_exactly(s, 1);
  t.say(set.wait(0));
  t.meet();
}

CASE(epoll, edge, kEach) {
  Fd s = t.pair();
  const Set set;
  set.add(s, EPOLLIN | EPOLLET);
  for (int i = 0; i < 3; ++i) {
    t.meet();
    send_all(s, "ab");
    t.meet();
    t.say(set.wait(kSoon));
    t.say(set.wait(kAWhile / 3));  // told once
    t.data("came", read_exactly(s, 2));
    t.say(set.wait(0));
  }
  t.meet();
}

CASE(epoll, edge_with_bytes_left, kEach) {
  Fd s = t.pair();
  const Set set;
  set.add(s, EPOLLIN | EPOLLET);
  t.meet();
  send_all(s, "ab");
  wait_for_bytes(s, 2);
  t.say(set.wait(kSoon));
  read_exactly(s, 1);
  t.say(set.wait(kAWhile / 3));
  t.meet();
  send_all(s, "c");  // news, though the socket was readable all the time
  wait_for_bytes(s, 2);
  t.say(set.wait(kSoon));
  t.data("came", read_exactly(s, 2));
  t.meet();
}

CASE(epoll, edge_added_when_ready, kEach) {
  Fd s = t.pair();
  send_all(s, "x");
  wait_for(s, POLLIN);
  const Set set;
  set.add(s, EPOLLIN | EPOLLET);
  t.say(set.wait(kSoon));
  t.say(set.wait(0));
  set.modify(s, EPOLLIN | EPOLLET, 7);  // looks anew
  t.say(set.wait(kSoon));
  t.say(set.wait(0));
  t.meet();
}

CASE(epoll, edge_for_writing, kEach) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    const Set set;
    set.add(s, EPOLLOUT | EPOLLET);
    t.say(set.wait(kSoon));
    t.say(set.wait(0));
    const std::uint64_t n = fill_up(s);
    set.wait(0);  // filling up may have made news
    t.say(set.wait(0));
    t.tell(std::to_string(n));
    t.say(set.wait(kSoon));
    t.meet();
  } else {
    t.say(drain(s, std::stoull(t.hear())) ? "all came" : "not all came");
    t.meet();
  }
}

CASE(epoll, edge_reader_of_a_stream, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 2'000'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 17'000);
    t.meet();
  } else {
    set_nonblocking(s);
    const Set set;
    set.add(s, EPOLLIN | EPOLLET);
    std::uint64_t at = 0;
    std::string to(8000, '\0');
    while (at < kBytes && set.wait(kSoon) != "nothing") {
      ssize_t n;
      while ((n = recv(s, to.data(), to.size(), 0)) > 0) {
        if (!pattern.matches(at, {to.data(), static_cast<std::size_t>(n)})) break;
        at += static_cast<std::uint64_t>(n);
      }
    }
    t.note("right up to", static_cast<long>(at));
    t.meet();
  }
}

CASE(epoll, edge_writer_of_a_stream, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 6'000'000;
  if (t.client()) {
    set_nonblocking(s);
    const Set set;
    set.add(s, EPOLLOUT | EPOLLET);
    std::uint64_t at = 0;
    while (at < kBytes && set.wait(kSoon) != "nothing") {
      for (;;) {
        const std::string piece = pattern.bytes(at, std::min<std::uint64_t>(40'000, kBytes - at));
        const ssize_t n = send(s, piece.data(), piece.size(), 0);
        if (n <= 0) break;
        at += static_cast<std::uint64_t>(n);
      }
    }
    t.note("sent", static_cast<long>(at));
    t.meet();
  } else {
    pause_ms(20);
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 25'013)));
    t.meet();
  }
}

CASE(epoll, oneshot, kEach) {
  Fd s = t.pair();
  const Set set;
  set.add(s, EPOLLIN | EPOLLONESHOT);
  t.meet();
  send_all(s, "x");
  t.say(set.wait(kSoon));
  t.say(set.wait(0));
  set.modify(s, EPOLLIN | EPOLLONESHOT, 1);
  t.say(set.wait(kSoon));
  t.say(set.wait(0));
  t.meet();
}

CASE(epoll, modified, kEach) {
  Fd s = t.pair();
  const Set set;
  set.add(s, 0);
  t.meet();
  send_all(s, "x");
  wait_for(s, POLLIN);
  t.say(set.wait(0));
  set.modify(s, EPOLLOUT, 1);
  t.say(set.wait(kSoon));
  set.modify(s, EPOLLIN | EPOLLOUT, 2);
  t.say(set.wait(kSoon));
  set.modify(s, EPOLLIN, 3);
  t.say(set.wait(kSoon));
  t.meet();
}

CASE(epoll, deleted_and_added_again, kEach) {
  Fd s = t.pair();
  const Set set;
  set.add(s, EPOLLIN);
  t.note("DEL", epoll_ctl(set, EPOLL_CTL_DEL, s, nullptr));
  t.meet();
  send_all(s, "x");
  wait_for(s, POLLIN);
  t.say(set.wait(0));
  set.add(s, EPOLLIN, 1);
  t.say(set.wait(kSoon));
  t.meet();
}

CASE(epoll, errors, kEach) {
  Fd s = t.pair();
  const Set set;
  t.note("MOD of a stranger", set.control(EPOLL_CTL_MOD, s, EPOLLIN, 0));
  t.note("DEL of a stranger", set.control(EPOLL_CTL_DEL, s, 0, 0));
  set.add(s, EPOLLIN);
  t.note("ADD twice", set.control(EPOLL_CTL_ADD, s, EPOLLIN, 0));
  t.note("ADD of nothing", set.control(EPOLL_CTL_ADD, 498, EPOLLIN, 0));
  t.note("ADD of itself", set.control(EPOLL_CTL_ADD, set, EPOLLIN, 0));
  t.note("what is 9?", set.control(9, s, EPOLLIN, 0));
  epoll_event event;
  t.note("to no set", epoll_wait(s, &event, 1, 0));
  const volatile int none = 0;
  t.note("no room", epoll_wait(set, &event, none, 0));
  t.note("no pointer", epoll_ctl(set, EPOLL_CTL_MOD, s, nullptr));
  t.meet();
}

CASE(epoll, ends, kEach) {
  Fd s = t.pair();
  const Set set;
  set.add(s, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
  t.say(set.wait(kSoon));
  t.meet();
  if (t.client()) {
    shutdown(s, SHUT_WR);
    t.meet();
    t.meet();
    wait_for(s, POLLHUP);
    t.say(set.wait(kSoon));
  } else {
    t.meet();
    wait_for(s, POLLIN | POLLRDHUP);
    t.say(set.wait(kSoon));
    set.modify(s, EPOLLRDHUP, 1);
    t.say(set.wait(kSoon));
    shutdown(s, SHUT_WR);
    t.meet();
    wait_for(s, POLLHUP);
    set.modify(s, 0, 2);
    t.say(set.wait(kSoon));  // HUP is always told
  }
  t.meet();
}

CASE(epoll, edge_of_the_end, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    t.meet();
    pause_ms(kInCall / 2);
    shutdown(s, SHUT_WR);
    t.meet();
  } else {
    const Set set;
    set.add(s, EPOLLIN | EPOLLRDHUP | EPOLLET);
    t.meet();
    t.say(set.wait(kSoon));
    char to;
    t.note("recv", recv(s, &to, 1, 0));
    t.say(set.wait(0));
    t.meet();
  }
}

CASE(epoll, reset, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    const linger none{1, 0};
    setsockopt(s, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    t.meet();
    s.close();
    t.meet();
  } else {
    const Set set;
    set.add(s, EPOLLIN | EPOLLRDHUP);
    t.meet();
    t.meet();
    wait_for(s, POLLHUP);
    t.say(set.wait(kSoon));
    t.note("SO_ERROR", get_option(s, SOL_SOCKET, SO_ERROR));
    t.say(set.wait(kSoon));
  }
}

}  // namespace
}  // namespace semantics
