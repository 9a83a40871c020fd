#include "worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "../semantics/raw.h"

namespace model {
namespace {

namespace raw = semantics::raw;

std::atomic<int> pipe_signals{0};

sockaddr_un at(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof name.sun_path - 1);
  return name;
}

void must(long result, const char* what) {
  if (result >= 0) return;
  std::perror(what);
  _exit(3);
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

}  // namespace

Worker::Worker(std::string directory, int name)
    : directory_(std::move(directory)), name_(name), buffer_(std::size_t{2} << 20) {
  handle(SIGPIPE, [](int) { ++pipe_signals; }, SA_RESTART);
  handle(SIGUSR1, [](int) {}, 0);
  handle(SIGUSR2, [](int) {}, SA_RESTART);
  handle(SIGCHLD, SIG_IGN, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // the controller's
  hello();
}

std::string Worker::letters(int name) const { return directory_ + "/letters" + std::to_string(name); }

void Worker::hello() {
  control_ = raw::out_of_the_way(static_cast<int>(raw::call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)));
  const sockaddr_un controller = at(directory_ + "/control");
  must(raw::call(SYS_connect, control_, &controller, sizeof controller), "the controller");
  letters_ = raw::out_of_the_way(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const sockaddr_un mine = at(letters(name_));
  ::unlink(mine.sun_path);
  must(raw::call(SYS_bind, letters_, &mine, sizeof mine), "a socket for descriptors");
  Hello hello{name_, ::getpid(), 0};
  hello.lowest = static_cast<int>(raw::call(SYS_dup, control_));
  raw::close(hello.lowest);
  raw::call(SYS_write, control_, &hello, sizeof hello);
}

void Worker::serve() {
  for (Request request;;) {
    const long n = raw::call(SYS_read, control_, &request, sizeof request);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof request || request.call == Call::kExit) _exit(0);
    Reply reply;
    pipe_signals = 0;
    errno = 0;
    answer(request, reply);
    if (reply.result < 0) reply.error = errno;
    reply.pipe_signals = pipe_signals;
    while (raw::call(SYS_write, control_, &reply, sizeof reply) < 0 && errno == EINTR) {
    }
  }
}

void Worker::answer(const Request& request, Reply& reply) {
  switch (request.call) {
    case Call::kListen: return listen(request, reply);
    case Call::kConnect: return connect(request, reply);
    case Call::kWarm: return warm(request, reply);
    case Call::kSend: return send(request, reply);
    case Call::kReceive: return receive(request, reply);
    case Call::kFork: return fork(request, reply);
    case Call::kPass: return pass(request, reply);
    case Call::kTake: return take(reply);
    case Call::kSettle: return settle(request, reply);
    case Call::kEpollMake:
    case Call::kEpollChange:
    case Call::kEpollWait:
    case Call::kPoll:
    case Call::kSelect:
    case Call::kUnread: return readiness(request, reply);
    default: return descriptors(request, reply);
  }
}

void Worker::fork(const Request& request, Reply& reply) {
  const pid_t child = ::fork();
  if (child != 0) {
    reply.result = child;
    return;
  }
  raw::close(control_);
  raw::close(letters_);
  name_ = request.other;
  hello();
  serve();
}

void Worker::pass(const Request& request, Reply& reply) {
  sockaddr_un to = at(letters(request.other));
  char byte = 'd';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_name = &to;
  message.msg_namelen = sizeof to;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  __builtin_memcpy(CMSG_DATA(head), &request.fd, sizeof(int));
  reply.result = ::sendmsg(letters_, &message, 0);
}

void Worker::take(Reply& reply) {
  char byte;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  reply.result = ::recvmsg(letters_, &message, 0);
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  if (head != nullptr && head->cmsg_type == SCM_RIGHTS) __builtin_memcpy(&reply.fd, CMSG_DATA(head), sizeof(int));
}

}  // namespace model
