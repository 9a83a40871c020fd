// Calls of sockets that are made in other ways than usual, over a connection that may have a lane.
//
//   calls_tool serve PORT            echoes whatever it gets, a thread for each connection
//   calls_tool HOW HOST PORT         makes the calls of one way; exit status 0: all went as with TCP
//
// It is linked with the C library alone.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/errqueue.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kExchanges = 1000;
constexpr std::size_t kBytes = 16;

sockaddr_in g_peer{};

const sockaddr* peer() { return reinterpret_cast<const sockaddr*>(&g_peer); }

void set(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

// Waits are for the peer, which always answers: a call that finds nothing for so long has lost something.
void limit_waits(int fd) {
  const timeval limit{20, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

int connect_to_peer() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, peer(), sizeof g_peer) != 0) {
    std::perror("connect");
    std::exit(2);
  }
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  limit_waits(fd);
  return fd;
}

bool exchange(int fd, int number) {
  char out[kBytes + 1], in[kBytes];
  std::snprintf(out, sizeof out, "%016d", number);
  return send(fd, out, kBytes, MSG_NOSIGNAL) == kBytes && recv(fd, in, kBytes, MSG_WAITALL) == kBytes &&
         std::memcmp(in, out, kBytes) == 0;
}

int exchanges(int fd, int count = kExchanges) {
  for (int i = 0; i < count; ++i) {
    if (!exchange(fd, i)) return i;
  }
  return count;
}

std::uint64_t kernel_bytes(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);
  return info.tcpi_bytes_sent;
}

bool goes_past_kernel(int fd) {
  const std::uint64_t before = kernel_bytes(fd);
  return exchange(fd, 0) && kernel_bytes(fd) == before;
}

// Exchanges until there is a lane; SOVIA is asked for one (CALLS_LANE), TCP has none.
void warm(int fd) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const bool wanted = std::getenv("CALLS_LANE") != nullptr;
  do {
    if (exchanges(fd, 20) != 20) std::exit(2);
    if (!wanted || goes_past_kernel(fd)) return;
    usleep(10'000);
  } while (std::chrono::steady_clock::now() < end);
  std::printf("there is no lane\n");
  std::exit(2);
}

int warm_connection() {
  const int fd = connect_to_peer();
  warm(fd);
  return fd;
}

bool is(const char* what, long got, long expected) {
  if (got != expected) std::printf("%s: %ld, expected %ld (%s)\n", what, got, expected, std::strerror(errno));
  return got == expected;
}

// ------------------------------------------------------------------ memory that is locked

// A program whose memory is locked as soon as it has it can have as much of it with a connection as without.
bool locked() {
  constexpr rlim_t kMost = 8 << 20;
  constexpr std::size_t kPiece = 1 << 20;
  constexpr int kPieces = 6;
  const rlimit limit{kMost, kMost};
  setrlimit(RLIMIT_MEMLOCK, &limit);
  if (setgid(65534) != 0 || setuid(65534) != 0 || mlockall(MCL_FUTURE) != 0) return is("mlockall", -1, 0);
  const int fd = connect_to_peer();
  bool good = is("exchanges", exchanges(fd), kExchanges);
  int pieces = 0;
  while (pieces < kPieces && std::malloc(kPiece) != nullptr) ++pieces;
  return is("pieces of 1 MB", pieces, kPieces) && good;
}

// ------------------------------------------------------------------ sends that connect

