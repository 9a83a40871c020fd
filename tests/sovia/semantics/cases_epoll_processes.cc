// epoll: sets in unusual company: in each other, copied, shared, closed.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <atomic>
#include <set>
#include <thread>

#include "calls.h"
#include "epoll_set.h"

namespace semantics {
namespace {

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
  pause_ms(kInCall);  // the kernel tells the waiters of a socket one after the other, poll() maybe before the set
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

CASE(epoll, a_child_deletes_from_the_set, kEach) {
  Fd s = t.pair();
  const Set set;
  set.add(s, EPOLLIN, 1);
  const pid_t child = must(fork(), "fork");
  if (child == 0) _exit(epoll_ctl(set, EPOLL_CTL_DEL, s, nullptr) == 0 ? 0 : errno);
  int status;
  must(waitpid(child, &status, 0), "waitpid");
  t.note("child", WEXITSTATUS(status));
  t.note("ADD", set.control(EPOLL_CTL_ADD, s, EPOLLIN, 2));
  t.meet();
  send_all(s, "x");
  t.say(set.wait(kSoon));
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

CASE(epoll, deleted_before_a_fork, kEach | kAlone) {
  Fd s = t.pair();
  const Set set;
  set.add(s, EPOLLIN, 1);
  t.say(set.wait(0));
  t.note("DEL", epoll_ctl(set, EPOLL_CTL_DEL, s, nullptr));
  // Parent and child share the set: the child's additions are there for the parent.
  t.say(wait_child(fork_child([&] { return set.control(EPOLL_CTL_ADD, s, EPOLLIN, 2) == 0 ? 0 : 1; })));
  t.say(set.wait(0));
  t.note("ADD", set.control(EPOLL_CTL_ADD, s, EPOLLIN, 3));
  t.meet();
  send_all(s, "x");
  t.say(set.wait(kSoon));
  t.meet();
}

}  // namespace
}  // namespace semantics
