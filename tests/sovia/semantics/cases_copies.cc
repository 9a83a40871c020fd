// dup and its kin: several descriptors, one connection.
#include <fcntl.h>

#include <thread>

#include "calls.h"

namespace semantics {
namespace {

// Works with a copy made by `copy`, closes the original first or last.
void use_copy(Case& t, const std::function<int(int)>& copy) {
  Fd s = t.pair();
  const Fd other(must(copy(s), "a copy"));
  if (t.client()) {
    send_all(other, "by the copy ");
    send_all(s, "by the original ");
    t.note("close", s.close());
    send_all(other, "by what is left");
    t.data("answer", read_exactly(other, 4));
  } else {
    t.data("came", read_exactly(s, 12));
    t.data("came", read_exactly(other, 16));
    t.note("close", s.close());
    t.data("came", read_exactly(other, 15));
    send_all(other, "well");
  }
}

CASE(copies, dup, kEach) {
  use_copy(t, [](int s) { return dup(s); });
}
CASE(copies, dup2, kEach) {
  use_copy(t, [](int s) { return dup2(s, 450); });
}
CASE(copies, dup3, kEach) {
  use_copy(t, [](int s) { return dup3(s, 451, O_CLOEXEC); });
}
CASE(copies, f_dupfd, kEach) {
  use_copy(t, [](int s) { return fcntl(s, F_DUPFD, 440); });
}
CASE(copies, f_dupfd_cloexec, kEach) {
  use_copy(t, [](int s) { return fcntl(s, F_DUPFD_CLOEXEC, 441); });
}

CASE(copies, made_before_connecting, kOnce) {
  Fd s, copy;
  if (t.server()) {
    const Fd listener = t.listen();
    const Fd same(must(dup(listener), "dup"));
    s = Fd(must(accept(same, nullptr, nullptr), "accept"));
    copy = Fd(must(dup(s), "dup"));
  } else {
    const sockaddr_storage to = t.hear_address();
    s = Fd(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
    copy = Fd(must(dup(s), "dup"));
    must(connect(copy, reinterpret_cast<const sockaddr*>(&to), size_of(to)), "connect");
  }
  t.warm_up(copy);
  if (t.client()) {
    send_all(s, "original ");
    send_all(copy, "copy");
    t.meet();
  } else {
    t.data("came", read_exactly(copy, 9));
    t.data("came", read_exactly(s, 4));
    t.meet();
  }
}

CASE(copies, share_their_mode, kEach) {
  Fd s = t.pair();
  const Fd copy(must(dup(s), "dup"));
  set_nonblocking(copy);
  t.say((fcntl(s, F_GETFL) & O_NONBLOCK) != 0 ? "shared" : "not shared");
  char to;
  t.note("recv", recv(s, &to, 1, 0));
  must(fcntl(copy, F_SETFD, FD_CLOEXEC), "F_SETFD");
  t.note("FD_CLOEXEC of the original", fcntl(s, F_GETFD));
  t.meet();
}

CASE(copies, share_bytes_that_were_peeked, kEach) {
  Fd s = t.pair();
  const Fd copy(must(dup(s), "dup"));
  if (t.client()) {
    send_all(copy, "abcdef");
  } else {
    char to[6];
    t.note("peek", recv(s, to, 6, MSG_PEEK | MSG_WAITALL));
    t.data("copy", read_exactly(copy, 2));
    t.data("original", read_exactly(s, 2));
    t.data("copy", read_exactly(copy, 2));
  }
}

CASE(copies, the_connection_ends_with_the_last, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    Fd copy(must(dup(s), "dup"));
    s.close();
    t.meet();
    t.meet();
    copy.close();
    t.meet();
  } else {
    t.meet();
    t.say(poll_bits(ready_now(s, POLLIN | POLLRDHUP)));
    t.meet();
    t.say(poll_bits(wait_for(s, POLLIN | POLLRDHUP)));
    char to;
    t.note("recv", recv(s, &to, 1, 0));
    t.meet();
  }
}

CASE(copies, shutdown_is_for_all, kEach) {
  Fd s = t.pair();
  const Fd copy(must(dup(s), "dup"));
  t.note("shutdown", shutdown(copy, SHUT_WR));
  t.note("send", send(s, "x", 1, MSG_NOSIGNAL));
  char to;
  t.note("recv", recv(s, &to, 1, 0));
}

CASE(copies, dup2_over_a_connection, kEach) {
  const std::vector<Fd> two = t.pairs(2);
  if (t.client()) {
    // Closes the connection that the number belonged to.
    t.note("same number", dup2(two[0], two[1]) - two[1]);
    send_all(two[1], "by the second number");
    t.meet();
  } else {
    char to;
    t.note("second connection", recv(two[1], &to, 1, 0));
    t.data("first connection", read_exactly(two[0], 20));
    t.meet();
  }
}

CASE(copies, dup2_onto_itself, kEach) {
  Fd s = t.pair();
  const int same = s;
  t.note("dup2", dup2(s, same) - same);
  t.note("dup3", dup3(s, same, 0));
  t.meet();
  send_all(s, "x");
  t.data("came", read_exactly(s, 1));
}

CASE(copies, a_file_over_a_connection, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    const Fd null(must(open("/dev/null", O_RDWR), "open"));
    must(dup2(null, s), "dup2");
    t.note("write to the file", write(s, "lost", 4));
    t.note("send to the file", send(s, "lost", 4, 0));
    t.meet();
  } else {
    char to;
    t.note("recv", recv(s, &to, 1, 0));
    t.meet();
  }
}

CASE(copies, a_number_that_a_file_gets_next, kEach) {
  Fd s = t.pair();
  t.meet();
  s.close();
  const Fd file(must(open("/dev/zero", O_RDWR), "open"));
  char to[4] = "...";
  t.note("read", read(file, to, 4));
  t.data("zeros", {to, 4});
  t.note("recv", recv(file, to, 4, 0));
}

CASE(copies, close_range_closes, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    t.note("close_range", close_range(static_cast<unsigned>(s), static_cast<unsigned>(s), 0));
    s.release();
    t.meet();
  } else {
    char to;
    t.note("recv", recv(s, &to, 1, 0));
    t.meet();
  }
}

CASE(copies, hundred_of_them, kEach) {
  Fd s = t.pair();
  std::vector<Fd> copies;
  for (int i = 0; i < 100; ++i) copies.emplace_back(must(dup(s), "dup"));
  s.close();
  for (int i = 0; i < 100; ++i) {
    const std::string text = std::to_string(1000 + i);
    send_all(copies[static_cast<std::size_t>(i)], text);
    if (read_exactly(copies[static_cast<std::size_t>(99 - i)], 4) != text) t.say("wrong");
  }
  t.say("done");
}

}  // namespace
}  // namespace semantics
