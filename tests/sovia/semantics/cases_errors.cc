// Calls that fail: with which error, and that the connection is none the worse for it.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <cerrno>

#include "calls.h"

namespace semantics {
namespace {

char* bad_pointer() {
  static void* const page = mmap(nullptr, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return static_cast<char*>(page);
}

// The connection still works.
void still_well(Case& t, int s) {
  if (t.client()) {
    send_all(s, "well?");
    t.data("answer", read_exactly(s, 3));
  } else {
    t.data("question", read_exactly(s, 5));
    send_all(s, "yes");
  }
}

CASE(errors, send_from_a_bad_pointer, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    t.note("send", send(s, bad_pointer(), 10, 0));
    t.note("write", write(s, bad_pointer(), 10));
    t.note("large", send(s, bad_pointer(), 60'000, 0));
    const iovec part{bad_pointer(), 10};
    t.note("writev", writev(s, &part, 1));
  }
  still_well(t, s);
}

CASE(errors, receive_to_a_bad_pointer, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "data");
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, 4);
    t.note("peek", recv(s, bad_pointer(), 4, MSG_PEEK));
    t.note("recv", recv(s, bad_pointer(), 4, 0));
    t.data("read", read_exactly(s, 4));
  }
  still_well(t, s);
}

CASE(errors, bad_vectors, kEach) {
  Fd s = t.pair();
  t.note("writev of a bad vector", writev(s, reinterpret_cast<iovec*>(bad_pointer()), 1));
  t.note("readv of a bad vector", readv(s, reinterpret_cast<iovec*>(bad_pointer()), 1));
  const volatile int minus_one = -1;  // so that the compiler does not see it
  t.note("writev -1", writev(s, nullptr, minus_one));
  t.note("readv -1", readv(s, nullptr, minus_one));
  t.note("sendmsg", sendmsg(s, reinterpret_cast<msghdr*>(bad_pointer()), 0));
  t.note("recvmsg", recvmsg(s, reinterpret_cast<msghdr*>(bad_pointer()), 0));
  t.meet();
  still_well(t, s);
}

#ifndef __SANITIZE_ADDRESS__  // which reads the arguments itself
CASE(errors, bad_address_pointers, kCold | kWarm) {
  Fd s = t.pair();
  socklen_t size = sizeof(sockaddr_in);
  auto* const bad = reinterpret_cast<sockaddr*>(bad_pointer());
  t.note("getsockname", getsockname(s, bad, &size));
  t.note("getpeername", getpeername(s, bad, &size));
  sockaddr_in name{};
  t.note("getsockname, bad size",
         getsockname(s, reinterpret_cast<sockaddr*>(&name), reinterpret_cast<socklen_t*>(bad)));
  int value = 1;
  t.note("setsockopt", setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, bad_pointer(), sizeof value));
  t.note("getsockopt",
         getsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &value, reinterpret_cast<socklen_t*>(bad)));
  t.meet();
}
#endif

CASE(errors, no_such_descriptor, kOnce) {
  char byte = 0;
  int value = 0;
  socklen_t size = sizeof value;
  sockaddr_storage name{};
  auto* const address = reinterpret_cast<sockaddr*>(&name);
  for (const int fd : {-1, 499}) {
    t.note("send", send(fd, &byte, 1, 0));
    t.note("recv", recv(fd, &byte, 1, 0));
    t.note("read", read(fd, &byte, 1));
    t.note("write", write(fd, &byte, 1));
    t.note("sendmsg", sendmsg(fd, nullptr, 0));
    t.note("recvmsg", recvmsg(fd, nullptr, 0));
    t.note("sendto", sendto(fd, &byte, 1, 0, nullptr, 0));
    t.note("recvfrom", recvfrom(fd, &byte, 1, 0, nullptr, nullptr));
    t.note("close", close(fd));
    t.note("shutdown", shutdown(fd, SHUT_RDWR));
    t.note("connect", connect(fd, address, sizeof(sockaddr_in)));
    t.note("bind", bind(fd, address, sizeof(sockaddr_in)));
    t.note("listen", listen(fd, 1));
    t.note("accept", accept(fd, nullptr, nullptr));
    t.note("getsockname", getsockname(fd, address, &size));
    t.note("getsockopt", getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &size));
    t.note("dup", dup(fd));
    t.note("fcntl", fcntl(fd, F_GETFL));
  }
}

CASE(errors, descriptor_closed_before, kEach) {
  Fd s = t.pair();
  t.meet();
  const int number = s;
  t.note("close", s.close());
  char byte = 0;
  t.note("close", close(number));
  t.note("send", send(number, &byte, 1, MSG_NOSIGNAL));
  t.note("recv", recv(number, &byte, 1, 0));
  pollfd at{number, POLLIN, 0};
  t.note("poll", poll(&at, 1, 0));
  t.say(poll_bits(at.revents));
}

CASE(errors, no_socket, kOnce) {
  int ends[2];
  must(pipe(ends), "pipe");
  const Fd in(ends[0]), out(ends[1]);
  char byte = 0;
  int value = 0;
  socklen_t size = sizeof value;
  t.note("send", send(out, &byte, 1, 0));
  t.note("recv", recv(in, &byte, 1, 0));
  t.note("shutdown", shutdown(in, SHUT_RD));
  t.note("listen", listen(in, 1));
  t.note("accept", accept(in, nullptr, nullptr));
  t.note("getsockopt", getsockopt(in, SOL_SOCKET, SO_TYPE, &value, &size));
}

