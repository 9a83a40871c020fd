// poll, ppoll, select, pselect: with one connection, with several, and with descriptors of other
// kinds.
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/timerfd.h>

#include <thread>

#include "calls.h"

namespace semantics {
namespace {

constexpr short kAll = POLLIN | POLLOUT | POLLRDHUP | POLLPRI;

void show(Case& t, const std::vector<pollfd>& at) {
  std::string line = "ready:";
  for (const pollfd& each : at) line += " " + poll_bits(each.revents);
  t.say(line);
}

CASE(poll, idle, kEach) {
  Fd s = t.pair();
  t.say(poll_bits(ready_now(s, kAll)));
  t.say(poll_bits(ready_now(s, POLLIN)));
  t.say(poll_bits(ready_now(s, 0)));
  t.meet();
}

CASE(poll, bytes_to_read, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "xy");
    t.meet();
  } else {
    t.say(poll_bits(wait_for(s, kAll, POLLIN)));
    read_exactly(s, 1);
    t.say(poll_bits(ready_now(s, kAll)));
    read_exactly(s, 1);
    t.say(poll_bits(ready_now(s, kAll)));
    t.meet();
  }
}

CASE(poll, wakes_when_bytes_come, kEach) {
  Fd s = t.pair();
  for (int i = 0; i < 3; ++i) {
    if (t.client()) {
      pause_ms(kInCall / 2);
      send_all(s, "w");
      t.meet();
    } else {
      pollfd at{s, POLLIN, 0};
      t.note("poll", poll(&at, 1, kSoon));
      t.say(poll_bits(at.revents));
      read_exactly(s, 1);
      t.meet();
    }
  }
}

CASE(poll, without_a_limit, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    pause_ms(kInCall);
    send_all(s, "w");
  } else {
    pollfd at{s, POLLIN, 0};
    t.note("poll", poll(&at, 1, -1));
    t.data("came", read_exactly(s, 1));
  }
}

CASE(poll, ping_pong, kEach) {
  Fd s = t.pair();
  long rounds = 0;
  for (int i = 0; i < 300; ++i) {
    if (t.client()) send_all(s, "ping");
    pollfd at{s, POLLIN, 0};
    if (poll(&at, 1, kSoon) != 1 || read_exactly(s, 4).size() != 4) break;
    if (t.server()) send_all(s, "pong");
    ++rounds;
  }
  t.note("rounds", rounds);
}

CASE(poll, writable_again_when_the_peer_reads, kEach) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    t.say(poll_bits(ready_now(s, POLLOUT)));
    const std::uint64_t n = fill_up(s);
    t.say("full: " + poll_bits(ready_now(s, POLLOUT)));
    t.tell(std::to_string(n));
    pollfd at{s, POLLOUT, 0};
    t.note("poll", poll(&at, 1, kSoon));
    t.say(poll_bits(at.revents));
    t.meet();
  } else {
    const std::uint64_t n = std::stoull(t.hear());
    pause_ms(kInCall);
    t.say(drain(s, n) ? "all came" : "not all came");
    t.meet();
  }
}

CASE(poll, full_but_readable, kEach) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    fill_up(s);
    t.meet();
    short says = wait_for(s, POLLIN | POLLOUT, POLLIN);
    // Room may come along with what the other end sends; then there must be some.
    if ((says & POLLOUT) != 0 && send(s, "x", 1, MSG_DONTWAIT) == 1) says &= ~POLLOUT;
    t.say(poll_bits(says));
    t.meet();
  } else {
    t.meet();
    send_all(s, "still");
    t.meet();
  }
}

CASE(poll, several_connections, kEach) {
  const std::vector<Fd> all = t.pairs(6);
  if (t.client()) {
    for (const std::size_t i : {1u, 4u}) send_all(all[i], "x");
    t.meet();
    t.meet();
    all[2] ? shutdown(all[2], SHUT_WR) : 0;
    t.meet();
    t.meet();
  } else {
    t.meet();
    std::vector<pollfd> at;
    for (const Fd& each : all) at.push_back({each, POLLIN, 0});
    wait_for(all[1], POLLIN);
    wait_for(all[4], POLLIN);
    t.note("poll", poll(at.data(), at.size(), kSoon));
    show(t, at);
    t.meet();
    t.meet();
    wait_for(all[2], POLLIN);
    at[4].fd = -1;  // is passed over
    t.note("poll", poll(at.data(), at.size(), kSoon));
    show(t, at);
    t.meet();
  }
}

