// Non-blocking mode, however it is set, and what can be asked about a socket's queues.
#include <fcntl.h>
#include <sys/ioctl.h>

#include "calls.h"

namespace semantics {
namespace {

void try_recv(Case& t, int s) {
  char to[8];
  t.note("recv", recv(s, to, sizeof to, 0));
}

CASE(nonblocking, by_fcntl, kEach) {
  Fd s = t.pair();
  t.note("flags", fcntl(s, F_GETFL) & O_NONBLOCK);
  t.note("F_SETFL", fcntl(s, F_SETFL, O_NONBLOCK));
  t.say((fcntl(s, F_GETFL) & O_NONBLOCK) != 0 ? "non-blocking" : "blocking");
  try_recv(t, s);
  t.note("F_SETFL", fcntl(s, F_SETFL, 0));
  t.note("flags", fcntl(s, F_GETFL) & O_NONBLOCK);
  t.meet();
  send_all(s, "blocks");
  t.data("came", read_exactly(s, 6));
}

CASE(nonblocking, by_ioctl, kEach) {
  Fd s = t.pair();
  int on = 1;
  t.note("FIONBIO", ioctl(s, FIONBIO, &on));
  t.say((fcntl(s, F_GETFL) & O_NONBLOCK) != 0 ? "non-blocking" : "blocking");
  try_recv(t, s);
  on = 0;
  t.note("FIONBIO", ioctl(s, FIONBIO, &on));
  t.meet();
  send_all(s, "blocks");
  t.data("came", read_exactly(s, 6));
}

CASE(nonblocking, by_socket_and_accept4, kOnce) {
  Fd s;
  if (t.server()) {
    const Fd listener = t.listen();
    s = Fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  } else {
    const sockaddr_storage to = t.hear_address();
    s = Fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    t.note("connect", connect(s, reinterpret_cast<const sockaddr*>(&to), size_of(to)));
    wait_for(s, POLLOUT);
  }
  t.say((fcntl(s, F_GETFL) & O_NONBLOCK) != 0 ? "non-blocking" : "blocking");
  t.note("FD_CLOEXEC", fcntl(s, F_GETFD));
  try_recv(t, s);
  t.meet();
  send_all(s, "text");
  wait_for_bytes(s, 4);
  try_recv(t, s);
  try_recv(t, s);
  t.meet();
}

CASE(nonblocking, accepted_sockets_do_not_inherit_it, kOnce) {
  if (t.client()) {
    Fd s = t.cold_pair();
    t.meet();
  } else {
    const Fd listener = t.listen();
    set_nonblocking(listener);
    wait_for(listener, POLLIN);
    const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
    t.say((fcntl(s, F_GETFL) & O_NONBLOCK) != 0 ? "non-blocking" : "blocking");
    t.meet();
  }
}

CASE(nonblocking, waitall_does_not_wait, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "abc");
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, 3);
    set_nonblocking(s);
    char to[8];
    t.note("recv", recv(s, to, 8, MSG_WAITALL));
    t.note("recv", recv(s, to, 8, MSG_WAITALL));
    t.note("read", read(s, to, 8));
  }
  t.meet();
}

CASE(nonblocking, end_and_nothing_are_told_apart, kEach) {
  Fd s = t.pair();
  set_nonblocking(s);
  try_recv(t, s);
  t.meet();
  shutdown(s, SHUT_WR);
  wait_for(s, POLLIN);
  try_recv(t, s);
  try_recv(t, s);
  t.meet();
}

CASE(nonblocking, write_until_full_then_go_on, kEach) {
  Fd s = t.pair({.send_buffer = 30'000, .receive_buffer = 30'000});
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 3'000'000;
  if (t.client()) {
    set_nonblocking(s);
    std::uint64_t at = 0;
    bool refused = false;
    while (at < kBytes) {
      const std::string piece = pattern.bytes(at, std::min<std::uint64_t>(50'000, kBytes - at));
      const ssize_t n = write(s, piece.data(), piece.size());
      if (n < 0) {
        if (!refused) t.note("write", n);
        refused = true;
        if (wait_for(s, POLLOUT) != POLLOUT) break;
      } else {
        at += static_cast<std::uint64_t>(n);
      }
    }
    t.note("sent", static_cast<long>(at));
  } else {
    pause_ms(30);
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 33'333)));
  }
}

CASE(nonblocking, mode_changes_while_bytes_wait, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "abcdef");
    t.meet();
    t.meet();
    send_all(s, "ghi");
  } else {
    t.meet();
    wait_for_bytes(s, 6);
    set_nonblocking(s);
    t.data("came", read_exactly(s, 3));
    set_nonblocking(s, false);
    t.data("came", read_exactly(s, 3));
    t.meet();
    t.data("came", read_exactly(s, 3));
  }
}