CASE(errors, not_connected, kOnce) {
  const Fd s(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  char byte = 0;
  t.note("recv", recv(s, &byte, 1, 0));
  t.note("read", read(s, &byte, 1));
  t.note("peek", recv(s, &byte, 1, MSG_PEEK));
  t.note("shutdown", shutdown(s, SHUT_WR));
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  t.note("getpeername", getpeername(s, reinterpret_cast<sockaddr*>(&name), &size));
  t.note("send", send(s, &byte, 1, MSG_NOSIGNAL));
  const Counted pipes(SIGPIPE);
  t.note("write", write(s, &byte, 1));
  t.note("SIGPIPE", Counted::seen());
  t.note("accept", accept(s, nullptr, nullptr));
  t.say(poll_bits(ready_now(s, POLLIN | POLLOUT | POLLRDHUP)));
}

CASE(errors, io_on_a_listener, kOnce) {
  const Fd s(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  must(listen(s, 1), "listen");
  char byte = 0;
  t.note("recv", recv(s, &byte, 1, 0));
  t.note("send", send(s, &byte, 1, MSG_NOSIGNAL));
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  t.note("getpeername", getpeername(s, reinterpret_cast<sockaddr*>(&name), &size));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr = t.settings().server;
  to.sin_port = htons(9);
  t.note("connect", connect(s, reinterpret_cast<sockaddr*>(&to), sizeof to));
  t.note("listen again", listen(s, 5));
}

CASE(errors, connect_twice, kCold | kWarm) {
  Fd s = t.pair();
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  must(getpeername(s, reinterpret_cast<sockaddr*>(&name), &size), "getpeername");
  t.note("connect", connect(s, reinterpret_cast<sockaddr*>(&name), size));
  t.note("bind", bind(s, reinterpret_cast<sockaddr*>(&name), size));
  t.note("listen", listen(s, 1));
  t.note("accept", accept(s, nullptr, nullptr));
  t.meet();
  still_well(t, s);
}

CASE(errors, pipe_after_shutdown, kEach) {
  Fd s = t.pair();
  t.note("shutdown", shutdown(s, SHUT_WR));
  t.note("with MSG_NOSIGNAL", send(s, "x", 1, MSG_NOSIGNAL));
  {
    const Counted pipes(SIGPIPE);
    t.note("write", write(s, "x", 1));
    t.note("send", send(s, "x", 1, 0));
    const iovec part{const_cast<char*>("x"), 1};
    t.note("writev", writev(s, &part, 1));
    t.note("SIGPIPE", Counted::seen());
  }
  t.note("length 0", send(s, "x", 0, MSG_NOSIGNAL));
  t.meet();
}

CASE(errors, pipe_kills_who_does_not_handle_it, kEach | kAlone) {
  Fd s = t.pair();
  shutdown(s, SHUT_WR);
  t.say(wait_child(fork_child([&] { return static_cast<int>(write(s, "x", 1)); })));
  t.meet();
}

CASE(errors, bad_shutdown, kCold | kWarm) {
  Fd s = t.pair();
  t.note("shutdown 7", shutdown(s, 7));
  t.note("shutdown -1", shutdown(s, -1));
  still_well(t, s);
}

CASE(errors, bad_options, kCold | kWarm) {
  Fd s = t.pair();
  int value = 1;
  socklen_t size = sizeof value;
  t.note("unknown level", setsockopt(s, 4711, 1, &value, size));
  t.note("unknown option", setsockopt(s, SOL_SOCKET, 4711, &value, size));
  t.note("unknown TCP option", setsockopt(s, IPPROTO_TCP, 4711, &value, size));
  t.note("short", setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, &value, 1));
  t.note("get, unknown level", getsockopt(s, 4711, 1, &value, &size));
  t.note("get, unknown option", getsockopt(s, SOL_SOCKET, 4711, &value, &size));
  t.note("read-only", setsockopt(s, SOL_SOCKET, SO_TYPE, &value, sizeof value));
  still_well(t, s);
}

CASE(errors, bad_accept4_and_socket, kOnce) {
  const Fd s(must(socket(AF_INET, SOCK_STREAM, 0), "socket"));
  must(listen(s, 1), "listen");
  t.note("accept4", accept4(s, nullptr, nullptr, 0x40000001));
  t.note("family", socket(4711, SOCK_STREAM, 0));
  t.note("type", socket(AF_INET, 77, 0));
  t.note("protocol", socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
}

CASE(errors, seek_and_stat, kCold | kWarm) {
  Fd s = t.pair();
  char byte = 0;
  t.note("lseek", lseek(s, 0, SEEK_SET));
  t.note("pread", pread(s, &byte, 1, 0));
  t.note("pwrite", pwrite(s, &byte, 1, 0));
  t.note("ftruncate", ftruncate(s, 0));
  t.note("fsync", fsync(s));
  t.note("isatty", isatty(s) - 1);
  t.meet();
}

CASE(errors, splitting_a_read_at_a_page_that_is_not_there, kEach) {
  Fd s = t.pair();
  const long page = sysconf(_SC_PAGESIZE);
  if (t.client()) {
    send_all(s, std::string(3000, 'g'));
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, 3000);
    char* const two =
        static_cast<char*>(mmap(nullptr, static_cast<std::size_t>(2 * page), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(two + page, static_cast<std::size_t>(page));
    // The whole fits before the page that is missing.
    t.note("recv", recv(s, two + page - 3000, 3000, 0));
    t.data("came", {two + page - 3000, 3000});
    munmap(two, static_cast<std::size_t>(page));
  }
}

}  // namespace
}  // namespace semantics
