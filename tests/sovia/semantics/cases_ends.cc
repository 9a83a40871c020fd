// The events at the end of a connection, as poll, select and epoll tell them: before and behind the last byte, for each way
// in which a peer ends and each direction that this end has shut down. And writes to a peer that has closed.
#include <poll.h>
#include <signal.h>
#include <sys/select.h>

#include <cerrno>
#include <functional>

#include "calls.h"
#include "epoll_set.h"

namespace semantics {
namespace {

constexpr int kUnread = 10;  // bytes

void reset(int s) {
  const linger now{1, 0};
  must(setsockopt(s, SOL_SOCKET, SO_LINGER, &now, sizeof now), "SO_LINGER");
  close(s);
}

// The server's connection is in a child, which reads a byte, sends some, and ends like this.
void serves(Case& t, bool data, bool unread, const std::function<void(int)>& ends) {
  t.say(wait_child(fork_child([&] {
    const int s = t.pair().release();
    t.meet();
    if (unread) wait_for_bytes(s, kUnread);
    if (data) send_all(s, "the last bytes");
    pause_ms(kAWhile);
    ends(s);
    t.meet();
    return 0;
  })));
}

std::string select_bits(int s) {
  fd_set in, out;
  FD_ZERO(&in);
  FD_ZERO(&out);
  FD_SET(s, &in);
  FD_SET(s, &out);
  timeval none{};
  if (select(s + 1, &in, &out, nullptr, &none) < 0) return errno_name(errno);
  return std::string(FD_ISSET(s, &in) ? "in " : "") + (FD_ISSET(s, &out) ? "out" : "");
}

void say_events(Case& t, int s, const Set& level, const Set& edge) {
  t.say("edge: " + edge.wait(0, 1) + ", " + edge.wait(0, 1));
  t.say("level: " + level.wait(0));
  t.say("poll for nothing: " + poll_bits(ready_now(s, 0)));
  t.say("poll: " + poll_bits(ready_now(s, POLLIN | POLLOUT | POLLRDHUP)));
  t.say("poll for room: " + poll_bits(ready_now(s, POLLOUT)));
  t.say("select: " + select_bits(s));
}

enum class Own { kNothing, kWriting, kReading };

void watches(Case& t, Own own, bool unread, int (*outlives)(Case&)) {
  Fd s = t.pair();
  Set level, edge;
  level.add(s, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
  edge.add(s, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
  edge.wait(0);
  if (unread) send_all(s, std::string(kUnread, 'u'));
  if (own == Own::kWriting) must(shutdown(s, SHUT_WR), "shutdown");
  if (own == Own::kReading) must(shutdown(s, SHUT_RD), "shutdown");
  t.meet();
  outlives(t);
  // The end has come when poll tells of it and nothing else comes for a while.
  wait_for(s, POLLRDHUP, own == Own::kReading ? POLLHUP : POLLRDHUP);
  pause_ms(2 * kAWhile);
  say_events(t, s, level, edge);
  char to[64];
  for (int i = 0; i < 3; ++i) t.note("recv", recv(s, to, sizeof to, MSG_DONTWAIT));
  say_events(t, s, level, edge);
  t.note("send", send(s, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
  pause_ms(kAWhile);
  t.note("send", send(s, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
  say_events(t, s, level, edge);
}

int peer_says_that_it_has_ended(Case& t) {
  t.meet();
  return 0;
}
// A peer that is killed, or exits, says nothing.
int peer_says_nothing(Case&) { return 0; }

// A case for each state of this end, with and without bytes before the peer's end.
#define ENDS(name, unread, outlives, ending)                                              \
  CASE(ends, name, kCold | kWarm | kAlone) { ends_of(t, unread, outlives, ending); }

void ends_of(Case& t, bool unread, int (*outlives)(Case&), void (*ending)(int)) {
  for (const bool data : {false, true}) {
    for (const Own own : {Own::kNothing, Own::kWriting}) {
      if (t.server()) {
        serves(t, data, unread, ending);
      } else {
        t.say(std::string(data ? "bytes before" : "nothing before") + (own == Own::kWriting ? ", has shut writing" : ""));
        watches(t, own, unread, outlives);
      }
      t.meet();
    }
  }
}

ENDS(by_shutdown, false, peer_says_that_it_has_ended, [](int s) { shutdown(s, SHUT_WR); })
ENDS(by_shutdown_of_both, false, peer_says_that_it_has_ended, [](int s) { shutdown(s, SHUT_RDWR); })
ENDS(by_close, false, peer_says_that_it_has_ended, [](int s) { close(s); })
ENDS(by_close_with_unread_bytes, true, peer_says_that_it_has_ended, [](int s) { close(s); })
ENDS(by_close_without_lingering, false, peer_says_that_it_has_ended, reset)
ENDS(by_kill, false, peer_says_nothing, [](int) { raise(SIGKILL); })
ENDS(by_kill_with_unread_bytes, true, peer_says_nothing, [](int) { raise(SIGKILL); })
ENDS(by_exit, false, peer_says_nothing, [](int) { _exit(0); })
ENDS(by_exit_with_unread_bytes, true, peer_says_nothing, [](int) { _exit(0); })

// ---------------------------------------------------------------- writes to a peer that has closed

// The client, which does not read, goes on writing. TCP resets the connection at its next write.
void writes_on(Case& t, Fd& s) {
  ssize_t sent = 0;
  const Clock begin;
  while (sent >= 0 && !begin.at_least(kSoon)) {
    sent = send(s, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) sent = 0;
    if (sent >= 0) pause_ms(1);
  }
  t.say(sent >= 0 ? "goes on" : errno == ECONNRESET || errno == EPIPE ? "ends" : errno_name(errno));
}

enum class Filled { kNeither, kFromTheCloser, kToTheCloser, kBoth };

void closes_filled(Case& t, void (*ending)(int), bool dies) {
  for (const Filled filled : {Filled::kNeither, Filled::kFromTheCloser, Filled::kToTheCloser, Filled::kBoth}) {
    const bool fills = filled == Filled::kFromTheCloser || filled == Filled::kBoth;
    const bool is_filled = filled == Filled::kToTheCloser || filled == Filled::kBoth;
    if (t.server()) {
      t.say(wait_child(fork_child([&] {
        const int s = t.pair().release();
        if (fills) fill_up(s);
        t.meet();
        t.meet();
        ending(s);
        if (!dies) t.meet();
        return 0;
      })));
    } else {
      Fd s = t.pair();
      t.meet();
      if (is_filled) fill_up(s);
      t.meet();
      if (!dies) t.meet();
      writes_on(t, s);
    }
    t.meet();
  }
}

CASE(ends, writes_go_on_after_close, kCold | kWarm | kAlone) {
  closes_filled(t, [](int s) { close(s); }, false);
}
CASE(ends, writes_go_on_after_close_without_lingering, kCold | kWarm | kAlone) {
  closes_filled(t, reset, false);
}
CASE(ends, writes_go_on_after_exit, kCold | kWarm | kAlone) {
  closes_filled(t, [](int) { _exit(0); }, true);
}
CASE(ends, writes_go_on_after_kill, kCold | kWarm | kAlone) {
  closes_filled(t, [](int) { raise(SIGKILL); }, true);
}

// A server that finishes its answer before it reads on.
CASE(ends, room_is_told_before_all_is_read, kEach | kAlone) {
  if (t.server()) {
    serves(t, true, false, [](int s) {
      close(s);
      _exit(0);
    });
    return;
  }
  Fd s = t.pair();
  t.meet();
  wait_for(s, POLLRDHUP);
  pause_ms(kAWhile);
  pollfd room{s, POLLOUT, 0};
  t.note("poll", poll(&room, 1, kSoon));
  Set set;
  set.add(s, EPOLLOUT);
  t.say(set.wait(kSoon));
  t.say(select_bits(s));
  t.note("send", send(s, "x", 1, MSG_NOSIGNAL));
}

// An event loop that does not read for a while sleeps.
CASE(ends, edges_are_not_told_again, kEach | kAlone) {
  if (t.server()) {
    serves(t, true, false, [](int s) {
      close(s);
      _exit(0);
    });
    return;
  }
  Fd s = t.pair();
  Set set;
  set.add(s, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
  t.meet();
  wait_for(s, POLLRDHUP);
  pause_ms(kAWhile);
  int told = 0;
  const Clock begin;
  while (!begin.at_least(500)) told += set.wait(20) != "nothing" ? 1 : 0;
  t.say(told <= 2 ? "told" : "told again and again");
}

}  // namespace
}  // namespace semantics
