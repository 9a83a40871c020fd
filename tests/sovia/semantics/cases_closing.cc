// close(), linger, and ends that are no clean ones.
#include <fcntl.h>
#include <signal.h>

#include <cerrno>
#include <thread>

#include "calls.h"

namespace semantics {
namespace {

void set_linger(int s, int on, int seconds) {
  const linger value{on, seconds};
  must(setsockopt(s, SOL_SOCKET, SO_LINGER, &value, sizeof value), "SO_LINGER");
}

void read_all_of_it(Case& t, int s) {
  std::string how;
  t.data("came", read_to_end(s, &how));
  t.say(how);
}

CASE(closing, after_all_is_read, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "all of it");
    t.note("close", s.close());
  } else {
    read_all_of_it(t, s);
    t.note("close", s.close());
  }
}

CASE(closing, with_bytes_on_their_way, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 1'500'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 200'000);
    t.note("close", s.close());
  } else {
    pause_ms(30);
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 4099)));
    read_all_of_it(t, s);
  }
}

CASE(closing, small_messages_then_close_at_once, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    for (int i = 0; i < 100; ++i) send_all(s, "line\n");
    s.close();
  } else {
    read_all_of_it(t, s);
  }
}

CASE(closing, with_unread_bytes_resets, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "never read");
    t.meet();
    t.meet();
    t.say(poll_bits(wait_for(s, POLLIN | POLLOUT | POLLRDHUP, POLLHUP)));
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
    t.note("recv", recv(s, to, 8, 0));
    t.note("send", send(s, "x", 1, MSG_NOSIGNAL));
  } else {
    t.meet();
    wait_for_bytes(s, 10);
    t.note("close", s.close());
    t.meet();
  }
}

CASE(closing, error_of_a_reset_is_told_once, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "never read");
    t.meet();
    wait_for(s, POLLERR);
    t.note("SO_ERROR", get_option(s, SOL_SOCKET, SO_ERROR));
    t.note("SO_ERROR", get_option(s, SOL_SOCKET, SO_ERROR));
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
  } else {
    wait_for_bytes(s, 10);
    s.close();
    t.meet();
  }
}

CASE(closing, send_to_a_closed_peer, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    t.meet();
    wait_for(s, POLLIN | POLLRDHUP);
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
    // The first one goes out and brings a reset back; then nothing goes any more.
    t.note("send", send(s, "x", 1, MSG_NOSIGNAL));
    t.say(poll_bits(wait_for(s, POLLIN | POLLOUT | POLLRDHUP, POLLHUP)));
    t.note("send", send(s, "x", 1, MSG_NOSIGNAL));
    t.note("send", send(s, "x", 1, MSG_NOSIGNAL));
    t.note("recv", recv(s, to, 8, 0));
  } else {
    s.close();
    t.meet();
  }
}

CASE(closing, lingering_not_at_all_resets, kEach) {
  Fd s = t.pair();
  if (t.server()) {
    set_linger(s, 1, 0);
    t.note("close", s.close());
    t.meet();
  } else {
    t.meet();
    t.say(poll_bits(wait_for(s, POLLIN | POLLOUT | POLLRDHUP, POLLHUP)));
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
    t.note("recv", recv(s, to, 8, 0));
  }
}

CASE(closing, lingering_waits_for_the_peer, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 300'000;
  if (t.client()) {
    set_linger(s, 1, 5);
    send_pattern(s, pattern, 0, kBytes, kBytes);
    t.note("close", s.close());
  } else {
    pause_ms(30);
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 5003)));
    read_all_of_it(t, s);
  }
}

CASE(closing, while_the_peer_is_in_recv, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    pause_ms(kInCall);
    t.note("close", s.close());
  } else {
    char to[8];
    t.note("recv", recv(s, to, 8, 0));
  }
}

CASE(closing, while_the_peer_is_in_poll, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    pause_ms(kInCall);
    t.note("close", s.close());
  } else {
    pollfd at{s, POLLIN | POLLRDHUP, 0};
    t.note("poll", poll(&at, 1, kSoon));
    t.say(poll_bits(at.revents));
  }
}

CASE(closing, while_the_peer_is_in_send, kEach) {
  Fd s = t.pair({.send_buffer = 20'000, .receive_buffer = 20'000});
  if (t.client()) {
    fill_up(s);
    t.meet();
    const std::string more(4 << 20, 'm');
    const ssize_t n = send(s, more.data(), more.size(), MSG_NOSIGNAL);
    const int error = errno;
    // Some may have gone out before; then the error comes with the next call.
    if (n >= 0) {
      t.note("send", send(s, more.data(), more.size(), MSG_NOSIGNAL));
    } else {
      errno = error;
      t.note("send", n);
    }
  } else {
    t.meet();
    pause_ms(kInCall);
    t.note("close", s.close());
  }
}

CASE(closing, at_both_ends_at_once, kEach) {
  Fd s = t.pair();
  t.meet();
  t.note("close", s.close());
}

CASE(closing, at_both_ends_many_times, kCold | kWarm) {
  for (int i = 0; i < 20; ++i) {
    Fd s = t.pair();
    send_all(s, "x");
    t.data("came", read_exactly(s, 1));
    t.note("close", s.close());
  }
}

