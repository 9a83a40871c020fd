#include "hosts.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <vector>

namespace model {
namespace {

constexpr int kStartMs = 20'000;
constexpr int kCallMs = 20'000;

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string own_program() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return std::string(path, n > 0 ? static_cast<std::size_t>(n) : 0);
}

bool readable(int fd, int patience_ms) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, patience_ms) == 1;
}

}  // namespace

Hosts::Hosts(Place place) : place_(std::move(place)) {
  control_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  (place_.directory + "/control").copy(name.sun_path, sizeof name.sun_path - 1);
  ::unlink(name.sun_path);
  if (::bind(control_, reinterpret_cast<sockaddr*>(&name), sizeof name) != 0 || ::listen(control_, 16) != 0) {
    throw HostFails("the control socket: " + std::string(std::strerror(errno)));
  }
}

Hosts::~Hosts() {
  for (Process& process : processes_) {
    if (process.control >= 0) ::kill(process.pid, SIGKILL);
    forget(process);
  }
  ::close(control_);
}

void Hosts::forget(Process& process) {
  if (process.control >= 0) ::close(process.control);
  if (process.launched > 0) ::waitpid(process.launched, nullptr, 0);
  process = {};
}

void Hosts::launch(int process) {
  std::vector<std::string> command = words(place_.command[process % 2]);
  for (const std::string& word : {own_program(), std::string("--worker"), place_.directory, std::to_string(process)}) {
    command.push_back(word);
  }
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execvp(arguments[0], arguments.data());
    _exit(127);
  }
  while (!lives(process)) accept_one();
  processes_[at(process)].launched = pid;
}

void Hosts::accept_one() {
  if (!readable(control_, kStartMs)) throw HostFails("a process does not come up");
  const int fd = ::accept4(control_, nullptr, nullptr, SOCK_CLOEXEC);
  Hello hello;
  if (!readable(fd, kStartMs) || ::read(fd, &hello, sizeof hello) != sizeof hello) throw HostFails("no greeting");
  Process& process = processes_[at(hello.name)];
  process.control = fd;
  process.pid = hello.pid;
  process.lowest = hello.lowest;
}

bool Hosts::start() {
  const bool starts = !lives(0) || !lives(1);
  for (int process = 0; process < kFirstChild; ++process) {
    if (lives(process)) continue;
    launch(process);
    if (process != 1) continue;
    Request request{.call = Call::kListen, .other = place_.port};
    const Reply reply = call(process, request);
    if (reply.result != 0) throw HostFails("listening: " + std::string(std::strerror(reply.error)));
    listener_fd_ = reply.fd;
    processes_[1].lowest = reply.fd + 1;
  }
  return starts;
}

void Hosts::ask(int process, const Request& request) {
  if (::send(processes_[at(process)].control, &request, sizeof request, MSG_NOSIGNAL) != sizeof request) {
    throw HostFails("process " + std::to_string(process) + " has gone");
  }
}

std::optional<Reply> Hosts::answer(int process, int patience_ms) {
  const int fd = processes_[at(process)].control;
  if (!readable(fd, patience_ms)) return {};
  Reply reply;
  if (::read(fd, &reply, sizeof reply) != sizeof reply) {
    throw HostFails("process " + std::to_string(process) + " has died");
  }
  return reply;
}

Reply Hosts::call(int process, const Request& request) {
  ask(process, request);
  if (const auto reply = answer(process, kCallMs)) return *reply;
  throw HostFails("process " + std::to_string(process) + " does not answer");
}

void Hosts::adopt(int child, int parent) {
  while (!lives(child)) accept_one();
  // The child has found the numbers taken that its parent's connections have.
  processes_[at(child)].lowest = processes_[at(parent)].lowest;
}

void Hosts::kill(int process) {
  ::kill(processes_[at(process)].pid, SIGKILL);
  // The end of its control connection comes when it has closed the others too.
  char byte;
  while (readable(processes_[at(process)].control, kCallMs) && ::read(processes_[at(process)].control, &byte, 1) > 0) {
  }
  forget(processes_[at(process)]);
}

void Hosts::release(int process) {
  char byte;
  if (!readable(processes_[at(process)].control, kCallMs)) throw HostFails("a process does not exit");
  (void)!::read(processes_[at(process)].control, &byte, 1);
  forget(processes_[at(process)]);
}

void Hosts::signal(int process, int number) const { ::kill(processes_[at(process)].pid, number); }

}  // namespace model
