// epoll: triggers, changes of a set, and sets in unusual company.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>
#include <thread>

#include "calls.h"

namespace semantics {
namespace {

// An epoll set whose events carry small numbers.
class Set {
 public:
  Set() : fd_(must(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {}
  operator int() const { return fd_; }  // NOLINT

  int control(int operation, int fd, std::uint32_t events, std::uint64_t number) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = number;
    return epoll_ctl(fd_, operation, fd, &event);
  }
  void add(int fd, std::uint32_t events, std::uint64_t number = 0) const {
    must(control(EPOLL_CTL_ADD, fd, events, number), "EPOLL_CTL_ADD");
  }
  void modify(int fd, std::uint32_t events, std::uint64_t number = 0) const {
    must(control(EPOLL_CTL_MOD, fd, events, number), "EPOLL_CTL_MOD");
  }

  // What is ready, in the order of the numbers: "0:IN 2:IN|OUT".
  std::string wait(int limit_ms, int most = 64) const {
    std::vector<epoll_event> events(static_cast<std::size_t>(most));
    const int n = epoll_wait(fd_, events.data(), most, limit_ms);
    if (n < 0) return errno_name(errno);
    events.resize(static_cast<std::size_t>(n));
    std::sort(events.begin(), events.end(),
              [](const epoll_event& x, const epoll_event& y) { return x.data.u64 < y.data.u64; });
    std::string text;
    for (const epoll_event& event : events) {
      text += (text.empty() ? "" : " ") + std::to_string(event.data.u64) + ":" +
              epoll_bits(event.events);
    }
    return text.empty() ? "nothing" : text;
  }

 private:
  Fd fd_;
};

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

CASE(epoll, nested, kEach) {
  Fd s = t.pair();
  const Set inner, outer;
  inner.add(s, EPOLLIN, 1);
  outer.add(inner, EPOLLIN, 2);
  t.say(outer.wait(0));
  t.meet();
  send_all(s, "x");
  t.say(outer.wait(kSoon));
  t.say(inner.wait(kSoon));
  t.say(poll_bits(ready_now(outer, POLLIN)));
  read_exactly(s, 1);
  t.say(outer.wait(0));
  t.meet();
}

CASE(epoll, polled_itself, kEach) {
  Fd s = t.pair();
  const Set set;
  set.add(s, EPOLLIN);
  t.say(poll_bits(ready_now(set, POLLIN)));
  t.meet();
  if (t.client()) {
    pause_ms(kInCall / 2);
    send_all(s, "x");
  } else {
    pollfd at{set, POLLIN, 0};
    t.note("poll", poll(&at, 1, kSoon));
    t.say(set.wait(0));
  }
  t.meet();
}

CASE(epoll, two_sets_on_one_connection, kEach) {
  Fd s = t.pair();
  const Set one, two;
  one.add(s, EPOLLIN, 1);
  two.add(s, EPOLLIN | EPOLLOUT | EPOLLET, 2);
  t.meet();
  send_all(s, "x");
  wait_for(s, POLLIN);
  t.say(one.wait(kSoon));
  t.say(two.wait(kSoon));
  t.say(one.wait(kSoon));
  t.meet();
}

CASE(epoll, many_connections, kEach) {
  const std::vector<Fd> all = t.pairs(8);
  if (t.client()) {
    for (const std::size_t i : {0u, 3u, 7u}) send_all(all[i], "x");
    t.meet();
    t.meet();
  } else {
    const Set set;
    for (std::size_t i = 0; i < all.size(); ++i) set.add(all[i], EPOLLIN, i);
    t.meet();
    for (const std::size_t i : {0u, 3u, 7u}) wait_for(all[i], POLLIN);
    t.say(set.wait(kSoon));
    t.meet();
  }
}

CASE(epoll, one_event_at_a_time_reaches_all, kEach) {
  const std::vector<Fd> all = t.pairs(12);
  if (t.client()) {
    for (const Fd& each : all) send_all(each, "x");
    t.meet();
    t.meet();
  } else {
    const Set set;
    for (std::size_t i = 0; i < all.size(); ++i) set.add(all[i], EPOLLIN, i);
    t.meet();
    for (const Fd& each : all) wait_for(each, POLLIN);
    // Nothing is read: the next one's turn comes all the same.
    std::set<std::string> seen;
    for (std::size_t i = 0; i < 3 * all.size(); ++i) seen.insert(set.wait(kSoon, 1));
    t.note("different ones", static_cast<long>(seen.size()));
    t.meet();
  }
}

CASE(epoll, other_kinds_beside_connections, kEach) {
  Fd s = t.pair();
  const Fd counter(must(eventfd(0, 0), "eventfd"));
  int ends[2];
  must(pipe(ends), "pipe");
  const Fd in(ends[0]), out(ends[1]);
  const Set set;
  set.add(s, EPOLLIN, 1);
  set.add(counter, EPOLLIN, 2);
  set.add(in, EPOLLIN, 3);
  t.say(set.wait(0));
  must(eventfd_write(counter, 1), "eventfd_write");
  t.say(set.wait(kSoon));
  t.meet();
  send_all(s, "x");
  wait_for(s, POLLIN);
  t.say(set.wait(kSoon));
  must(write(out, "p", 1), "write");
  t.say(set.wait(kSoon));
  t.note("a file", [&] {
    const Fd file(open("/proc/self/exe", O_RDONLY));
    return set.control(EPOLL_CTL_ADD, file, EPOLLIN, 4);
  }());
  t.meet();
}

CASE(epoll, woken_by_an_eventfd, kEach | kAlone) {
  Fd s = t.pair();
  const Fd counter(must(eventfd(0, 0), "eventfd"));
  const Set set;
  set.add(s, EPOLLIN, 1);
  set.add(counter, EPOLLIN, 2);
  std::thread waker([&] {
    pause_ms(kInCall / 2);
    eventfd_write(counter, 1);
  });
  t.say(set.wait(-1));
  waker.join();
  t.meet();
}

CASE(epoll, listener_and_what_it_accepts, kOnce) {
  if (t.server()) {
    const Fd listener = t.listen();
    const Set set;
    set.add(listener, EPOLLIN, 0);
    t.say(set.wait(kSoon));
    const Fd s(must(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK), "accept4"));
    set.add(s, EPOLLIN, 1);
    t.meet();
    t.say(set.wait(kSoon));
    t.data("came", read_exactly(s, 5));
    t.meet();
    t.say(set.wait(kSoon));
  } else {
    const sockaddr_storage to = t.hear_address();
    Fd s(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
    must(connect(s, reinterpret_cast<const sockaddr*>(&to), size_of(to)), "connect");
    t.meet();
    send_all(s, "first");
    t.meet();
    s.close();
  }
}

CASE(epoll, a_closed_descriptor_leaves_the_set, kEach) {
  const std::vector<Fd> kept = t.pairs(1);
  Fd s = t.pair();
  const Set set;
  set.add(kept[0], EPOLLIN, 1);
  set.add(s, EPOLLIN, 2);
  t.meet();
  send_all(s, "x");
  send_all(kept[0], "y");
  wait_for(s, POLLIN);
  wait_for(kept[0], POLLIN);
  t.say(set.wait(kSoon));
  t.meet();
  s.close();
  t.say(set.wait(kSoon));
  t.meet();
}

CASE(epoll, a_closed_copy_does_not, kEach) {
  Fd s = t.pair();
  const Set set;
  Fd copy(must(dup(s), "dup"));
  set.add(copy, EPOLLIN, 1);
  copy.close();
  t.meet();
  send_all(s, "x");
  wait_for(s, POLLIN);
  // The connection is still open by its other descriptor.
  t.say(set.wait(kSoon));
  t.meet();
}

CASE(epoll, a_copy_is_another_member, kEach) {
  Fd s = t.pair();
  const Fd copy(must(dup(s), "dup"));
  const Set set;
  set.add(s, EPOLLIN, 1);
  set.add(copy, EPOLLIN | EPOLLOUT, 2);
  t.meet();
  send_all(s, "x");
  wait_for(s, POLLIN);
  t.say(set.wait(kSoon));
  t.note("DEL", epoll_ctl(set, EPOLL_CTL_DEL, s, nullptr));
  t.say(set.wait(kSoon));
  t.meet();
}

CASE(epoll, a_copy_of_the_set, kEach) {
  Fd s = t.pair();
  const Set set;
  const Fd copy(must(dup(set), "dup"));
  set.add(s, EPOLLIN, 5);
  t.meet();
  send_all(s, "x");
  wait_for(s, POLLIN);
  epoll_event event{};
  t.note("epoll_wait", epoll_wait(copy, &event, 1, kSoon));
  t.note("number", static_cast<long>(event.data.u64));
  t.meet();
}

CASE(epoll, a_number_that_is_used_again, kEach) {
  Fd first = t.pair();
  const Set set;
  set.add(first, EPOLLIN, 1);
  t.meet();
  first.close();
  Fd second = t.pair();
  set.add(second, EPOLLIN, 2);
  t.meet();
  send_all(second, "x");
  t.say(set.wait(kSoon));
  t.meet();
}

CASE(epoll, shared_by_two_threads, kEach | kAlone) {
  const std::vector<Fd> all = t.pairs(8);
  constexpr int kMessages = 50;
  if (t.client()) {
    for (int i = 0; i < kMessages; ++i) {
      for (const Fd& each : all) send_all(each, "12345678");
    }
    t.meet();
  } else {
    const Set set;
    for (std::size_t i = 0; i < all.size(); ++i) {
      set_nonblocking(all[i]);
      set.add(all[i], EPOLLIN | EPOLLONESHOT, i);
    }
    const std::size_t expected = all.size() * kMessages * 8;
    std::atomic<std::size_t> got{0};
    const auto serve = [&] {
      while (got < expected) {
        epoll_event event;
        if (epoll_wait(set, &event, 1, 100) <= 0) continue;
        const std::size_t i = event.data.u64;
        char to[1000];
        ssize_t n;
        while ((n = recv(all[i], to, sizeof to, 0)) > 0) got += static_cast<std::size_t>(n);
        set.modify(all[i], EPOLLIN | EPOLLONESHOT, i);
      }
    };
    std::thread one(serve), two(serve);
    one.join();
    two.join();
    t.note("bytes", static_cast<long>(got.load()));
    t.meet();
  }
}

CASE(epoll, added_by_another_thread_during_a_wait, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "x");
    t.meet();
  } else {
    wait_for(s, POLLIN);
    const Set set;
    std::thread adder([&] {
      pause_ms(kInCall / 2);
      set.add(s, EPOLLIN, 3);
    });
    t.say(set.wait(kSoon));
    adder.join();
    t.meet();
  }
}

CASE(epoll, exclusive, kEach) {
  Fd s = t.pair();
  const Set set;
  t.note("ADD", set.control(EPOLL_CTL_ADD, s, EPOLLIN | EPOLLEXCLUSIVE, 1));
  t.note("MOD", set.control(EPOLL_CTL_MOD, s, EPOLLIN, 1));
  t.note("with ONESHOT", set.control(EPOLL_CTL_ADD, s, EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 1));
  t.meet();
  send_all(s, "x");
  t.say(set.wait(kSoon));
  t.meet();
}

CASE(epoll, priority, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "text");
    must(send(s, "!", 1, MSG_OOB), "send");
    t.meet();
  } else {
    const Set set;
    set.add(s, EPOLLIN | EPOLLPRI);
    wait_for(s, POLLIN | POLLPRI);
    t.say(set.wait(kSoon));
    char byte;
    t.note("recv", recv(s, &byte, 1, MSG_OOB));
    t.say(set.wait(kSoon));
    t.meet();
  }
}

