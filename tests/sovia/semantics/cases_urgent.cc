// The urgent byte: MSG_OOB, with and without SO_OOBINLINE, the mark, SIGURG, POLLPRI.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/select.h>

#include <cerrno>
#include <thread>

#include "calls.h"

namespace semantics {
namespace {

// Sends "before", an urgent byte, "after"; the other end runs `look` when all of it is there.
template <class Look>
void around_an_urgent_byte(Case& t, bool in_line, Look look) {
  Fd s = t.pair();
  if (t.client()) {
    t.meet();
    send_all(s, "before");
    t.note("send", send(s, "!", 1, MSG_OOB));
    send_all(s, "after");
    // The receiver's FIONREAD does not count "after".
    for (int i = 0; i < kSoon && queued(s, TIOCOUTQ) != 0; ++i) pause_ms(1);
    t.meet();
    t.meet();
  } else {
    if (in_line) set_option(s, SOL_SOCKET, SO_OOBINLINE, 1);
    t.meet();
    t.meet();
    wait_for(s, POLLIN | POLLPRI);
    wait_for_bytes(s, 6);
    look(t, static_cast<int>(s));
    t.meet();
  }
}

void read_up_to(Case& t, int s, std::size_t size) {
  char to[32];
  const ssize_t n = recv(s, to, size, MSG_DONTWAIT);
  t.note("recv", n);
  if (n > 0) t.data("came", {to, static_cast<std::size_t>(n)});
}

void read_urgent(Case& t, int s, int flags = 0) {
  char byte = '?';
  t.note("recv urgent", recv(s, &byte, 1, MSG_OOB | flags));
  t.data("urgent", {&byte, 1});
}

CASE(urgent, beside_the_stream, kEach) {
  around_an_urgent_byte(t, false, [](Case& t, int s) {
    t.note("at mark", sockatmark(s));
    read_urgent(t, s);
    read_up_to(t, s, 32);  // stops at the mark
    t.note("at mark", sockatmark(s));
    read_up_to(t, s, 32);
    t.note("at mark", sockatmark(s));
  });
}

CASE(urgent, read_late, kEach) {
  around_an_urgent_byte(t, false, [](Case& t, int s) {
    read_up_to(t, s, 32);
    t.note("at mark", sockatmark(s));
    read_urgent(t, s);
    read_up_to(t, s, 32);
  });
}

CASE(urgent, left_unread, kEach) {
  around_an_urgent_byte(t, false, [](Case& t, int s) {
    read_up_to(t, s, 32);
    read_up_to(t, s, 32);  // skips it
    char byte = '?';
    t.note("recv urgent", recv(s, &byte, 1, MSG_OOB));
  });
}

CASE(urgent, read_twice, kEach) {
  around_an_urgent_byte(t, false, [](Case& t, int s) {
    read_urgent(t, s, MSG_PEEK);
    read_urgent(t, s);
    char byte = '?';
    t.note("recv urgent again", recv(s, &byte, 1, MSG_OOB));
  });
}

CASE(urgent, in_line, kEach) {
  around_an_urgent_byte(t, true, [](Case& t, int s) {
    t.note("at mark", sockatmark(s));
    char byte = '?';
    t.note("recv urgent", recv(s, &byte, 1, MSG_OOB));
    read_up_to(t, s, 32);
    t.note("at mark", sockatmark(s));
    read_up_to(t, s, 32);
    t.note("at mark", sockatmark(s));
  });
}

CASE(urgent, a_receive_of_all_stops_at_the_mark, kEach) {
  around_an_urgent_byte(t, true, [](Case& t, int s) {
    char to[12];
    t.note("peek", recv(s, to, sizeof to, MSG_PEEK));
    t.note("recv", recv(s, to, sizeof to, MSG_WAITALL));
    t.note("at mark", sockatmark(s));
    t.data("behind", read_exactly(s, 6));
  });
}

CASE(urgent, ioctl_at_mark, kEach) {
  around_an_urgent_byte(t, true, [](Case& t, int s) {
    for (int i = 0; i < 8; ++i) {
      int at = -1;
      t.note("SIOCATMARK", ioctl(s, SIOCATMARK, &at));
      t.note("at mark", at);
      read_up_to(t, s, 1);
    }
  });
}

CASE(urgent, poll_and_select_see_it, kEach) {
  around_an_urgent_byte(t, false, [](Case& t, int s) {
    t.say(poll_bits(ready_now(s, POLLIN | POLLPRI)));
    fd_set readable, exceptional;
    FD_ZERO(&readable);
    FD_ZERO(&exceptional);
    FD_SET(s, &readable);
    FD_SET(s, &exceptional);
    timeval none{};
    t.note("select", select(s + 1, &readable, nullptr, &exceptional, &none));
    t.note("readable", FD_ISSET(s, &readable) ? 1 : 0);
    t.note("exceptional", FD_ISSET(s, &exceptional) ? 1 : 0);
    read_urgent(t, s);
    t.say(poll_bits(ready_now(s, POLLIN | POLLPRI)));
  });
}

CASE(urgent, nothing_urgent, kEach) {
  Fd s = t.pair();
  char byte;
  t.note("recv", recv(s, &byte, 1, MSG_OOB));
  t.note("at mark", sockatmark(s));
  t.say(poll_bits(ready_now(s, POLLIN | POLLPRI)));
  t.meet();
}

CASE(urgent, several, kEach) {
  Fd s = t.pair();
  for (const char* text : {"a", "b", "c"}) {
    if (t.client()) {
      send_all(s, "text");
      t.note("send", send(s, text, 1, MSG_OOB));
      t.meet();
      t.meet();
    } else {
      t.meet();
      t.say(poll_bits(wait_for(s, POLLPRI)));
      read_urgent(t, s);
      t.data("came", read_exactly(s, 4));
      t.meet();
    }
  }
}

CASE(urgent, the_last_one_counts, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    for (const char* text : {"x", "y", "z"}) {
      send_all(s, text);
      must(send(s, "!", 1, MSG_OOB), "send");
    }
    send_all(s, "#");
    t.meet();
  } else {
    t.meet();
    // The earlier ones have become ordinary bytes.
    std::string all;
    while (all.empty() || all.back() != '#') {
      const std::string one = read_exactly(s, 1);
      if (one.empty()) break;
      all += one;
    }
    t.data("came", all);
  }
}

CASE(urgent, of_several_bytes_the_last_is_urgent, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    t.note("send", send(s, "abc!", 4, MSG_OOB));
    t.meet();
    t.meet();
  } else {
    t.meet();
    wait_for(s, POLLPRI);
    wait_for_bytes(s, 3);
    read_urgent(t, s);
    t.data("came", read_exactly(s, 3));
    t.meet();
  }
}

