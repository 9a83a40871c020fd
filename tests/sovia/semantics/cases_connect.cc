// connect, bind, listen, accept: their results, blocking and not, over IPv4 and IPv6.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/epoll.h>

#include <cerrno>
#include <thread>

#include "calls.h"

namespace semantics {
namespace {

Fd new_socket(int family = AF_INET, int flags = 0) {
  return Fd(must(socket(family, SOCK_STREAM | flags, 0), "socket"));
}

int connect_to(int s, const sockaddr_storage& to) {
  return connect(s, reinterpret_cast<const sockaddr*>(&to), size_of(to));
}

sockaddr_storage server_at(const Case& t, std::uint16_t port) {
  sockaddr_storage address{};
  auto* const four = reinterpret_cast<sockaddr_in*>(&address);
  four->sin_family = AF_INET;
  four->sin_addr = t.settings().server;
  four->sin_port = htons(port);
  return address;
}

int bind_any(int s, std::uint16_t port) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  return bind(s, reinterpret_cast<sockaddr*>(&any), sizeof any);
}

std::uint16_t port_of(int s) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  must(getsockname(s, reinterpret_cast<sockaddr*>(&name), &size), "getsockname");
  return ntohs(reinterpret_cast<sockaddr_in*>(&name)->sin_port);
}

// A port of the server without a listener.
sockaddr_storage closed_port(Case& t) {
  if (t.server()) {
    t.listen().close();
    t.meet();
    return {};
  }
  const sockaddr_storage address = t.hear_address();
  t.meet();
  return address;
}

CASE(connect, refused, kOnce) {
  const sockaddr_storage to = closed_port(t);
  if (t.server()) return;
  const Fd s = new_socket();
  t.note("connect", connect_to(s, to));
  t.note("SO_ERROR", get_option(s, SOL_SOCKET, SO_ERROR));
  char byte = 0;
  t.note("send", send(s, &byte, 1, MSG_NOSIGNAL));
  t.note("recv", recv(s, &byte, 1, 0));
  t.note("connect again", connect_to(s, to));
}

CASE(connect, refused_without_blocking, kOnce) {
  const sockaddr_storage to = closed_port(t);
  if (t.server()) return;
  const Fd s = new_socket(AF_INET, SOCK_NONBLOCK);
  t.note("connect", connect_to(s, to));
  t.say(poll_bits(wait_for(s, POLLIN | POLLOUT, POLLERR)));
  t.note("SO_ERROR", get_option(s, SOL_SOCKET, SO_ERROR));
  t.note("SO_ERROR", get_option(s, SOL_SOCKET, SO_ERROR));
}

CASE(connect, refused_then_accepted, kOnce) {
  if (t.server()) {
    const Fd listener = new_socket();
    must(bind_any(listener, 0), "bind");
    t.tell(std::to_string(port_of(listener)));
    t.meet();
    must(listen(listener, 1), "listen");
    t.meet();
    const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
    t.data("came", read_exactly(s, 5));
  } else {
    const sockaddr_storage to = t.hear_address();
    const Fd s = new_socket();
    t.note("connect", connect_to(s, to));
    t.meet();
    t.meet();
    t.note("connect", connect_to(s, to));
    send_all(s, "hello");
  }
}

CASE(connect, without_blocking, kOnce) {
  if (t.server()) {
    const Fd listener = t.listen();
    const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
    t.data("came", read_exactly(s, 5));
    send_all(s, "world");
  } else {
    const sockaddr_storage to = t.hear_address();
    const Fd s = new_socket(AF_INET, SOCK_NONBLOCK);
    t.note("connect", connect_to(s, to));
    t.say(poll_bits(wait_for(s, POLLIN | POLLOUT, POLLOUT)));
    t.note("SO_ERROR", get_option(s, SOL_SOCKET, SO_ERROR));
    t.note("connect", connect_to(s, to));
    t.note("connect", connect_to(s, to));
    send_all(s, "hello");
    set_nonblocking(s, false);
    t.data("came", read_exactly(s, 5));
  }
}

