// The same over IPv6, and IPv4 addresses in IPv6's clothes.
#include <arpa/inet.h>
#include <sys/epoll.h>

#include <cstring>

#include "calls.h"

namespace semantics {
namespace {

constexpr PairOptions kSix{.family = AF_INET6};

bool there_is_none(const Case& t) {
  if (!IN6_IS_ADDR_UNSPECIFIED(&t.settings().server6)) return false;
  t.say("skipped: the hosts have no IPv6");
  return true;
}

void note_names(Case& t, int s) {
  sockaddr_storage name{};
  for (const auto call : {getsockname, getpeername}) {
    socklen_t size = sizeof name;
    must(call(s, reinterpret_cast<sockaddr*>(&name), &size), "a name");
    t.say(t.name_of(reinterpret_cast<sockaddr*>(&name), size));
  }
}

CASE(ipv6, send_and_recv, kEach) {
  if (there_is_none(t)) return;
  Fd s = t.pair(kSix);
  send_all(s, "over six");
  t.data("came", read_exactly(s, 8));
}

CASE(ipv6, names, kEach) {
  if (there_is_none(t)) return;
  Fd s = t.pair(kSix);
  note_names(t, s);
  t.note("SO_DOMAIN", get_option(s, SOL_SOCKET, SO_DOMAIN) == AF_INET6 ? 6 : 0);
  t.note("IPV6_V6ONLY", get_option(s, IPPROTO_IPV6, IPV6_V6ONLY));
  t.meet();
}

CASE(ipv6, stream, kEach) {
  if (there_is_none(t)) return;
  Fd s = t.pair(kSix);
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 3'000'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 50'000);
  } else {
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 9973)));
  }
}

CASE(ipv6, half_close, kEach) {
  if (there_is_none(t)) return;
  Fd s = t.pair(kSix);
  send_all(s, "said");
  shutdown(s, SHUT_WR);
  std::string how;
  t.data("came", read_to_end(s, &how));
  t.say(how);
}

CASE(ipv6, reset, kEach) {
  if (there_is_none(t)) return;
  Fd s = t.pair(kSix);
  if (t.client()) {
    const linger none{1, 0};
    setsockopt(s, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    s.close();
    t.meet();
  } else {
    t.meet();
    t.say(poll_bits(wait_for(s, POLLIN | POLLOUT, POLLHUP)));
    char to;
    t.note("recv", recv(s, &to, 1, 0));
  }
}

CASE(ipv6, poll_and_epoll, kEach) {
  if (there_is_none(t)) return;
  Fd s = t.pair(kSix);
  t.say(poll_bits(ready_now(s, POLLIN | POLLOUT)));
  t.meet();
  send_all(s, "x");
  t.say(poll_bits(wait_for(s, POLLIN | POLLOUT)));
  const Fd set(must(epoll_create1(0), "epoll_create1"));
  epoll_event event{EPOLLIN, {}};
  must(epoll_ctl(set, EPOLL_CTL_ADD, s, &event), "epoll_ctl");
  t.note("epoll_wait", epoll_wait(set, &event, 1, kSoon));
  t.say(epoll_bits(event.events));
  t.meet();
}

CASE(ipv6, urgent, kEach) {
  if (there_is_none(t)) return;
  Fd s = t.pair(kSix);
  if (t.client()) {
    send_all(s, "text");
    must(send(s, "!", 1, MSG_OOB), "send");
    t.meet();
  } else {
    t.say(poll_bits(wait_for(s, POLLIN | POLLPRI)));
    char byte;
    t.note("recv", recv(s, &byte, 1, MSG_OOB));
    t.data("urgent", {&byte, 1});
    t.data("came", read_exactly(s, 4));
    t.meet();
  }
}

CASE(ipv6, fork, kEach | kAlone) {
  if (there_is_none(t)) return;
  Fd s = t.pair(kSix);
  t.say(wait_child(fork_child([&] {
    send_all(s, "child");
    return 0;
  })));
  send_all(s, "parent");
  t.data("came", read_exactly(s, 11));
}

CASE(ipv6, refused, kOnce) {
  if (there_is_none(t)) return;
  if (t.server()) {
    t.listen(kSix).close();
    t.meet();
  } else {
    const sockaddr_storage to = t.hear_address(AF_INET6);
    t.meet();
    const Fd s(must(socket(AF_INET6, SOCK_STREAM, 0), "socket"));
    t.note("connect", connect(s, reinterpret_cast<const sockaddr*>(&to), size_of(to)));
  }
}

CASE(ipv6, without_blocking, kOnce) {
  if (there_is_none(t)) return;
  if (t.server()) {
    const Fd listener = t.listen(kSix);
    const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
    t.data("came", read_exactly(s, 5));
  } else {
    const sockaddr_storage to = t.hear_address(AF_INET6);
    const Fd s(must(socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket"));
    t.note("connect", connect(s, reinterpret_cast<const sockaddr*>(&to), size_of(to)));
    t.say(poll_bits(wait_for(s, POLLOUT)));
    t.note("SO_ERROR", get_option(s, SOL_SOCKET, SO_ERROR));
    send_all(s, "hello");
  }
}

// An IPv6 socket and an IPv4 one, or both IPv6 with a mapped address.
void mapped(Case& t, bool client_too) {
  Fd s;
  if (t.server()) {
    const Fd listener = t.listen(kSix);
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    s = Fd(must(accept(listener, reinterpret_cast<sockaddr*>(&from), &size), "accept"));
    t.say(t.name_of(reinterpret_cast<sockaddr*>(&from), size));
  } else {
    sockaddr_storage to = t.hear_address(AF_INET);
    if (client_too) {
      const auto four = *reinterpret_cast<const sockaddr_in*>(&to);
      sockaddr_in6 six{};
      six.sin6_family = AF_INET6;
      six.sin6_port = four.sin_port;
      six.sin6_addr.s6_addr[10] = six.sin6_addr.s6_addr[11] = 0xff;
      std::memcpy(&six.sin6_addr.s6_addr[12], &four.sin_addr, 4);
      std::memcpy(&to, &six, sizeof six);
    }
    s = Fd(must(socket(to.ss_family, SOCK_STREAM, 0), "socket"));
    t.note("connect", connect(s, reinterpret_cast<const sockaddr*>(&to), size_of(to)));
  }
  t.warm_as_asked(s);
  note_names(t, s);
  send_all(s, "mapped");
  t.data("came", read_exactly(s, 6));
}

CASE(ipv6, listener_takes_ipv4, kEach) { mapped(t, false); }
CASE(ipv6, both_ends_mapped, kEach) { mapped(t, true); }

CASE(ipv6, v6only_refuses_ipv4, kOnce) {
  if (t.server()) {
    const Fd listener(must(socket(AF_INET6, SOCK_STREAM, 0), "socket"));
    set_option(listener, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    socklen_t size = sizeof any;
    must(bind(listener, reinterpret_cast<sockaddr*>(&any), size), "bind");
    must(listen(listener, 1), "listen");
    must(getsockname(listener, reinterpret_cast<sockaddr*>(&any), &size), "getsockname");
    t.tell(std::to_string(ntohs(any.sin6_port)));
    t.meet();
  } else {
    const sockaddr_storage to = t.hear_address();
    const Fd s(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
    t.note("connect", connect(s, reinterpret_cast<const sockaddr*>(&to), size_of(to)));
    t.meet();
  }
}

}  // namespace
}  // namespace semantics
