// Half close: in all orders, with bytes in flight in both directions.
#include <signal.h>

#include <cerrno>
#include <thread>

#include "calls.h"

namespace semantics {
namespace {

void read_until_end(Case& t, int s) {
  std::string how;
  t.data("came", read_to_end(s, &how));
  t.say(how);
}

CASE(shutdown, one_direction_ends_the_other_goes_on, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "request");
    t.note("shutdown", shutdown(s, SHUT_WR));
    read_until_end(t, s);
  } else {
    read_until_end(t, s);
    send_all(s, "the answer after the end of the request");
    t.note("shutdown", shutdown(s, SHUT_WR));
  }
}

CASE(shutdown, then_close, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    t.note("shutdown", shutdown(s, SHUT_WR));
    t.meet();
    t.note("close", s.close());
    t.meet();
  } else {
    t.say(poll_bits(wait_for(s, POLLRDHUP)));
    t.meet();
    t.meet();
    pause_ms(kAWhile);
    t.say(poll_bits(ready_now(s, POLLIN | POLLOUT | POLLRDHUP)));
    char to[4];
    t.note("recv", recv(s, to, 4, 0));
  }
}

CASE(shutdown, from_the_accepting_side, kEach) {
  Fd s = t.pair();
  if (t.server()) {
    send_all(s, "greeting");
    t.note("shutdown", shutdown(s, SHUT_WR));
    read_until_end(t, s);
  } else {
    read_until_end(t, s);
    send_all(s, "thanks");
  }
}

CASE(shutdown, large_answer_after_the_request_ended, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 2'000'000;
  if (t.client()) {
    send_all(s, "GET");
    shutdown(s, SHUT_WR);
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 20'011)));
    read_until_end(t, s);
  } else {
    read_until_end(t, s);
    send_pattern(s, pattern, 0, kBytes, 48'000);
  }
}

CASE(shutdown, everything_before_the_end_arrives, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 3'000'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 100'000);
    t.note("shutdown", shutdown(s, SHUT_WR));
    t.meet();
  } else {
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 12'289)));
    read_until_end(t, s);
    t.meet();
  }
}

CASE(shutdown, both_at_once_with_bytes_in_flight, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  // Not more than fits on its way without a reader.
  constexpr std::uint64_t kBytes = 10'000;
  send_pattern(s, pattern, 0, kBytes, 1234);
  t.note("shutdown", shutdown(s, SHUT_WR));
  t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 999)));
  read_until_end(t, s);
}

CASE(shutdown, of_reading, kEach) {
  Fd s = t.pair();
  char to[8];
  if (t.server()) {
    t.note("shutdown", shutdown(s, SHUT_RD));
    t.note("recv", recv(s, to, 8, 0));
    t.say(poll_bits(ready_now(s, POLLIN | POLLOUT | POLLRDHUP)));
    send_all(s, "still sends");
  } else {
    t.data("came", read_exactly(s, 11));
  }
  t.meet();
}

CASE(shutdown, of_reading_with_bytes_unread, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "unread");
    t.meet();
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, 6);
    t.note("shutdown", shutdown(s, SHUT_RD));
    t.data("came", read_exactly(s, 6));
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
    t.meet();
  }
}

CASE(shutdown, of_both, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "last words");
    t.note("shutdown", shutdown(s, SHUT_RDWR));
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
    t.note("send", send(s, "x", 1, MSG_NOSIGNAL));
    t.meet();
  } else {
    read_until_end(t, s);
    t.meet();
  }
}

CASE(shutdown, of_both_resets_when_more_comes, kCold | kWarm) {
  Fd s = t.pair();
  char to[8];
  if (t.client()) {
    t.meet();
    wait_for_bytes(s, 6);
    t.note("shutdown", shutdown(s, SHUT_RDWR));
    t.meet();
    t.say(poll_bits(wait_for(s, POLLIN, POLLERR | POLLHUP)));
    t.note("recv", recv(s, to, 8, 0));
    t.note("recv", recv(s, to, 8, 0));
    t.note("recv", recv(s, to, 8, 0));
    t.note("shutdown", shutdown(s, SHUT_RDWR));
    t.meet();
  } else {
    send_all(s, "before");
    t.meet();
    t.meet();
    t.say(poll_bits(wait_for(s, POLLIN | POLLRDHUP)));
    t.note("send", send(s, "after", 5, 0));
    t.say(poll_bits(wait_for(s, POLLIN, POLLERR | POLLHUP)));
    t.note("SO_ERROR", get_option(s, SOL_SOCKET, SO_ERROR));
    t.note("recv", recv(s, to, 8, 0));
    t.note("send", send(s, "x", 1, MSG_NOSIGNAL));
    t.meet();
  }
}

CASE(shutdown, ends_a_peek_of_more_than_there_is, kCold | kWarm) {
  const Fd s = t.pair();
  if (t.client()) {
    send_all(s, "before");
    t.meet();
    t.meet();
    return;
  }
  t.meet();
  wait_for_bytes(s, 6);
  t.note("shutdown", shutdown(s, SHUT_RD));
  char to[16];
  t.note("peek", recv(s, to, sizeof to, MSG_PEEK | MSG_WAITALL));
  t.meet();
}