CASE(connect, without_blocking_by_epoll, kOnce) {
  if (t.server()) {
    const Fd listener = t.listen();
    const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
    t.data("came", read_exactly(s, 5));
    t.meet();
  } else {
    const sockaddr_storage to = t.hear_address();
    const Fd s = new_socket(AF_INET, SOCK_NONBLOCK);
    t.note("connect", connect_to(s, to));
    const Fd set(must(epoll_create1(0), "epoll_create1"));
    epoll_event event{EPOLLIN | EPOLLOUT | EPOLLET, {}};
    must(epoll_ctl(set, EPOLL_CTL_ADD, s, &event), "epoll_ctl");
    t.note("epoll_wait", epoll_wait(set, &event, 1, kSoon));
    t.say(epoll_bits(event.events));
    send_all(s, "hello");
    t.meet();
  }
}

CASE(connect, to_nobody_is_in_progress, kOnce) {
  if (t.server()) return;
  // An address of the link that no host has.
  sockaddr_storage to = server_at(t, 7);
  reinterpret_cast<sockaddr_in*>(&to)->sin_addr.s_addr |= htonl(0x80);
  const Fd s = new_socket(AF_INET, SOCK_NONBLOCK);
  t.note("connect", connect_to(s, to));
  t.note("connect", connect_to(s, to));
  t.say(poll_bits(ready_now(s, POLLIN | POLLOUT)));
  char byte = 0;
  t.note("send", send(s, &byte, 1, MSG_NOSIGNAL));
  t.note("recv", recv(s, &byte, 1, 0));
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  t.note("getpeername", getpeername(s, reinterpret_cast<sockaddr*>(&name), &size));
}

CASE(connect, with_a_time_limit, kOnce) {
  if (t.server()) return;
  sockaddr_storage to = server_at(t, 7);
  reinterpret_cast<sockaddr_in*>(&to)->sin_addr.s_addr |= htonl(0x80);
  const Fd s = new_socket();
  set_time_limit(s, SO_SNDTIMEO, 100);
  const Clock clock;
  t.note("connect", connect_to(s, to));
  t.say(clock.at_least(100) ? "in time" : "too early");
}

CASE(connect, interrupted, kAlone) {
  if (t.server()) return;
  sockaddr_storage to = server_at(t, 7);
  reinterpret_cast<sockaddr_in*>(&to)->sin_addr.s_addr |= htonl(0x80);
  const Fd s = new_socket();
  const Interrupts alarms(false);
  t.note("connect", connect_to(s, to));
  set_nonblocking(s);
  t.note("connect", connect_to(s, to));
}

CASE(connect, bad_addresses, kOnce) {
  const Fd s = new_socket();
  sockaddr_storage to = server_at(t, 9);
  const auto* const address = reinterpret_cast<const sockaddr*>(&to);
  t.note("short", connect(s, address, 4));
  t.note("bad pointer", connect(s, reinterpret_cast<const sockaddr*>(8), sizeof(sockaddr_in)));
  to.ss_family = AF_UNIX;
  t.note("family", connect(s, address, sizeof(sockaddr_in)));
  to = server_at(t, 9);
  reinterpret_cast<sockaddr_in*>(&to)->sin_addr.s_addr = htonl(INADDR_BROADCAST);
  t.note("broadcast", connect(s, address, sizeof(sockaddr_in)));
  reinterpret_cast<sockaddr_in*>(&to)->sin_addr.s_addr = htonl(0xc6336401);  // no route
  t.note("unreachable", connect(s, address, sizeof(sockaddr_in)));
}

