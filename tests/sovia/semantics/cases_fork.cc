// fork: a connection that two processes hold.
#include <signal.h>
#include <sys/wait.h>

#include <thread>

#include "calls.h"

namespace semantics {
namespace {

// The child must not keep the end of a stream from the peer that was closed before the fork.
CASE(fork, after_a_close, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    std::string how;
    t.data("stream", read_to_end(s, &how));
    t.say(how);
    t.meet();
    return;
  }
  send_all(s, "last words");
  s.close();
  const pid_t child = fork_child([] { return ::pause(); });
  t.meet();
  kill(child, SIGKILL);
  t.say(wait_child(child));
}

CASE(fork, child_uses_parent_closes, kEach | kAlone) {
  // As a server that forks for each connection.
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "question");
    t.data("answer", read_exactly(s, 6));
    std::string how;
    t.data("rest", read_to_end(s, &how));
    t.say(how);
  } else {
    const pid_t child = fork_child([&] {
      const bool good = read_exactly(s, 8) == "question";
      send_all(s, "answer");
      return good ? 0 : 1;
    });
    s.close();
    t.say(wait_child(child));
  }
}

CASE(fork, parent_uses_child_closes, kEach | kAlone) {
  Fd s = t.pair();
  const pid_t child = fork_child([&] { return s.close(); });
  t.say(wait_child(child));
  send_all(s, "parent");
  t.data("came", read_exactly(s, 6));
}

CASE(fork, child_exits_at_once, kEach | kAlone) {
  Fd s = t.pair();
  for (int i = 0; i < 5; ++i) {
    t.say(wait_child(fork_child([] { return 3; })));
    send_all(s, "round");
    t.data("came", read_exactly(s, 5));
  }
}

CASE(fork, both_send_in_turn, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    Turn to_child, to_parent;
    const pid_t child = fork_child([&] {
      for (int i = 0; i < 5; ++i) {
        to_child.wait();
        send_all(s, "child ");
        to_parent.go();
      }
      return 0;
    });
    for (int i = 0; i < 5; ++i) {
      send_all(s, "parent ");
      to_child.go();
      to_parent.wait();
    }
    t.say(wait_child(child));
    t.meet();
  } else {
    t.data("came", read_exactly(s, 65));
    t.meet();
  }
}

CASE(fork, both_receive_in_turn, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "aaaabbbbccccdddd");
    t.meet();
    t.data("answers", read_exactly(s, 4));
  } else {
    t.meet();
    Turn to_child, to_parent;
    const pid_t child = fork_child([&] {
      to_child.wait();
      bool good = read_exactly(s, 4) == "bbbb";
      send_all(s, "B");
      to_parent.go();
      to_child.wait();
      good = good && read_exactly(s, 4) == "dddd";
      send_all(s, "D");
      return good ? 0 : 1;
    });
    t.data("parent", read_exactly(s, 4));
    send_all(s, "A");
    to_child.go();
    to_parent.wait();
    t.data("parent", read_exactly(s, 4));
    send_all(s, "C");
    to_child.go();
    t.say(wait_child(child));
  }
}

CASE(fork, one_reads_the_other_writes, kEach | kAlone) {
  Fd s = t.pair();
  const Pattern out(t.client() ? 1 : 2), in(t.client() ? 2 : 1);
  constexpr std::uint64_t kBytes = 1'000'000;
  const pid_t child = fork_child([&] {
    send_pattern(s, out, 0, kBytes, 30'000);
    return 0;
  });
  t.note("right up to", static_cast<long>(receive_pattern(s, in, 0, kBytes, 20'011)));
  t.say(wait_child(child));
  t.meet();
}

CASE(fork, unread_bytes_go_to_the_child, kEach | kAlone) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 20'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 1000);
    t.meet();
    t.data("answer", read_exactly(s, 2));
  } else {
    t.meet();
    wait_for_bytes(s, kBytes);
    t.say(wait_child(fork_child([&] {
      if (receive_pattern(s, pattern, 0, kBytes, 3001) != kBytes) return 1;
      send_all(s, "ok");
      return 0;
    })));
    t.note("left for the parent", recv(s, nullptr, 1, MSG_DONTWAIT | MSG_TRUNC) < 1 ? 0 : 1);
  }
}

CASE(fork, unread_bytes_are_received_with_those_that_come_later, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "before ");
    t.meet();
    t.meet();
    send_all(s, "after");
    t.meet();
    t.meet();
    return;
  }
  t.meet();
  wait_for_bytes(s, 7);
  const pid_t child = fork_child([] { return ::pause(); });
  t.meet();
  t.meet();
  wait_for_bytes(s, 12);
  char to[32];
  t.note("peek", recv(s, to, sizeof to, MSG_PEEK));
  t.note("recv", recv(s, to, sizeof to, 0));
  t.data("came", {to, 12});
  kill(child, SIGKILL);
  t.say(wait_child(child));
  t.meet();
}

