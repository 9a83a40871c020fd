#include "kagent/agent/process/supervisor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace viaduct {
namespace {

constexpr char kReady = '\0';  // no byte of a message that failed() sends

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

[[noreturn]] void wait_for_background(int pipe) {
  std::string said;
  char room[512];
  for (;;) {
    const ssize_t bytes = read(pipe, room, sizeof room);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    said.append(room, static_cast<std::size_t>(bytes));
    if (said[0] == kReady) _exit(0);
  }
  if (said.empty()) said = "it died while it was starting";
  std::fprintf(stderr, "viad: %s\n", said.c_str());
  _exit(1);
}

}  // namespace

void notify_supervisor(const char* line) {
  const char* const name = secure_getenv("NOTIFY_SOCKET");
  if (name == nullptr || (name[0] != '/' && name[0] != '@')) return;
  sockaddr_un address{};
  const std::size_t length = std::strlen(name);
  if (length >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';
  const Descriptor fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return;
  sendto(fd.get(), line, std::strlen(line), MSG_NOSIGNAL,
         reinterpret_cast<const sockaddr*>(&address),
         static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
}

void Readiness::ready() {
  if (pipe_ && write(pipe_.get(), &kReady, 1) != 1) return;
  pipe_.close();
}

void Readiness::failed(const std::string& why) {
  if (pipe_ && write(pipe_.get(), why.data(), why.size()) < 0) return;
  pipe_.close();
}

Readiness go_to_background() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  Descriptor from(ends[0]), to(ends[1]);
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child > 0) {
    to.close();
    wait_for_background(from.get());
  }
  from.close();
  if (setsid() < 0) fail("setsid");
  // The grandchild is not the leader of its session, so it can't get a terminal by accident.
  const pid_t grandchild = fork();
  if (grandchild < 0) fail("fork");
  if (grandchild > 0) _exit(0);
  const Descriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing || chdir("/") != 0) fail("/dev/null");
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (dup2(nothing.get(), fd) < 0) fail("dup2");
  }
  return Readiness(std::move(to));
}

}  // namespace viaduct