bool opens_fast(const char* what, int fd, ssize_t sent) {
  pollfd ready{fd, POLLOUT, 0};
  char in[kBytes];
  bool good = is(what, sent, kBytes) && is("connected", poll(&ready, 1, 20'000), 1);
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  limit_waits(fd);
  good = good && is("its first answer", recv(fd, in, kBytes, MSG_WAITALL), kBytes);
  if (good) warm(fd);
  close(fd);
  return good;
}

bool fast_open() {
  bool good = true;
  char text[] = "0123456789abcdef";
  const auto made = [](int flags = 0) { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0); };
  for (int i = 0; i < 2; ++i) {  // without a cookie, and with the one of the first
    int fd = made();
    good &= opens_fast("sendto", fd, sendto(fd, text, kBytes, MSG_FASTOPEN, peer(), sizeof g_peer));
    fd = made();
    iovec piece{text, kBytes};
    msghdr message{};
    message.msg_name = &g_peer, message.msg_namelen = sizeof g_peer, message.msg_iov = &piece, message.msg_iovlen = 1;
    good &= opens_fast("sendmsg", fd, sendmsg(fd, &message, MSG_FASTOPEN));
    fd = made();
    set(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
    good &= is("connect", connect(fd, peer(), sizeof g_peer), 0) && opens_fast("write", fd, write(fd, text, kBytes));
  }
  const int fd = made(SOCK_NONBLOCK);
  const ssize_t sent = sendto(fd, text, kBytes, MSG_FASTOPEN, peer(), sizeof g_peer);
  fcntl(fd, F_SETFL, 0);
  return opens_fast("sendto without waiting", fd, sent) && good;
}

// ------------------------------------------------------------------ completions of sends without a copy

// Completions that the socket has told so far: one for each send, in their order.
bool take_completions(int fd, std::uint32_t& next) {
  for (;;) {
    char control[200];
    msghdr message{};
    message.msg_control = control, message.msg_controllen = sizeof control;
    if (recvmsg(fd, &message, MSG_ERRQUEUE) < 0) return true;
    sock_extended_err told;
    std::memcpy(&told, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof told);
    if (!is("the first send of a completion", told.ee_info, next)) return false;
    next = told.ee_data + 1;
  }
}

bool zero_copy() {
  static char data[65536];
  const int fd = warm_connection();
  std::thread reader([&] {
    static char to[65536];
    while (recv(fd, to, sizeof to, 0) > 0) continue;
  });
  set(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
  std::uint32_t sent = 0, completed = 0;
  bool good = true;
  while (good && sent < kExchanges) {
    const ssize_t bytes = send(fd, data, sizeof data, MSG_ZEROCOPY | MSG_NOSIGNAL);
    if (bytes > 0) ++sent;
    good = take_completions(fd, completed) && (bytes > 0 || is("error of send", errno, ENOBUFS));
  }
  for (int looks = 0; good && completed < sent && looks < 200; ++looks) {
    pollfd told{fd, 0, 0};
    poll(&told, 1, 100);
    good = take_completions(fd, completed);
  }
  good = is("completions", completed, sent) && good;
  usleep(200'000);  // for one too many
  good = take_completions(fd, completed) && is("completions at last", completed, sent) && good;
  shutdown(fd, SHUT_RDWR);
  reader.join();
  return good;
}

// ------------------------------------------------------------------ calls that pass by the library

// Linux AIO: readiness by IOCB_CMD_POLL, which libev and Seastar use.
bool aio_poll() {
  const int fd = warm_connection();
  aio_context_t context = 0;
  if (!is("io_setup", syscall(SYS_io_setup, 8, &context), 0)) return false;
  for (int i = 0; i < 100; ++i) {
    iocb poll{};
    poll.aio_fildes = static_cast<std::uint32_t>(fd), poll.aio_lio_opcode = IOCB_CMD_POLL, poll.aio_buf = POLLIN;
    iocb* list[] = {&poll};
    if (!is("io_submit", syscall(SYS_io_submit, context, 1, list), 1)) return false;
    send(fd, "0123456789abcdef", kBytes, MSG_NOSIGNAL);
    timespec limit{20, 0};
    io_event event;
    char in[kBytes];
    if (!is("io_getevents", syscall(SYS_io_getevents, context, 1, 1, &event, &limit), 1)) return false;
    if (!is("recv", recv(fd, in, kBytes, MSG_WAITALL), kBytes)) return false;
  }
  return is("exchanges", exchanges(fd), kExchanges);
}

// A plug-in that is bound to the C library before all else. CALLS_PLUGIN is its file.
bool plug_in() {
  const char* const file = std::getenv("CALLS_PLUGIN");
  void* const library = file != nullptr ? dlopen(file, RTLD_NOW | RTLD_DEEPBIND) : nullptr;
  if (library == nullptr) {
    std::printf("%s\n", file != nullptr ? dlerror() : "CALLS_PLUGIN is not set");
    return false;
  }
  const auto send_by = reinterpret_cast<ssize_t (*)(int, const void*, size_t)>(dlsym(library, "plugin_send"));
  const auto receive_by = reinterpret_cast<ssize_t (*)(int, void*, size_t)>(dlsym(library, "plugin_receive"));
  const int fd = warm_connection();
  for (int i = 0; i < 100; ++i) {
    char in[kBytes];
    if (!is("send", send_by(fd, "0123456789abcdef", kBytes), kBytes)) return false;
    if (!is("recv", receive_by(fd, in, kBytes), kBytes)) return false;
  }
  return is("exchanges", exchanges(fd), kExchanges);
}

using Closing = void (*)(unsigned first);

// All descriptors but the connection's are closed.
bool closes(Closing all_from) {
  const int fd = warm_connection();
  all_from(static_cast<unsigned>(fd) + 1);
  usleep(300'000);  // threads that the descriptors have woken look at them
  bool good = std::getenv("CALLS_LANE") == nullptr || is("the lane is left", goes_past_kernel(fd) ? 1 : 0, 1);
  good &= is("exchanges", exchanges(fd), kExchanges);
  const int other = connect_to_peer();
  return is("the next descriptor", other, fd + 1) && is("its exchanges", exchanges(other), kExchanges) && good;
}

bool close_range_by_number() {
  return closes([](unsigned first) { syscall(SYS_close_range, first, ~0u, 0); });
}
bool close_range_unshared() {
  return closes([](unsigned first) { syscall(SYS_close_range, first, ~0u, 2u); });
}
bool close_by_number() {
  return closes([](unsigned first) {
    for (unsigned fd = first; fd < 65536; ++fd) syscall(SYS_close, fd);
  });
}

// io_uring: refused, so that programs use their other way. No ring of the program may carry a connection with a lane.
bool ring() {
  char parameters[120] = {};
  errno = 0;
  const long fd = syscall(SYS_io_uring_setup, 8, parameters);
  return is("io_uring_setup", fd, -1) && is("its error", errno, ENOSYS);
}

// ------------------------------------------------------------------ what the program sees of the library

bool childless() {
  warm_connection();
  errno = 0;
  const pid_t child = waitpid(-1, nullptr, __WALL | WNOHANG);
  return is("a child", child, -1) && is("error", errno, ECHILD);
}

bool exchanges_alone() {
  const int fd = connect_to_peer();
  for (int i = 0; i < kExchanges; ++i) {
    if (!exchange(fd, i)) return is("an answer", i, kExchanges);
    if (i % 100 == 0) usleep(1000);
  }
  return true;
}

// ------------------------------------------------------------------ sets of epoll

int events_of(int set, int ms) {
  epoll_event events[8];
  return epoll_wait(set, events, 8, ms);
}

// One message with a descriptor from one end of a pair of sockets to the other.
struct Passing {
  Passing() {
    message.msg_iov = &piece, message.msg_iovlen = 1;
    message.msg_control = control, message.msg_controllen = sizeof control;
  }
  bool give(int end, int fd) {
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET, part->cmsg_type = SCM_RIGHTS, part->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
    return sendmsg(end, &message, 0) == 1;
  }
  int take(int end) {
    int fd = -1;
    if (recvmsg(end, &message, 0) == 1) std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
  }
  char control[CMSG_SPACE(sizeof(int))] = {}, byte = 0;
  iovec piece{&byte, 1};
  msghdr message{};
};

int passed(int fd) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0 || !Passing().give(ends[0], fd)) return -1;
  const int copy = Passing().take(ends[1]);
  close(ends[0]);
  close(ends[1]);
  return copy;
}

bool tells(const char* what, int fd, int set) {
  char in[kBytes];
  bool good = is(what, events_of(set, 0), 0);
  good &= is("send", send(fd, "0123456789abcdef", kBytes, MSG_NOSIGNAL), kBytes);
  good &= is(what, events_of(set, 20'000), 1);
  return is("recv", recv(fd, in, kBytes, MSG_WAITALL), kBytes) && good;
}

// A set that came by SCM_RIGHTS is the same set.
bool passed_set() {
  const int fd = warm_connection(), set = epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{EPOLLIN, {}};
  epoll_ctl(set, EPOLL_CTL_ADD, fd, &wanted);
  const int copy = passed(set);
  bool good = tells("the passed set", fd, copy) && tells("the own set", fd, set);
  close(set);
  return tells("the passed set alone", fd, copy) && good;
}

// A set that another process gets tells of the program's connections, with the program's words.
bool set_of_other() {
  constexpr std::uint64_t kWord = 4711;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0) return false;
  const pid_t other = fork();
  if (other == 0) {
    epoll_event event{};
    const int set = Passing().take(ends[1]);
    _exit(epoll_wait(set, &event, 1, 20'000) == 1 && event.data.u64 == kWord ? 0 : 1);
  }
  const int fd = warm_connection(), set = epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{EPOLLIN, {}};
  wanted.data.u64 = kWord;
  epoll_ctl(set, EPOLL_CTL_ADD, fd, &wanted);
  bool good = is("passing", Passing().give(ends[0], set) ? 1 : 0, 1);
  good &= is("send", send(fd, "0123456789abcdef", kBytes, MSG_NOSIGNAL), kBytes);
  int status = -1;
  waitpid(other, &status, 0);
  return is("what the other process has seen", status, 0) && is("own events", events_of(set, 20'000), 1) && good;
}

// A connection whose first descriptor is closed, after its set was passed on and a fork: the set still tells of the copy.
bool closed_copy() {
  const int first = warm_connection(), set = epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{EPOLLIN, {}};
  epoll_ctl(set, EPOLL_CTL_ADD, first, &wanted);
  const int other = passed(set);
  bool good = is("the passed set", events_of(other, 0), 0);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const int copy = dup(first);
  close(first);
  return tells("the set", copy, set) && tells("the passed set", copy, other) && good;
}

// ------------------------------------------------------------------ main

void serve(int port) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  set(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  set(listener, IPPROTO_TCP, TCP_FASTOPEN, 16);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(port));
  if (bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 || listen(listener, 16) != 0) std::exit(2);
  for (int fd; (fd = accept(listener, nullptr, nullptr)) >= 0;) {
    std::thread([fd] {
      std::vector<char> data(65536);
      set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
      for (ssize_t got; (got = recv(fd, data.data(), data.size(), 0)) > 0;) {
        for (ssize_t sent = 0; sent < got;) {
          const ssize_t part = send(fd, data.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
          if (part <= 0) break;
          sent += part;
        }
      }
      close(fd);
    }).detach();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, bool (*)()> ways = {
      {"exchanges", exchanges_alone},
      {"locked", locked},
      {"fast_open", fast_open},
      {"zero_copy", zero_copy},
      {"aio_poll", aio_poll},
      {"plug_in", plug_in},
      {"close_range", close_range_by_number},
      {"close_range_unshared", close_range_unshared},
      {"close", close_by_number},
      {"ring", ring},
      {"childless", childless},
      {"passed_set", passed_set},
      {"set_of_other", set_of_other},
      {"closed_copy", closed_copy},
  };
  const std::string how = argc > 1 ? argv[1] : "";
  if (how == "serve" && argc == 3) serve(std::atoi(argv[2]));
  const auto way = ways.find(how);
  if (way == ways.end() || argc != 4) return 2;
  g_peer.sin_family = AF_INET;
  g_peer.sin_port = htons(static_cast<std::uint16_t>(std::atoi(argv[3])));
  inet_pton(AF_INET, argv[2], &g_peer.sin_addr);
  return way->second() ? 0 : 1;
}