CASE(connect, to_the_own_host, kOnce) {
  const Fd listener = new_socket();
  must(bind_any(listener, 0), "bind");
  must(listen(listener, 1), "listen");
  sockaddr_storage to = server_at(t, port_of(listener));
  for (const in_addr address :
       {in_addr{htonl(INADDR_LOOPBACK)}, t.client() ? t.settings().client : t.settings().server}) {
    reinterpret_cast<sockaddr_in*>(&to)->sin_addr = address;
    const Fd a = new_socket();
    t.note("connect", connect_to(a, to));
    const Fd b(must(accept(listener, nullptr, nullptr), "accept"));
    for (int i = 0; i < 50; ++i) {
      send_all(a, "there");
      if (read_exactly(b, 5) != "there") t.say("wrong");
      send_all(b, "back");
      if (read_exactly(a, 4) != "back") t.say("wrong");
    }
  }
}

CASE(connect, from_a_bound_port, kOnce) {
  if (t.server()) {
    const Fd listener = t.listen();
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const Fd s(must(accept(listener, reinterpret_cast<sockaddr*>(&from), &size), "accept"));
    t.say(t.name_of(reinterpret_cast<sockaddr*>(&from), size));
    t.tell(std::to_string(ntohs(reinterpret_cast<sockaddr_in*>(&from)->sin_port)));
  } else {
    const sockaddr_storage to = t.hear_address();
    const Fd s = new_socket();
    must(bind_any(s, 0), "bind");
    const std::uint16_t port = port_of(s);
    t.note("connect", connect_to(s, to));
    t.say(t.hear() == std::to_string(port) ? "the bound port" : "another port");
  }
}

CASE(connect, dissolved_by_af_unspec, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    sockaddr_storage nobody{};
    nobody.ss_family = AF_UNSPEC;
    t.note("connect", connect(s, reinterpret_cast<sockaddr*>(&nobody), sizeof(sockaddr_in)));
    char to;
    t.note("recv", recv(s, &to, 1, MSG_DONTWAIT));
    t.meet();
  } else {
    t.meet();
    std::string how;
    t.data("came", read_to_end(s, &how));
    t.say(how);
  }
}

CASE(connect, by_name, kOnce) {
  if (t.server()) {
    const Fd listener = t.listen();
    const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
    t.data("came", read_exactly(s, 5));
    return;
  }
  const std::uint16_t port = port_of(Fd(new_socket()));  // 0; the real one follows
  const sockaddr_storage to = t.hear_address();
  char host[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, &t.settings().server, host, sizeof host);
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  t.note("getaddrinfo", getaddrinfo(host, std::to_string(port).c_str(), &hints, &found));
  reinterpret_cast<sockaddr_in*>(found->ai_addr)->sin_port =
      reinterpret_cast<const sockaddr_in*>(&to)->sin_port;
  const Fd s(must(socket(found->ai_family, found->ai_socktype, found->ai_protocol), "socket"));
  t.note("connect", connect(s, found->ai_addr, found->ai_addrlen));
  freeaddrinfo(found);
  send_all(s, "hello");
}