CASE(shutdown, of_both_tells_a_send_of_no_bytes_of_no_reset_again, kCold | kWarm) {
  Fd s = t.pair();
  if (t.client()) {
    const Counted signals(SIGPIPE);
    t.note("shutdown", shutdown(s, SHUT_RDWR));
    t.meet();
    wait_for(s, POLLERR);
    t.note("send", send(s, "x", 1, MSG_NOSIGNAL));
    t.note("write 0", write(s, "x", 0));
    t.note("writev 0", writev(s, nullptr, 0));
    t.note("send 0", send(s, "x", 0, MSG_NOSIGNAL));
    t.note("signals", Counted::seen());
    t.meet();
  } else {
    t.meet();
    wait_for(s, POLLIN | POLLRDHUP);
    t.note("send", send(s, "after", 5, 0));
    wait_for(s, POLLIN, POLLERR | POLLHUP);
    t.meet();
  }
}

CASE(shutdown, of_writing_ends_sends_of_no_bytes, kEach) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    const Counted signals(SIGPIPE);
    const std::string much(1 << 20, 'w');
    t.note("a part", send(s, much.data(), much.size(), MSG_DONTWAIT) > 0);
    t.note("shutdown", shutdown(s, SHUT_WR));
    t.note("write 0", write(s, "x", 0));
    t.note("send 0", send(s, "x", 0, MSG_NOSIGNAL));
    t.note("signals", Counted::seen());
    t.meet();
  } else {
    t.meet();
  }
}

CASE(shutdown, twice, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    t.note("WR", shutdown(s, SHUT_WR));
    t.note("WR", shutdown(s, SHUT_WR));
    t.note("RD", shutdown(s, SHUT_RD));
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
  }
  t.meet();
}

CASE(shutdown, both_done_then_again, kEach) {
  Fd s = t.pair();
  t.note("WR", shutdown(s, SHUT_WR));
  t.meet();
  wait_for(s, POLLHUP);
  t.note("WR", shutdown(s, SHUT_WR));
  t.note("RDWR", shutdown(s, SHUT_RDWR));
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  t.note("getpeername", getpeername(s, reinterpret_cast<sockaddr*>(&name), &size));
  t.note("getsockname", getsockname(s, reinterpret_cast<sockaddr*>(&name), &size));
  t.meet();
}

CASE(shutdown, wakes_the_own_reader, kEach | kAlone) {
  Fd s = t.pair();
  ssize_t n = -2;
  std::thread reader([&] {
    char to[8];
    n = recv(s, to, 8, 0);
  });
  pause_ms(kInCall);
  t.note("shutdown", shutdown(s, SHUT_RDWR));
  reader.join();
  t.note("recv", n);
  t.meet();
}

CASE(shutdown, wakes_the_own_writer, kEach | kAlone) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    fill_up(s);
    ssize_t n = -2;
    int error = 0;
    std::thread writer([&] {
      const std::string more(1 << 20, 'w');
      do {
        n = send(s, more.data(), more.size(), MSG_NOSIGNAL);
      } while (n > 0);
      error = errno;
    });
    pause_ms(kInCall);
    t.note("shutdown", shutdown(s, SHUT_WR));
    writer.join();
    errno = error;
    t.note("send", n);
  }
  t.meet();
}

// A send that has sent a part returns it, and raises no signal.
CASE(shutdown, raises_no_signal_where_a_part_was_sent, kEach | kAlone) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    const Counted signals(SIGPIPE);
    ssize_t n = -2;
    std::thread writer([&] {
      const std::string much(8 << 20, 'w');
      n = send(s, much.data(), much.size(), 0);
    });
    while ((ready_now(s, POLLOUT) & POLLOUT) != 0) pause_ms(1);
    pause_ms(kAWhile);
    t.note("shutdown", shutdown(s, SHUT_WR));
    writer.join();
    t.note("a part", n > 0 ? 1 : n);
    t.note("signals", Counted::seen());
    t.note("send", send(s, "x", 1, 0));
    t.note("signals", Counted::seen());
  }
  t.meet();
}

CASE(shutdown, wakes_the_peers_reader, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    pause_ms(kInCall);
    shutdown(s, SHUT_WR);
    t.meet();
  } else {
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
    t.note("recv", recv(s, to, 8, 0));
    t.meet();
  }
}

CASE(shutdown, readiness_at_each_step, kEach) {
  Fd s = t.pair();
  constexpr short kAll = POLLIN | POLLOUT | POLLRDHUP | POLLPRI;
  t.say("connected: " + poll_bits(wait_for(s, kAll, POLLOUT)));
  t.meet();
  if (t.client()) {
    shutdown(s, SHUT_WR);
    t.say("own end: " + poll_bits(ready_now(s, kAll)));
    t.meet();
    t.meet();
    t.say("both: " + poll_bits(wait_for(s, kAll, POLLHUP | POLLIN)));
  } else {
    t.meet();
    t.say("peer's end: " + poll_bits(wait_for(s, kAll, POLLIN | POLLOUT | POLLRDHUP)));
    shutdown(s, SHUT_WR);
    t.say("both: " + poll_bits(wait_for(s, kAll, POLLHUP)));
    t.meet();
  }
  t.meet();
}

}  // namespace
}  // namespace semantics