CASE(epoll, limits_of_waits, kEach) {
  Fd s = t.pair();
  const Set set;
  set.add(s, EPOLLIN);
  Clock first;
  t.say(set.wait(30));
  t.say(first.at_least(30) ? "in time" : "too early");
  epoll_event event;
  Clock second;
  t.note("epoll_pwait", epoll_pwait(set, &event, 1, 30, nullptr));
  t.say(second.at_least(30) ? "in time" : "too early");
  const timespec limit{0, 30'000'000};
  Clock third;
  t.note("epoll_pwait2", epoll_pwait2(set, &event, 1, &limit, nullptr));
  t.say(third.at_least(30) ? "in time" : "too early");
  t.meet();
  send_all(s, "x");
  t.note("epoll_pwait2", epoll_pwait2(set, &event, 1, nullptr, nullptr));
  t.meet();
}

CASE(epoll, left_behind_by_fork, kEach | kAlone) {
  Fd s = t.pair();
  const Set set;
  set.add(s, EPOLLIN, 1);
  t.meet();
  send_all(s, "x");
  wait_for(s, POLLIN);
  // Parent and child share the set.
  t.say(wait_child(fork_child([&] { return set.wait(kSoon) == "1:IN" ? 0 : 1; })));
  t.say(set.wait(kSoon));
  t.meet();
}

}  // namespace
}  // namespace semantics