CASE(connect, two_hundred_at_once, kAlone) {
  constexpr std::size_t kMany = 200;
  const std::vector<Fd> all = [&] {
    std::vector<Fd> made;
    if (t.server()) {
      const Fd listener = t.listen({}, kMany);
      for (std::size_t i = 0; i < kMany; ++i) {
        made.emplace_back(must(accept(listener, nullptr, nullptr), "accept"));
      }
    } else {
      const sockaddr_storage to = t.hear_address();
      for (std::size_t i = 0; i < kMany; ++i) {
        made.push_back(new_socket());
        must(connect_to(made.back(), to), "connect");
      }
    }
    return made;
  }();
  long good = 0;
  for (int round = 0; round < 8; ++round) {
    for (std::size_t i = 0; i < kMany; ++i) {
      const std::string text = std::to_string(10'000 + i);
      if (t.client()) {
        send_all(all[i], text);
        good += read_exactly(all[i], 5) == text;
      } else {
        const std::string came = read_exactly(all[i], 5);
        good += came == text;
        send_all(all[i], came);
      }
    }
  }
  t.note("good", good);
}

CASE(connect, and_close_many_times, kAlone) {
  constexpr int kTimes = 100;
  int good = 0;
  if (t.server()) {
    const Fd listener = t.listen();
    for (int i = 0; i < kTimes; ++i) {
      const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
      for (int n = 0; n < 8; ++n) send_all(s, read_exactly(s, 4));
      good += read_exactly(s, 1).empty();
    }
  } else {
    const sockaddr_storage to = t.hear_address();
    for (int i = 0; i < kTimes; ++i) {
      const Fd s = new_socket();
      must(connect_to(s, to), "connect");
      for (int n = 0; n < 8; ++n) {
        send_all(s, "ping");
        good += read_exactly(s, 4) == "ping";
      }
    }
  }
  t.note("good", good);
}

// ---------------------------------------------------------------- bind, listen, accept

CASE(listen, address_in_use, kOnce) {
  const Fd first = new_socket(), second = new_socket();
  must(bind_any(first, 0), "bind");
  must(listen(first, 1), "listen");
  const std::uint16_t port = port_of(first);
  t.note("bind", bind_any(second, port));
  set_option(second, SOL_SOCKET, SO_REUSEADDR, 1);
  t.note("bind with SO_REUSEADDR", bind_any(second, port));
  t.note("bind twice", bind_any(first, 0));
}

CASE(listen, shared_port, kOnce) {
  const Fd first = new_socket(), second = new_socket();
  set_option(first, SOL_SOCKET, SO_REUSEPORT, 1);
  set_option(second, SOL_SOCKET, SO_REUSEPORT, 1);
  must(bind_any(first, 0), "bind");
  t.note("bind", bind_any(second, port_of(first)));
  t.note("listen", listen(first, 1));
  t.note("listen", listen(second, 1));
}

CASE(listen, bad_binds, kOnce) {
  const Fd s = new_socket();
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(0xc6336401);  // not ours
  t.note("address", bind(s, reinterpret_cast<sockaddr*>(&name), sizeof name));
  t.note("short", bind(s, reinterpret_cast<sockaddr*>(&name), 3));
  name.sin_family = AF_UNIX;
  t.note("family", bind(s, reinterpret_cast<sockaddr*>(&name), sizeof name));
  t.note("pointer", bind(s, reinterpret_cast<sockaddr*>(8), sizeof name));
}

CASE(listen, again_after_close, kOnce) {
  if (t.client()) {
    for (int i = 0; i < 3; ++i) {
      const sockaddr_storage to = t.hear_address();
      const Fd s = new_socket();
      t.note("connect", connect_to(s, to));
      t.data("came", read_exactly(s, 1));
    }
    return;
  }
  std::uint16_t port = 0;
  for (int i = 0; i < 3; ++i) {
    const Fd listener = new_socket();
    set_option(listener, SOL_SOCKET, SO_REUSEADDR, 1);
    t.note("bind", bind_any(listener, port));
    must(listen(listener, 1), "listen");
    port = port_of(listener);
    t.tell(std::to_string(port));
    const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
    send_all(s, std::to_string(i));
  }
}

CASE(listen, accept_tells_who_it_is, kOnce) {
  if (t.server()) {
    const Fd listener = t.listen();
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const Fd first(must(accept(listener, reinterpret_cast<sockaddr*>(&from), &size), "accept"));
    t.say(t.name_of(reinterpret_cast<sockaddr*>(&from), size));
    size = 4;
    const Fd second(
        must(accept4(listener, reinterpret_cast<sockaddr*>(&from), &size, 0), "accept4"));
    t.note("size", size);
  } else {
    const sockaddr_storage to = t.hear_address();
    const Fd first = new_socket(), second = new_socket();
    must(connect_to(first, to), "connect");
    must(connect_to(second, to), "connect");
    t.meet();
    return;
  }
  t.meet();
}

CASE(listen, accepts_in_order, kOnce) {
  constexpr std::size_t kMany = 10;
  if (t.server()) {
    const Fd listener = t.listen();
    t.meet();  // all are in the backlog
    for (std::size_t i = 0; i < kMany; ++i) {
      const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
      t.data("came", read_exactly(s, 1));
    }
  } else {
    const sockaddr_storage to = t.hear_address();
    std::vector<Fd> all;
    for (std::size_t i = 0; i < kMany; ++i) {
      all.push_back(new_socket());
      must(connect_to(all.back(), to), "connect");
      send_all(all.back(), std::to_string(i));
    }
    t.meet();
  }
}

CASE(listen, bytes_before_accept, kOnce) {
  const Pattern pattern(t.settings().seed);
  if (t.server()) {
    const Fd listener = t.listen();
    t.meet();
    const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, 20'000, 999)));
    std::string how;
    t.data("rest", read_to_end(s, &how));
    t.say(how);
  } else {
    const sockaddr_storage to = t.hear_address();
    Fd s = new_socket();
    must(connect_to(s, to), "connect");
    send_pattern(s, pattern, 0, 20'000, 1500);
    s.close();  // before the server has accepted
    t.meet();
  }
}

CASE(listen, without_blocking, kOnce) {
  if (t.server()) {
    const Fd listener = t.listen();
    set_nonblocking(listener);
    t.note("accept", accept(listener, nullptr, nullptr));
    t.say(poll_bits(ready_now(listener, POLLIN)));
    t.meet();
    t.say(poll_bits(wait_for(listener, POLLIN)));
    const Fd s(accept(listener, nullptr, nullptr));
    t.say(s >= 0 ? "accepted" : "not accepted");
    t.note("accept", accept(listener, nullptr, nullptr));
    t.say(poll_bits(ready_now(listener, POLLIN)));
    t.meet();
  } else {
    const sockaddr_storage to = t.hear_address();
    t.meet();
    const Fd s = new_socket();
    must(connect_to(s, to), "connect");
    t.meet();
  }
}

CASE(listen, closed_with_connections_waiting, kOnce) {
  if (t.server()) {
    Fd listener = t.listen();
    t.meet();
    listener.close();
    t.meet();
  } else {
    const sockaddr_storage to = t.hear_address();
    const Fd s = new_socket();
    must(connect_to(s, to), "connect");
    t.meet();
    t.meet();
    char byte;
    t.note("recv", recv(s, &byte, 1, 0));
    const Fd another = new_socket();
    t.note("connect", connect_to(another, to));
  }
}

CASE(listen, shutdown_wakes_accept, kAlone) {
  const Fd listener = new_socket();
  must(listen(listener, 1), "listen");
  long result = 0;
  int error = 0;
  std::thread acceptor([&] {
    result = accept(listener, nullptr, nullptr);
    error = errno;
  });
  pause_ms(kInCall);
  t.note("shutdown", shutdown(listener, SHUT_RD));
  acceptor.join();
  errno = error;
  t.note("accept", result);
}

CASE(listen, flags_of_accept4, kOnce) {
  if (t.server()) {
    const Fd listener = t.listen();
    for (const int flags :
         std::initializer_list<int>{0, SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC}) {
      const Fd s(must(accept4(listener, nullptr, nullptr, flags), "accept4"));
      t.say((fcntl(s, F_GETFL) & O_NONBLOCK) != 0 ? "non-blocking" : "blocking");
      t.note("FD_CLOEXEC", fcntl(s, F_GETFD));
    }
    t.meet();
  } else {
    const sockaddr_storage to = t.hear_address();
    std::vector<Fd> all;
    for (int i = 0; i < 4; ++i) {
      all.push_back(new_socket());
      must(connect_to(all.back(), to), "connect");
    }
    t.meet();
  }
}

}  // namespace
}  // namespace semantics