CASE(fork, unread_bytes_that_came_slowly, kEach | kAlone) {
  // So that the route may change among unread bytes.
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 30'000, kPiece = 200;
  if (t.client()) {
    for (std::uint64_t at = 0; at < kBytes; at += kPiece) {
      send_pattern(s, pattern, at, at + kPiece, kPiece);
      pause_ms(1);
    }
    t.meet();
    t.data("answer", read_exactly(s, 2));
  } else {
    t.meet();
    t.say(wait_child(fork_child([&] {
      const std::uint64_t right = receive_pattern(s, pattern, 0, kBytes, 3001);
      send_all(s, right == kBytes ? "ok" : "no");
      return right == kBytes ? 0 : 1;
    })));
  }
}

CASE(fork, unread_bytes_stay_with_the_parent, kEach | kAlone) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 20'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 1000);
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, kBytes);
    const pid_t child = fork_child([&] { return s.close(); });
    t.say(wait_child(child));
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 3001)));
  }
}

CASE(fork, unread_bytes_are_shared_out_once, kEach | kAlone) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 30'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 1500);
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, kBytes);
    t.note("parent", static_cast<long>(receive_pattern(s, pattern, 0, 5'000, 999)));
    t.say(wait_child(fork_child(
        [&] { return receive_pattern(s, pattern, 5'000, 17'000, 700) == 17'000 ? 0 : 1; })));
    t.note("parent", static_cast<long>(receive_pattern(s, pattern, 17'000, kBytes, 999)));
  }
}

CASE(fork, while_the_peer_streams, kEach | kAlone) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 4'000'000, kFork = 1'000'000, kBack = 3'000'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 50'000);
    t.meet();
  } else {
    t.note("parent", static_cast<long>(receive_pattern(s, pattern, 0, kFork, 10'007)));
    t.say(wait_child(fork_child(
        [&] { return receive_pattern(s, pattern, kFork, kBack, 10'007) == kBack ? 0 : 1; })));
    t.note("parent", static_cast<long>(receive_pattern(s, pattern, kBack, kBytes, 10'007)));
    t.meet();
  }
}

CASE(fork, while_it_streams_itself, kEach | kAlone) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 3'000'000, kPart = 1'000'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kPart, 50'000);
    t.say(wait_child(fork_child([&] {
      send_pattern(s, pattern, kPart, 2 * kPart, 50'000);
      return 0;
    })));
    send_pattern(s, pattern, 2 * kPart, kBytes, 50'000);
    t.meet();
  } else {
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 10'007)));
    t.meet();
  }
}

CASE(fork, at_both_ends_at_once, kEach | kAlone) {
  Fd s = t.pair();
  t.meet();
  const pid_t child = fork_child([&] {
    send_all(s, "from a child");
    return 0;
  });
  t.data("came", read_exactly(s, 12));
  t.say(wait_child(child));
  send_all(s, "from a parent");
  t.data("came", read_exactly(s, 13));
}

CASE(fork, the_connection_ends_with_the_last_holder, kEach | kAlone) {
  Fd s = t.pair();
  if (t.server()) {
    Turn turn;
    const pid_t child = fork_child([&] {
      turn.wait();
      return 0;
    });
    s.close();
    t.meet();
    t.meet();
    turn.go();
    t.say(wait_child(child));
    t.meet();
  } else {
    t.meet();
    t.say(poll_bits(ready_now(s, POLLIN | POLLRDHUP)));
    t.meet();
    t.meet();
    t.say(poll_bits(wait_for(s, POLLIN | POLLRDHUP)));
  }
}

CASE(fork, shutdown_by_a_child_is_for_all, kEach | kAlone) {
  Fd s = t.pair();
  if (t.server()) {
    t.say(wait_child(fork_child([&] {
      send_all(s, "last");
      return shutdown(s, SHUT_WR);
    })));
    t.note("send", send(s, "x", 1, MSG_NOSIGNAL));
    t.meet();
  } else {
    std::string how;
    t.data("came", read_to_end(s, &how));
    t.say(how);
    t.meet();
  }
}

CASE(fork, a_child_is_killed, kEach | kAlone) {
  Fd s = t.pair();
  if (t.server()) {
    const pid_t child = fork_child([&] {
      char to;
      return static_cast<int>(recv(s, &to, 1, 0));
    });
    pause_ms(20);
    kill(child, SIGKILL);
    t.say(wait_child(child));
    send_all(s, "still here");
    t.data("came", read_exactly(s, 2));
  } else {
    t.data("came", read_exactly(s, 10));
    send_all(s, "ok");
  }
}

CASE(fork, a_grandchild_takes_over, kEach | kAlone) {
  Fd s = t.pair();
  if (t.server()) {
    // As a daemon: two forks, the ones before exit.
    const pid_t child = fork_child([&] {
      fork_child([&] {
        const std::string came = read_exactly(s, 4);
        send_all(s, came + came);
        return 0;
      });
      return 0;
    });
    t.say(wait_child(child));
    s.close();
  } else {
    pause_ms(20);
    send_all(s, "gene");
    t.data("came", read_exactly(s, 8));
    std::string how;
    read_to_end(s, &how);
    t.say(how);
  }
}

CASE(fork, new_connections_in_a_child, kAlone) {
  Fd first = t.cold_pair();
  t.warm_up(first);
  if (t.server()) {
    t.say(wait_child(fork_child([&] {
      Fd s = t.cold_pair();
      t.warm_up(s);
      send_all(s, "new");
      return read_exactly(s, 2) == "ok" ? 0 : 1;
    })));
    send_all(first, "old");
  } else {
    Fd s = t.cold_pair();
    t.warm_up(s);
    t.data("came", read_exactly(s, 3));
    send_all(s, "ok");
    t.data("came", read_exactly(first, 3));
  }
}

CASE(fork, children_accept_from_one_listener, kAlone) {
  constexpr int kChildren = 4;
  if (t.server()) {
    const Fd listener = t.listen();
    pid_t children[kChildren];
    for (pid_t& child : children) {
      child = fork_child([&] {
        const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
        send_all(s, read_exactly(s, 5));
        return 0;
      });
    }
    for (const pid_t child : children) t.say(wait_child(child));
  } else {
    const sockaddr_storage to = t.hear_address();
    for (int i = 0; i < kChildren; ++i) {
      const Fd s(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
      must(connect(s, reinterpret_cast<const sockaddr*>(&to), size_of(to)), "connect");
      send_all(s, "hello");
      t.data("echo", read_exactly(s, 5));
    }
  }
}

CASE(fork, a_server_that_forks_for_each, kAlone) {
  constexpr int kClients = 5;
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 300'000;
  if (t.server()) {
    const Fd listener = t.listen();
    for (int i = 0; i < kClients; ++i) {
      Fd s(must(accept(listener, nullptr, nullptr), "accept"));
      const pid_t child = fork_child([&] {
        send_pattern(s, pattern, 0, kBytes, 20'000);
        return read_exactly(s, 3) == "bye" ? 0 : 1;
      });
      s.close();
      t.say(wait_child(child));
    }
  } else {
    const sockaddr_storage to = t.hear_address();
    for (int i = 0; i < kClients; ++i) {
      const Fd s(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
      must(connect(s, reinterpret_cast<const sockaddr*>(&to), size_of(to)), "connect");
      t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 7000)));
      send_all(s, "bye");
    }
  }
}

CASE(fork, with_threads_about, kEach | kAlone) {
  Fd s = t.pair();
  if (t.server()) {
    std::string came;
    std::thread reader([&] { came = read_exactly(s, 5); });
    pause_ms(20);
    // The child has only the thread that forked.
    t.say(wait_child(fork_child([&] {
      send_all(s, "child");
      return 0;
    })));
    t.meet();
    reader.join();
    t.data("came", came);
  } else {
    t.data("came", read_exactly(s, 5));
    t.meet();
    send_all(s, "after");
  }
  t.meet();
}

}  // namespace
}  // namespace semantics