CASE(closing, without_a_byte, kOnce) {
  for (int i = 0; i < 20; ++i) {
    Fd s = t.cold_pair();
    if (t.client()) {
      t.note("close", s.close());
    } else {
      read_all_of_it(t, s);
    }
  }
}

CASE(closing, a_new_connection_has_nothing_of_the_old_one, kEach) {
  for (int i = 0; i < 5; ++i) {
    Fd s = t.pair();
    const std::string mine = "round " + std::to_string(i);
    if (t.client()) {
      send_all(s, mine);
      t.data("came", read_exactly(s, 2));
    } else {
      t.data("came", read_exactly(s, mine.size()));
      send_all(s, "ok");
    }
  }
}

// ---------------------------------------------------------------- processes that end

// The server's connection is in a child that ends like this; the client sees how.
void dies(Case& t, void (*ending)(int)) {
  if (t.client()) {
    Fd s = t.pair();
    std::string how;
    t.data("came", read_to_end(s, &how));
    t.say(how);
    t.say("afterwards: " +
          std::string(send(s, "x", 1, MSG_NOSIGNAL) >= 0 || errno == EPIPE || errno == ECONNRESET
                          ? "as expected"
                          : errno_name(errno)));
  } else {
    t.say(wait_child(fork_child([&] {
      const int s = t.pair().release();
      send_all(s, "farewell");
      pause_ms(10);
      ending(s);
      return 7;
    })));
  }
}

CASE(death, exit_without_close, kEach | kAlone) {
  dies(t, [](int) { std::_Exit(0); });
}
CASE(death, return_from_the_child, kEach | kAlone) {
  dies(t, [](int) {});
}
CASE(death, abort, kEach | kAlone) {
  dies(t, [](int) { abort(); });
}
CASE(death, by_kill, kEach | kAlone) {
  dies(t, [](int) { kill(getpid(), SIGKILL); });
}
CASE(death, by_sigterm, kEach | kAlone) {
  dies(t, [](int) { kill(getpid(), SIGTERM); });
}
CASE(death, by_sigpipe, kEach | kAlone) {
  dies(t, [](int s) {
    shutdown(s, SHUT_WR);
    write(s, "x", 1);
  });
}
CASE(death, by_a_bad_access, kEach | kAlone) {
  dies(t, [](int) {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer has a handler
    raise(SIGSEGV);
  });
}

CASE(death, exit_with_handlers, kEach | kAlone) {
  // exit() runs the handlers of atexit() and flushes stdio; only here does the process do so.
  if (t.client()) {
    Fd s = t.pair();
    std::string how;
    t.data("came", read_to_end(s, &how));
    t.say(death(how));
  } else {
    t.say(wait_child(fork_child([&]() -> int {
      const int s = t.pair().release();
      FILE* const file = fdopen(s, "w");
      std::fputs("flushed by exit", file);
      std::exit(0);
    })));
  }
}

CASE(death, of_a_process_with_unread_bytes, kEach | kAlone) {
  if (t.client()) {
    Fd s = t.pair();
    send_all(s, "unread");
    t.meet();
    std::string how;
    t.data("came", read_to_end(s, &how));
    t.say(death(how));
  } else {
    t.say(wait_child(fork_child([&] {
      const int s = t.pair().release();
      t.meet();
      wait_for_bytes(s, 6);
      return 0;
    })));
  }
}

CASE(death, while_the_peer_sends, kEach | kAlone) {
  if (t.client()) {
    Fd s = t.pair();
    const std::string piece(50'000, 'p');
    ssize_t n;
    do {
      n = send(s, piece.data(), piece.size(), MSG_NOSIGNAL);
    } while (n > 0);
    t.say(errno == EPIPE || errno == ECONNRESET ? "ended" : errno_name(errno));
  } else {
    t.say(wait_child(fork_child([&] {
      const int s = t.pair().release();
      drain(s, 500'000);
      return kill(getpid(), SIGKILL);
    })));
  }
}

CASE(death, while_the_peer_is_in_poll, kEach | kAlone) {
  if (t.client()) {
    Fd s = t.pair();
    pollfd at{s, POLLIN, 0};
    t.note("poll", poll(&at, 1, kSoon));
    t.say((at.revents & POLLIN) != 0 ? "readable" : poll_bits(at.revents));
    std::string how;
    read_to_end(s, &how);
    t.say(how);
  } else {
    t.say(wait_child(fork_child([&] {
      const int s = t.pair().release();
      pause_ms(kInCall);
      return kill(getpid(), SIGKILL) + s;
    })));
  }
}

CASE(death, while_streaming_both_ways, kEach | kAlone) {
  if (t.client()) {
    Fd s = t.pair();
    std::thread writer([&] {
      const std::string piece(30'000, 'p');
      while (send(s, piece.data(), piece.size(), MSG_NOSIGNAL) > 0) {
      }
    });
    std::string how;
    read_to_end(s, &how);
    writer.join();
    t.say(death(how));
  } else {
    t.say(wait_child(fork_child([&] {
      const int s = t.pair().release();
      std::thread([s] {
        const std::string piece(30'000, 'q');
        while (send(s, piece.data(), piece.size(), MSG_NOSIGNAL) > 0) {
        }
      }).detach();
      drain(s, 1'000'000);
      return kill(getpid(), SIGKILL);
    })));
  }
}

}  // namespace
}  // namespace semantics