CASE(urgent, signal, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    t.meet();
    send_all(s, "x");
    must(send(s, "!", 1, MSG_OOB), "send");
    t.meet();
  } else {
    const Counted urgent(SIGURG);
    t.note("F_SETOWN", fcntl(s, F_SETOWN, getpid()));
    t.note("F_GETOWN", fcntl(s, F_GETOWN) - getpid());
    t.meet();
    t.say(Counted::wait() ? "SIGURG" : "no SIGURG");
    read_urgent(t, s);
    t.data("came", read_exactly(s, 1));
    t.meet();
  }
}

CASE(urgent, signal_interrupts_recv, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    t.meet();
    pause_ms(kInCall);
    must(send(s, "!", 1, MSG_OOB), "send");
    t.meet();
  } else {
    struct sigaction action = {};
    action.sa_handler = [](int) {};  // without SA_RESTART
    sigaction(SIGURG, &action, nullptr);
    must(fcntl(s, F_SETOWN, getpid()), "F_SETOWN");
    t.meet();
    char to[4];
    t.note("recv", recv(s, to, 4, 0));
    read_urgent(t, s);
    t.meet();
  }
}

CASE(urgent, abort_of_a_transfer, kEach) {
  // As ftp's ABOR: IAC IP, then IAC as the urgent byte, then the command, while data streams.
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, std::string(20'000, 'd'));
    t.note("send", send(s, "\377\364\377", 3, MSG_OOB));
    send_all(s, "\362ABOR\r\n");
    t.data("answer", read_exactly(s, 4));
  } else {
    set_option(s, SOL_SOCKET, SO_OOBINLINE, 1);
    t.say(poll_bits(static_cast<short>(wait_for(s, POLLPRI) & POLLPRI)));
    std::size_t dropped = 0;
    while (sockatmark(s) == 0) dropped += read_exactly(s, 1).size();
    t.note("up to the mark", static_cast<long>(dropped));
    t.data("from the mark", read_exactly(s, 8).substr(2));
    send_all(s, "226\n");
  }
}

CASE(urgent, answered_both_ways, kEach) {
  Fd s = t.pair();
  for (int i = 0; i < 5; ++i) {
    must(send(s, t.client() ? "c" : "s", 1, MSG_OOB), "send");
    send_all(s, "text");
    wait_for(s, POLLPRI);
    read_urgent(t, s);
    t.data("came", read_exactly(s, 4));
    t.meet();
  }
}

CASE(urgent, stream_goes_on_afterwards, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kHalf = 400'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kHalf, 9000);
    must(send(s, "!", 1, MSG_OOB), "send");
    send_pattern(s, pattern, kHalf, 2 * kHalf, 9000);
  } else {
    // The urgent byte is not in the stream, and stands nowhere in it.
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, 2 * kHalf, 10'007)));
    char byte = '?';
    t.note("urgent, too late", recv(s, &byte, 1, MSG_OOB));
  }
}

CASE(urgent, sender_closes_before_all_is_read, kEach) {
  Fd s = t.pair({.send_buffer = 100'000, .receive_buffer = 20'000});
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBefore = 10'000, kAfter = 80'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBefore, 5000);
    must(send(s, "!", 1, MSG_OOB), "send");
    send_pattern(s, pattern, kBefore, kBefore + kAfter, 5000);
    t.note("close", s.close());
    t.meet();
  } else {
    t.meet();
    pause_ms(kAWhile);
    t.note("right up to",
           static_cast<long>(receive_pattern(s, pattern, 0, kBefore + kAfter, 10'007)));
  }
}

CASE(urgent, before_the_end, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "text");
    must(send(s, "!", 1, MSG_OOB), "send");
    shutdown(s, SHUT_WR);
    t.meet();
  } else {
    wait_for(s, POLLPRI | POLLRDHUP);
    read_urgent(t, s);
    std::string how;
    t.data("came", read_to_end(s, &how));
    t.say(how);
    t.meet();
  }
}

}  // namespace
}  // namespace semantics
