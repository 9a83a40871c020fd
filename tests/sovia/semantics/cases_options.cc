// Names, and the options that programs set and ask for.
#include <netinet/ip.h>
#include <netinet/tcp.h>

#include <cstddef>

#include "calls.h"

namespace semantics {
namespace {

using NameCall = int(int, sockaddr*, socklen_t*);

void note_name(Case& t, const char* what, NameCall* call, int s) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  const int result = call(s, reinterpret_cast<sockaddr*>(&name), &size);
  t.note(what, result);
  if (result == 0) t.say(t.name_of(reinterpret_cast<sockaddr*>(&name), size));
}

void note_option(Case& t, const char* what, int s, int level, int option) {
  int value = -4711;
  socklen_t size = sizeof value;
  t.note(what, getsockopt(s, level, option, &value, &size));
  t.note("value", value);
  t.note("size", size);
}

CASE(names, of_both_ends, kEach) {
  Fd s = t.pair();
  note_name(t, "getsockname", getsockname, s);
  note_name(t, "getpeername", getpeername, s);
  t.meet();
}

CASE(names, agree_at_both_ends, kEach) {
  Fd s = t.pair();
  sockaddr_in mine{}, theirs{};
  socklen_t size = sizeof mine;
  must(getsockname(s, reinterpret_cast<sockaddr*>(&mine), &size), "getsockname");
  must(getpeername(s, reinterpret_cast<sockaddr*>(&theirs), &size), "getpeername");
  t.tell(std::to_string(mine.sin_port) + " " + std::to_string(theirs.sin_port));
  const std::string other = t.hear();
  t.say(other == std::to_string(theirs.sin_port) + " " + std::to_string(mine.sin_port) ? "agree"
                                                                                       : "differ");
}

CASE(names, in_too_little_room, kCold | kWarm) {
  Fd s = t.pair();
  char room[32];
  for (char& c : room) c = '.';
  socklen_t size = 2;
  t.note("getpeername", getpeername(s, reinterpret_cast<sockaddr*>(room), &size));
  t.note("size", size);
  t.data("beyond", {room + 2, 6});
  t.meet();
}

CASE(names, survive_the_end_of_the_peer, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    s.close();
    t.meet();
  } else {
    t.meet();
    wait_for(s, POLLIN | POLLRDHUP);
    note_name(t, "getsockname", getsockname, s);
    note_name(t, "getpeername", getpeername, s);
  }
}