CASE(poll, mixed_descriptors, kEach) {
  Fd s = t.pair();
  int ends[2];
  must(pipe(ends), "pipe");
  const Fd in(ends[0]), out(ends[1]);
  const Fd counter(must(eventfd(0, 0), "eventfd"));
  const Fd timer(must(timerfd_create(CLOCK_MONOTONIC, 0), "timerfd_create"));
  const Fd listener(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  must(listen(listener, 1), "listen");
  std::vector<pollfd> at = {{s, kAll, 0},         {in, POLLIN, 0},    {out, POLLOUT, 0},
                            {counter, POLLIN, 0}, {timer, POLLIN, 0}, {listener, POLLIN, 0},
                            {498, POLLIN, 0}};
  t.note("poll", poll(at.data(), at.size(), 0));
  show(t, at);
  must(write(out, "p", 1), "write");
  must(eventfd_write(counter, 1), "eventfd_write");
  const itimerspec soon{{0, 0}, {0, 1'000'000}};
  must(timerfd_settime(timer, 0, &soon, nullptr), "timerfd_settime");
  t.meet();
  send_all(s, "bytes");
  wait_for(s, POLLIN);
  wait_for(timer, POLLIN);
  t.note("poll", poll(at.data(), at.size(), kSoon));
  show(t, at);
  t.meet();
}

CASE(poll, woken_by_a_pipe, kEach | kAlone) {
  Fd s = t.pair();
  int ends[2];
  must(pipe(ends), "pipe");
  const Fd in(ends[0]), out(ends[1]);
  std::thread waker([&] {
    pause_ms(kInCall);
    must(write(out, "p", 1), "write");
  });
  std::vector<pollfd> at = {{s, POLLIN, 0}, {in, POLLIN, 0}};
  t.note("poll", poll(at.data(), at.size(), kSoon));
  show(t, at);
  waker.join();
  t.meet();
}

CASE(poll, woken_by_a_timer, kEach) {
  Fd s = t.pair();
  const Fd timer(must(timerfd_create(CLOCK_MONOTONIC, 0), "timerfd_create"));
  const itimerspec soon{{0, 0}, {0, 30'000'000}};
  must(timerfd_settime(timer, 0, &soon, nullptr), "timerfd_settime");
  std::vector<pollfd> at = {{timer, POLLIN, 0}, {s, POLLIN, 0}};
  t.note("poll", poll(at.data(), at.size(), kSoon));
  show(t, at);
  t.meet();
}

CASE(poll, woken_by_a_listener, kEach) {
  Fd s = t.pair();
  if (t.server()) {
    const Fd listener = t.listen();
    std::vector<pollfd> at = {{s, POLLIN, 0}, {listener, POLLIN, 0}};
    t.note("poll", poll(at.data(), at.size(), kSoon));
    show(t, at);
    const Fd another(must(accept(listener, nullptr, nullptr), "accept"));
    t.meet();
  } else {
    const sockaddr_storage to = t.hear_address();
    pause_ms(30);
    const Fd another(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
    must(connect(another, reinterpret_cast<const sockaddr*>(&to), size_of(to)), "connect");
    t.meet();
  }
}

CASE(poll, the_same_connection_twice, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "x");
    t.meet();
  } else {
    wait_for(s, POLLIN);
    std::vector<pollfd> at = {{s, POLLIN, 0}, {s, POLLOUT, 0}, {s, kAll, 0}};
    t.note("poll", poll(at.data(), at.size(), 0));
    show(t, at);
    t.meet();
  }
}

CASE(poll, states_of_sockets, kOnce) {
  const Fd fresh(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  t.say("new: " + poll_bits(ready_now(fresh, kAll)));
  must(listen(fresh, 1), "listen");
  t.say("listening: " + poll_bits(ready_now(fresh, kAll)));
  const Fd bound(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  must(bind(bound, reinterpret_cast<sockaddr*>(&any), sizeof any), "bind");
  t.say("bound: " + poll_bits(ready_now(bound, kAll)));
}

#ifndef __SANITIZE_ADDRESS__  // which reads the arguments itself
CASE(poll, bad_arguments, kCold | kWarm) {
  Fd s = t.pair();
  t.note("nothing", poll(nullptr, 0, 0));
  const volatile nfds_t too_many = 1u << 30;
  pollfd at{s, POLLIN, 0};
  t.note("too many", poll(&at, too_many, 0));
  const timespec bad{0, -1};
  t.note("bad time", ppoll(&at, 1, &bad, nullptr));
  t.meet();
}
#endif

CASE(poll, ppoll_with_time, kEach) {
  Fd s = t.pair();
  pollfd at{s, POLLIN, 0};
  const timespec limit{0, 30'000'000};
  const Clock clock;
  t.note("ppoll", ppoll(&at, 1, &limit, nullptr));
  t.say(clock.at_least(30) ? "in time" : "too early");
  t.note("time as before", limit.tv_nsec);
  t.meet();
}

CASE(poll, in_two_threads, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    pause_ms(kInCall);
    send_all(s, "x");
    t.meet();
  } else {
    int first = -1, second = -1;
    const auto wait = [&](int& result) {
      pollfd at{s, POLLIN, 0};
      result = poll(&at, 1, kSoon);
    };
    std::thread one([&] { wait(first); }), two([&] { wait(second); });
    one.join();
    two.join();
    t.note("one", first);
    t.note("the other", second);
    t.meet();
  }
}

// ---------------------------------------------------------------- select

CASE(select, sets, kEach) {
  const std::vector<Fd> all = t.pairs(4);
  if (t.client()) {
    send_all(all[1], "x");
    shutdown(all[3], SHUT_WR);
    t.meet();
    t.meet();
  } else {
    t.meet();
    wait_for(all[1], POLLIN);
    wait_for(all[3], POLLIN);
    fd_set readable, writable, exceptional;
    FD_ZERO(&readable);
    int highest = 0;
    for (const Fd& each : all) {
      FD_SET(each, &readable);
      highest = std::max<int>(highest, each);
    }
    writable = exceptional = readable;
    timeval limit{3, 0};
    t.note("select", select(highest + 1, &readable, &writable, &exceptional, &limit));
    for (const Fd& each : all) {
      t.say(std::string(FD_ISSET(each, &readable) ? "r" : "-") +
            (FD_ISSET(each, &writable) ? "w" : "-") + (FD_ISSET(each, &exceptional) ? "x" : "-"));
    }
    t.meet();
  }
}

CASE(select, wakes_when_bytes_come, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    pause_ms(kInCall);
    send_all(s, "x");
  } else {
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(s, &readable);
    t.note("select", select(s + 1, &readable, nullptr, nullptr, nullptr));
    t.note("set", FD_ISSET(s, &readable) ? 1 : 0);
  }
}