CASE(queues, fionread_counts, kEach) {
  Fd s = t.pair();
  t.note("at first", queued(s, FIONREAD));
  t.meet();
  if (t.client()) {
    send_all(s, "0123456789");
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, 10);
    t.note("all", queued(s, FIONREAD));
    read_exactly(s, 4);
    t.note("the rest", queued(s, FIONREAD));
    read_exactly(s, 6);
    t.note("none", queued(s, FIONREAD));
  }
}

CASE(queues, fionread_of_many_packets, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    for (int i = 0; i < 100; ++i) send_all(s, std::string(300, 'q'));
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, 30'000);
    t.note("all", queued(s, FIONREAD));
    read_exactly(s, 12'345);
    t.note("the rest", queued(s, FIONREAD));
  }
}

CASE(queues, fionread_of_what_comes_slowly, kEach) {
  // So that the route may change among unread bytes.
  Fd s = t.pair();
  if (t.client()) {
    for (int i = 0; i < 150; ++i) {
      send_all(s, std::string(200, 's'));
      pause_ms(1);
    }
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, 30'000);
    t.note("all", queued(s, FIONREAD));
    read_exactly(s, 5'000);
    t.note("the rest", queued(s, FIONREAD));
  }
}

CASE(queues, fionread_at_the_end, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "last");
    shutdown(s, SHUT_WR);
    t.meet();
  } else {
    t.meet();
    wait_for(s, POLLIN | POLLRDHUP);
    wait_for_bytes(s, 4);
    t.note("before", queued(s, FIONREAD));
    read_exactly(s, 4);
    t.note("after", queued(s, FIONREAD));
  }
}

CASE(queues, siocoutq_is_empty_when_all_is_acknowledged, kEach) {
  Fd s = t.pair();
  t.meet();
  if (t.client()) {
    send_all(s, std::string(5000, 'o'));
    read_exactly(s, 2);
    int left = -1;
    for (int i = 0; i < 500 && (left = queued(s, TIOCOUTQ)) != 0; ++i) pause_ms(2);
    t.note("in flight", left);
  } else {
    read_exactly(s, 5000);
    send_all(s, "ok");
    t.note("in flight", queued(s, TIOCOUTQ) >= 0 ? 0 : 1);
  }
  t.meet();
}

CASE(queues, siocoutq_counts_what_the_peer_does_not_take, kEach) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    const std::uint64_t n = fill_up(s);
    t.say(queued(s, TIOCOUTQ) > 0 ? "some wait" : "none wait");
    t.tell(std::to_string(n));
    t.hear();
    int left = -1;
    for (int i = 0; i < 500 && (left = queued(s, TIOCOUTQ)) != 0; ++i) pause_ms(2);
    t.note("in flight", left);
  } else {
    t.say(drain(s, std::stoull(t.hear())) ? "all came" : "not all came");
    t.tell("drained");
  }
}

CASE(queues, ioctl_of_other_kinds, kCold | kWarm) {
  Fd s = t.pair();
  int n = 0;
  t.note("unknown", ioctl(s, 0x4711, &n));
  t.note("FIONREAD to a bad pointer", ioctl(s, FIONREAD, 1));
  t.note("FIOCLEX", ioctl(s, FIOCLEX));
  t.note("FD_CLOEXEC", fcntl(s, F_GETFD));
  t.note("FIONCLEX", ioctl(s, FIONCLEX));
  t.note("FD_CLOEXEC", fcntl(s, F_GETFD));
  t.meet();
}

}  // namespace
}  // namespace semantics