CASE(names, of_an_unbound_socket, kOnce) {
  const Fd s(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  note_name(t, "getsockname", getsockname, s);
  note_name(t, "getpeername", getpeername, s);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  t.note("bind", bind(s, reinterpret_cast<sockaddr*>(&any), sizeof any));
  note_name(t, "getsockname", getsockname, s);
}

CASE(options, kind_of_socket, kEach) {
  Fd s = t.pair();
  note_option(t, "SO_TYPE", s, SOL_SOCKET, SO_TYPE);
  note_option(t, "SO_DOMAIN", s, SOL_SOCKET, SO_DOMAIN);
  note_option(t, "SO_PROTOCOL", s, SOL_SOCKET, SO_PROTOCOL);
  note_option(t, "SO_ACCEPTCONN", s, SOL_SOCKET, SO_ACCEPTCONN);
  note_option(t, "SO_ERROR", s, SOL_SOCKET, SO_ERROR);
  t.meet();
}

CASE(options, of_a_listener, kOnce) {
  const Fd s(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  note_option(t, "SO_ACCEPTCONN", s, SOL_SOCKET, SO_ACCEPTCONN);
  must(listen(s, 3), "listen");
  note_option(t, "SO_ACCEPTCONN", s, SOL_SOCKET, SO_ACCEPTCONN);
  note_option(t, "SO_TYPE", s, SOL_SOCKET, SO_TYPE);
}

CASE(options, switches, kEach) {
  Fd s = t.pair();
  struct Switch {
    const char* name;
    int level, option;
  };
  for (const Switch& each : {Switch{"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE},
                             Switch{"SO_REUSEADDR", SOL_SOCKET, SO_REUSEADDR},
                             Switch{"SO_REUSEPORT", SOL_SOCKET, SO_REUSEPORT},
                             Switch{"SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE},
                             Switch{"SO_BROADCAST", SOL_SOCKET, SO_BROADCAST},
                             Switch{"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY},
                             Switch{"TCP_CORK", IPPROTO_TCP, TCP_CORK}}) {
    note_option(t, each.name, s, each.level, each.option);
    for (const int value : {1, 0}) {
      t.note("set", setsockopt(s, each.level, each.option, &value, sizeof value));
      t.note("is", get_option(s, each.level, each.option));
    }
  }
  t.meet();
}

CASE(options, numbers, kCold | kWarm) {
  Fd s = t.pair();
  struct Number {
    const char* name;
    int level, option, value;
  };
  for (const Number& each : {Number{"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, 77},
                             Number{"TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL, 7},
                             Number{"TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, 3},
                             Number{"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, 12345},
                             Number{"TCP_QUICKACK", IPPROTO_TCP, TCP_QUICKACK, 1},
                             Number{"TCP_SYNCNT", IPPROTO_TCP, TCP_SYNCNT, 4},
                             Number{"SO_PRIORITY", SOL_SOCKET, SO_PRIORITY, 4},
                             Number{"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, 1},
                             Number{"IP_TOS", IPPROTO_IP, IP_TOS, IPTOS_LOWDELAY},
                             Number{"IP_TTL", IPPROTO_IP, IP_TTL, 33}}) {
    t.note(each.name, setsockopt(s, each.level, each.option, &each.value, sizeof each.value));
    t.note("is", get_option(s, each.level, each.option));
  }
  t.note("TCP_SYNCNT 0", [&] {
    const int none = 0;
    return setsockopt(s, IPPROTO_TCP, TCP_SYNCNT, &none, sizeof none);
  }());
  t.meet();
}

CASE(options, buffer_sizes, kEach) {
  Fd s = t.pair();
  for (const int option : {SO_SNDBUF, SO_RCVBUF}) {
    const int size = 50'000;
    t.note("set", setsockopt(s, SOL_SOCKET, option, &size, sizeof size));
    t.note("is", get_option(s, SOL_SOCKET, option));  // twice as much, on Linux
  }
  const Pattern pattern(t.settings().seed);
  if (t.client()) {
    send_pattern(s, pattern, 0, 500'000, 70'000);
  } else {
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, 500'000, 9001)));
  }
}

CASE(options, linger, kCold | kWarm) {
  Fd s = t.pair();
  linger value{1, 17};
  t.note("set", setsockopt(s, SOL_SOCKET, SO_LINGER, &value, sizeof value));
  value = {};
  socklen_t size = sizeof value;
  t.note("get", getsockopt(s, SOL_SOCKET, SO_LINGER, &value, &size));
  t.note("on", value.l_onoff);
  t.note("seconds", value.l_linger);
  value = {0, 0};
  t.note("set", setsockopt(s, SOL_SOCKET, SO_LINGER, &value, sizeof value));
  t.meet();
}

CASE(options, segment_size, kCold | kWarm) {
  Fd s = t.pair();
  const int size = get_option(s, IPPROTO_TCP, TCP_MAXSEG);
  t.say(size >= 500 && size < 65536 ? "a size" : "no size");
  t.meet();
}

CASE(options, state, kEach) {
  Fd s = t.pair();
  const auto state = [&] {
    tcp_info info{};
    socklen_t size = sizeof info;
    t.note("TCP_INFO", getsockopt(s, IPPROTO_TCP, TCP_INFO, &info, &size));
    return static_cast<long>(info.tcpi_state);
  };
  t.note("connected", state());
  t.meet();
  if (t.client()) {
    shutdown(s, SHUT_WR);
    t.meet();
    t.meet();
  } else {
    t.meet();
    wait_for(s, POLLIN | POLLRDHUP);
    t.note("the peer has ended", state());
    t.meet();
  }
}

CASE(options, in_too_little_room, kCold | kWarm) {
  Fd s = t.pair();
  unsigned char room[8] = {9, 9, 9, 9, 9, 9, 9, 9};
  socklen_t size = 2;
  t.note("get", getsockopt(s, SOL_SOCKET, SO_TYPE, room, &size));
  t.note("size", size);
  t.note("value", room[0]);
  t.note("untouched", room[2]);
  size = 100;
  t.note("get", getsockopt(s, SOL_SOCKET, SO_TYPE, room, &size));
  t.note("size", size);
  t.meet();
}

CASE(options, accepted_sockets_inherit, kOnce) {
  if (t.client()) {
    const Fd s = t.cold_pair();
    t.meet();
  } else {
    const Fd listener(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
    set_option(listener, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(listener, SOL_SOCKET, SO_OOBINLINE, 1);
    set_option(listener, IPPROTO_TCP, TCP_NODELAY, 1);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    socklen_t size = sizeof name;
    must(bind(listener, reinterpret_cast<sockaddr*>(&name), size), "bind");
    must(listen(listener, 1), "listen");
    must(getsockname(listener, reinterpret_cast<sockaddr*>(&name), &size), "getsockname");
    t.tell(std::to_string(ntohs(name.sin_port)));
    const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
    t.note("SO_KEEPALIVE", get_option(s, SOL_SOCKET, SO_KEEPALIVE));
    t.note("SO_OOBINLINE", get_option(s, SOL_SOCKET, SO_OOBINLINE));
    t.note("TCP_NODELAY", get_option(s, IPPROTO_TCP, TCP_NODELAY));
    t.meet();
  }
}

CASE(options, low_water_mark, kEach) {
  Fd s = t.pair();
  if (t.server()) set_option(s, SOL_SOCKET, SO_RCVLOWAT, 5);
  t.meet();
  if (t.client()) {
    send_all(s, "abc");
    t.meet();
    t.meet();
    send_all(s, "def");
  } else {
    t.meet();
    wait_for_bytes(s, 3);
    t.say(poll_bits(ready_now(s, POLLIN)));
    t.meet();
    t.say(poll_bits(wait_for(s, POLLIN)));
    t.data("came", read_exactly(s, 6));
  }
}

}  // namespace
}  // namespace semantics