CASE(select, with_a_pipe, kEach) {
  Fd s = t.pair();
  int ends[2];
  must(pipe(ends), "pipe");
  const Fd in(ends[0]), out(ends[1]);
  must(write(out, "p", 1), "write");
  fd_set readable, writable;
  FD_ZERO(&readable);
  FD_ZERO(&writable);
  FD_SET(s, &readable);
  FD_SET(in, &readable);
  FD_SET(s, &writable);
  FD_SET(out, &writable);
  const int highest = std::max<int>({s, in, out});
  t.note("select", select(highest + 1, &readable, &writable, nullptr, nullptr));
  t.note("connection readable", FD_ISSET(s, &readable) ? 1 : 0);
  t.note("pipe readable", FD_ISSET(in, &readable) ? 1 : 0);
  t.note("connection writable", FD_ISSET(s, &writable) ? 1 : 0);
  t.note("pipe writable", FD_ISSET(out, &writable) ? 1 : 0);
  t.meet();
}

CASE(select, a_bad_descriptor, kCold | kWarm) {
  Fd s = t.pair();
  fd_set readable;
  FD_ZERO(&readable);
  FD_SET(s, &readable);
  FD_SET(498, &readable);
  timeval none{};
  t.note("select", select(499, &readable, nullptr, nullptr, &none));
  t.note("negative", select(-1, nullptr, nullptr, nullptr, &none));
  timeval bad{-1, 0};
  t.note("bad time", select(0, nullptr, nullptr, nullptr, &bad));
  t.meet();
}

CASE(select, as_a_pause, kOnce) {
  timeval limit{0, 20'000};
  const Clock clock;
  t.note("select", select(0, nullptr, nullptr, nullptr, &limit));
  t.say(clock.at_least(20) ? "in time" : "too early");
}

CASE(select, pselect_waits, kEach) {
  Fd s = t.pair();
  fd_set readable;
  FD_ZERO(&readable);
  FD_SET(s, &readable);
  const timespec limit{0, 20'000'000};
  t.note("pselect", pselect(s + 1, &readable, nullptr, nullptr, &limit, nullptr));
  t.note("time as before", limit.tv_nsec);
  t.meet();
  send_all(s, "x");
  FD_SET(s, &readable);
  t.note("pselect", pselect(s + 1, &readable, nullptr, nullptr, nullptr, nullptr));
  t.meet();
}

CASE(select, echo_server_of_many, kEach) {
  const std::vector<Fd> all = t.pairs(10);
  constexpr int kRounds = 10;
  if (t.client()) {
    for (int round = 0; round < kRounds; ++round) {
      for (const Fd& each : all) send_all(each, "echo" + std::to_string(round));
      for (const Fd& each : all) {
        if (read_exactly(each, 5) != "echo" + std::to_string(round)) t.say("wrong");
      }
    }
    t.say("done");
  } else {
    std::size_t left = all.size() * kRounds * 5;
    while (left > 0) {
      fd_set readable;
      FD_ZERO(&readable);
      int highest = 0;
      for (const Fd& each : all) {
        FD_SET(each, &readable);
        highest = std::max<int>(highest, each);
      }
      timeval limit{3, 0};
      if (select(highest + 1, &readable, nullptr, nullptr, &limit) <= 0) break;
      for (const Fd& each : all) {
        if (!FD_ISSET(each, &readable)) continue;
        char to[64];
        const ssize_t n = recv(each, to, sizeof to, 0);
        if (n > 0) send_all(each, {to, static_cast<std::size_t>(n)});
        if (n > 0) left -= static_cast<std::size_t>(n);
      }
    }
    t.note("left", static_cast<long>(left));
  }
}

}  // namespace
}  // namespace semantics
