#include "worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <exception>
#include <system_error>

#include "raw.h"

namespace semantics {
namespace {

void own_pipe(int (&ends)[2]) {
  if (raw::call(SYS_pipe2, ends, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  for (int& end : ends) end = raw::out_of_the_way(end);
}

}  // namespace

Worker::Worker(Role role, const Options& options, Peer peer) : role_(role), options_(options) {
  int commands[2], results[2];
  own_pipe(commands);
  own_pipe(results);
  pid_ = fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  // Parent and child both, for neither may be too late.
  setpgid(pid_, 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    raw::close(commands[1]);
    raw::close(results[0]);
    commands_ = commands[0];
    results_ = results[1];
    serve(peer);
  }
  raw::close(commands[0]);
  raw::close(results[1]);
  commands_ = commands[1];
  results_ = results[0];
}

Worker::~Worker() {
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  raw::close(commands_);
  raw::close(results_);
}

std::string Worker::path(const Registered& test) const {
  return options_.directory + "/" + test.name + (role_ == Role::kClient ? ".client" : ".server");
}

bool Worker::run(const Registered& test) {
  const std::size_t index = static_cast<std::size_t>(&test - all_cases().data());
  char good = 0;
  if (raw::write_all(commands_, &index, sizeof index)) {
    pollfd result{results_, POLLIN, 0};
    const timespec limit{options_.limit_ms / 1000, options_.limit_ms % 1000 * 1'000'000L};
    long ready;
    timespec left = limit;
    do {
      ready = raw::call(SYS_ppoll, &result, 1, &left, nullptr, 0);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0) {
      Transcript(path(test)).line("TIMEOUT");
      return false;
    }
    if (raw::read_all(results_, &good, 1)) return good == 'y';
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  Transcript(path(test)).line("the process of the case: " + exit_status(status));
  return false;
}

// In the child.
void Worker::serve(Peer& peer) {
  std::size_t index;
  while (raw::read_all(commands_, &index, sizeof index)) {
    const Registered& test = all_cases()[index];
    const Transcript transcript(path(test));
    char good = 'y';
    try {
      Case t(role_, test.warmth, peer, transcript, options_.settings);
      test.body(t);
      peer.meet();
    } catch (const std::exception& e) {
      transcript.line(std::string("FAILED: ") + e.what());
      good = 'n';
      peer.close();  // the other end need not wait for this one
    }
    if (!raw::write_all(results_, &good, 1)) break;
  }
  _exit(0);
}

}  // namespace semantics
