#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "control_channel.h"
#include "host.h"

namespace conformance {
namespace {

int listen_on(const std::string& port) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_flags = AI_PASSIVE;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(nullptr, port.c_str(), &hints, &found) != 0) return -1;
  const int fd = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool good = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 16) == 0;
  freeaddrinfo(found);
  return good ? fd : -1;
}

// Answers one session's requests until the connection ends. Returns the exit status.
class Session {
 public:
  explicit Session(int fd) : fd_(fd), executor_(Executor::make()) { executor_->may_die(); }

  int run() {
    send_all(fd_, kGreeting);
    std::string frame;
    while (receive_frame(fd_, &frame) && frame.size() >= 10) {
      std::uint64_t call = 0;
      std::uint16_t number = 0;
      Reader reader(frame);
      reader(call, number);
      if (number >= static_cast<std::uint16_t>(OpNumber::count_)) break;
      const auto op = static_cast<OpNumber>(number);
      std::string arguments = frame.substr(10);
      if (operation(op).takes == Takes::Short) {
        perform(call, op, arguments);
        if (executor_->dying()) _exit(0);
        if (executor_->leaving()) std::exit(0);
        continue;
      }
      {
        const std::lock_guard lock(mutex_);
        ++running_;
      }
      std::thread([this, call, op, arguments = std::move(arguments)] {
        perform(call, op, arguments);
        const std::lock_guard lock(mutex_);
        --running_;
        changed_.notify_all();
      }).detach();
    }
    executor_->finish();
    // Calls that block have been ended by the closing of their NIC.
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [this] { return running_ == 0; })) {
      std::fprintf(stderr,
                   "vipl-conformance: calls have not returned after their NIC was closed\n");
      _exit(1);
    }
    return 0;
  }

 private:
  void perform(std::uint64_t call, OpNumber op, const std::string& arguments) {
    Writer answer;
    std::string bytes;
    bool good = true;
    try {
      bytes = operation(op).perform(*executor_, arguments);
    } catch (const std::exception& e) {
      good = false;
      bytes = e.what();
    }
    answer(call, good);
    answer.bytes += bytes;
    const std::lock_guard lock(send_mutex_);
    send_frame(fd_, answer.bytes);
  }

  const int fd_;
  std::shared_ptr<Executor> executor_;
  std::mutex mutex_, send_mutex_;
  std::condition_variable changed_;
  int running_ = 0;
};

// False when one ended badly.
bool reap(std::set<pid_t>* sessions) {
  bool good = true;
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    sessions->erase(pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    good = false;
    if (WIFSIGNALED(status)) {
      std::fprintf(stderr, "vipl-conformance: a session was ended by signal %d (%s)\n",
                   WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
      std::fprintf(stderr, "vipl-conformance: a session ended with status %d\n",
                   WEXITSTATUS(status));
    }
  }
  return good;
}

}  // namespace

int serve(const std::string& port) {
  const int listener = listen_on(port);
  if (listener < 0) {
    std::fprintf(stderr, "vipl-conformance: can't listen on port %s: %s\n", port.c_str(),
                 std::strerror(errno));
    return 2;
  }
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, &before);
  const int events = signalfd(-1, &signals, SFD_CLOEXEC);
  std::printf("vipl-conformance: serving on port %s\n", port.c_str());
  std::fflush(stdout);

  std::set<pid_t> sessions;
  bool good = true;
  for (;;) {
    pollfd fds[2] = {{listener, POLLIN, 0}, {events, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) {
      signalfd_siginfo info;
      if (read(events, &info, sizeof info) != sizeof info) continue;
      if (info.ssi_signo != SIGCHLD) break;
      good = reap(&sessions) && good;
    }
    if (fds[0].revents == 0) continue;
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      sigprocmask(SIG_SETMASK, &before, nullptr);
      close(listener);
      close(events);
      std::exit(Session(fd).run());
    }
    close(fd);
    if (pid > 0) sessions.insert(pid);
  }
  // Sessions whose tests have gone end by themselves; the others are in the way.
  for (int i = 0; i < 100 && !sessions.empty(); ++i) {
    good = reap(&sessions) && good;
    if (!sessions.empty()) usleep(20000);
  }
  for (const pid_t pid : sessions) kill(pid, SIGKILL);
  return good ? 0 : 1;
}

}  // namespace conformance
