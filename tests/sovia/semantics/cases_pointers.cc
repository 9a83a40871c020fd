// Calls with pointers to memory that is not there: EFAULT or what else the kernel says, and the connection goes on.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/uio.h>

#include <cstring>
#include <string>

#include "calls.h"

#ifndef __SANITIZE_ADDRESS__  // which reads the arguments itself

namespace semantics {
namespace {

// Beyond the end of a program's memory, before its beginning, and between.
struct BadPointer {
  const char* name;
  void* memory;
};

std::vector<BadPointer> bad_pointers() {
  static void* const page = mmap(nullptr, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return {{"last byte", reinterpret_cast<void*>(-1l)},
          {"last bytes", reinterpret_cast<void*>(-16l)},
          {"first page", reinterpret_cast<void*>(8)},
          {"no access", page}};
}

struct Message {
  char text[8] = "1234567";
  iovec piece{text, 4};
  msghdr head{};
  Message() { head.msg_iov = &piece, head.msg_iovlen = 1; }
};

template <class Body>
void with_each(Case& t, Body&& body) {
  for (const BadPointer& bad : bad_pointers()) {
    t.say(bad.name);
    body(bad.memory);
  }
}

void goes_on(Case& t, int s) {
  t.meet();
  send_all(s, "well?");
  t.data("the peer's", read_exactly(s, 5));
}

CASE(pointers, bad_ones_of_sends, kEach) {
  Fd s = t.pair();
  with_each(t, [&](void* bad) {
    const auto head = [&](auto&& change) {
      Message m;
      change(m.head);
      return sendmsg(s, &m.head, MSG_NOSIGNAL);
    };
    t.note("send", send(s, bad, 4, 0));
    t.note("write", write(s, bad, 4));
    t.note("writev", writev(s, static_cast<iovec*>(bad), 1));
    t.note("pwritev2", pwritev2(s, static_cast<iovec*>(bad), 1, -1, 0));
    t.note("sendto, address", sendto(s, "1234", 4, 0, static_cast<sockaddr*>(bad), 16));
    t.note("sendmsg", sendmsg(s, static_cast<msghdr*>(bad), 0));
    t.note("sendmsg, pieces", head([&](msghdr& m) { m.msg_iov = static_cast<iovec*>(bad); }));
    t.note("sendmsg, piece", head([&](msghdr& m) { m.msg_iov->iov_base = bad; }));
    t.note("sendmsg, address", head([&](msghdr& m) { m.msg_name = bad, m.msg_namelen = 16; }));
    t.note("sendmsg, long address", head([&](msghdr& m) { m.msg_name = bad, m.msg_namelen = 1u << 20; }));
    t.note("sendmsg, negative address", head([&](msghdr& m) { m.msg_name = bad, m.msg_namelen = -1u; }));
    t.note("sendmmsg", sendmmsg(s, static_cast<mmsghdr*>(bad), 1, 0));
  });
  goes_on(t, s);
}

CASE(pointers, bad_control_of_sends, kEach) {
  Fd s = t.pair();
  with_each(t, [&](void* bad) {
    Message m;
    m.head.msg_control = bad, m.head.msg_controllen = 32;
    t.note("sendmsg", sendmsg(s, &m.head, 0));
  });
  goes_on(t, s);
}

CASE(pointers, bad_ones_of_receives, kEach) {
  Fd s = t.pair();
  send_all(s, std::string(200, '.'));
  wait_for_bytes(s, 200);
  t.meet();
  with_each(t, [&](void* bad) {
    const auto head = [&](auto&& change) {
      Message m;
      change(m.head);
      return recvmsg(s, &m.head, MSG_DONTWAIT | MSG_PEEK);
    };
    char to[4];
    char name[16];
    mmsghdr several{};
    Message m;
    several.msg_hdr = m.head;
    t.note("recv", recv(s, bad, 4, MSG_DONTWAIT));
    t.note("read", read(s, bad, 4));
    t.note("readv", readv(s, static_cast<iovec*>(bad), 1));
    t.note("preadv2", preadv2(s, static_cast<iovec*>(bad), 1, -1, RWF_NOWAIT));
    t.note("recvfrom, length", recvfrom(s, to, 4, MSG_DONTWAIT | MSG_PEEK, reinterpret_cast<sockaddr*>(name),
                                        static_cast<socklen_t*>(bad)));
    t.note("recvmsg", recvmsg(s, static_cast<msghdr*>(bad), MSG_DONTWAIT));
    t.note("recvmsg, pieces", head([&](msghdr& h) { h.msg_iov = static_cast<iovec*>(bad); }));
    t.note("recvmsg, piece", head([&](msghdr& h) { h.msg_iov->iov_base = bad; }));
    t.note("recvmsg, address", head([&](msghdr& h) { h.msg_name = bad, h.msg_namelen = 16; }));
    t.note("recvmsg, control", head([&](msghdr& h) { h.msg_control = bad, h.msg_controllen = 64; }));
    t.note("recvmmsg", recvmmsg(s, static_cast<mmsghdr*>(bad), 1, MSG_DONTWAIT, nullptr));
    t.note("recvmmsg, time", recvmmsg(s, &several, 1, MSG_DONTWAIT | MSG_PEEK, static_cast<timespec*>(bad)));
  });
  t.data("unread", read_exactly(s, 200));
  goes_on(t, s);
}

CASE(pointers, bad_ones_of_waits, kEach) {
  Fd s = t.pair();
  Fd set(epoll_create1(EPOLL_CLOEXEC));
  epoll_event wanted{EPOLLOUT, {}};
  t.note("epoll_ctl", epoll_ctl(set, EPOLL_CTL_ADD, s, &wanted));
  with_each(t, [&](void* bad) {
    timespec moment{0, 1'000'000};
    timeval short_time{0, 1'000};
    pollfd one{s, POLLIN, 0};
    auto* const bits = static_cast<fd_set*>(bad);
    t.note("poll", poll(static_cast<pollfd*>(bad), 1, 1));
    t.note("ppoll", ppoll(static_cast<pollfd*>(bad), 1, &moment, nullptr));
    t.note("ppoll, mask", ppoll(&one, 1, &moment, static_cast<sigset_t*>(bad)));
    t.note("select, read", select(s + 1, bits, nullptr, nullptr, &short_time));
    t.note("select, write", select(s + 1, nullptr, bits, nullptr, &short_time));
    t.note("select, except", select(s + 1, nullptr, nullptr, bits, &short_time));
    t.note("pselect", pselect(s + 1, bits, nullptr, nullptr, &moment, nullptr));
    t.note("epoll_wait", epoll_wait(set, static_cast<epoll_event*>(bad), 1, 100));
    t.note("epoll_ctl", epoll_ctl(set, EPOLL_CTL_MOD, s, static_cast<epoll_event*>(bad)));
  });
  goes_on(t, s);
}

CASE(pointers, bad_ones_of_other_calls, kCold | kWarm) {
  Fd s = t.pair();
  with_each(t, [&](void* bad) {
    int value = 0;
    socklen_t length = sizeof value;
    auto* const address = static_cast<sockaddr*>(bad);
    t.note("setsockopt", setsockopt(s, SOL_SOCKET, SO_RCVBUF, bad, 4));
    t.note("setsockopt, TCP_NODELAY", setsockopt(s, IPPROTO_TCP, TCP_NODELAY, bad, 4));
    t.note("setsockopt, SO_RCVLOWAT", setsockopt(s, SOL_SOCKET, SO_RCVLOWAT, bad, 4));
    t.note("setsockopt, time", setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, bad, 16));
    t.note("getsockopt", getsockopt(s, SOL_SOCKET, SO_ERROR, bad, &length));
    t.note("getsockopt, length", getsockopt(s, SOL_SOCKET, SO_ERROR, &value, static_cast<socklen_t*>(bad)));
    t.note("ioctl, FIONREAD", ioctl(s, FIONREAD, bad));
    t.note("ioctl, FIONBIO", ioctl(s, FIONBIO, bad));
    t.note("ioctl, FIOASYNC", ioctl(s, FIOASYNC, bad));
    t.note("ioctl, SIOCATMARK", ioctl(s, SIOCATMARK, bad));
    t.note("connect", connect(s, address, 16));
    length = 16;
    t.note("getpeername", getpeername(s, address, &length));
    t.note("accept", accept(s, address, &length));
  });
  goes_on(t, s);
}

}  // namespace
}  // namespace semantics

#endif
