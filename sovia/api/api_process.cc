// Processes: fork, exec, spawn and their kin, and the end of the process.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "sovia/api/api.h"
#include "sovia/api/argument_array.h"
#include "sovia/program/fork.h"
#include "sovia/program/inheritance.h"
#include "sovia/program/process.h"

using namespace viaduct::sovia;

pid_t sovia_fork(void) {
  libc::prepare();
  process::watch();
  const pid_t child = libc::fork();
  if (child < 0) fork::failed();
  return child;
}

// vfork() is a fork here: in a true one the child shares the parent's memory, and would close the parent's sockets
// there.
pid_t sovia_vfork(void) { return sovia_fork(); }

// _Fork() runs no handlers of pthread_atfork(), so they are called here.
pid_t sovia__Fork(void) {
  libc::prepare();
  fork::before();
  const pid_t child = SOVIA_LATE(_Fork)();
  if (child == 0) {
    fork::in_child();
    return child;
  }
  fork::in_parent();
  if (child < 0) fork::failed();
  return child;
}

int sovia_daemon(int stay_in_directory, int keep_streams) {
  const pid_t child = sovia_fork();
  if (child < 0) return -1;
  if (child > 0) libc::_exit(0);  // sockets are the child's now
  if (setsid() < 0) return -1;
  if (!stay_in_directory && chdir("/") != 0) return -1;
  if (keep_streams) return 0;
  const int null = open("/dev/null", O_RDWR);
  if (null < 0) return -1;
  struct stat about;
  if (fstat(null, &about) != 0 || !S_ISCHR(about.st_mode)) {
    libc::close(null);
    return failed(ENODEV);
  }
  for (int stream = 0; stream <= 2; ++stream) sovia_dup2(null, stream);
  if (null > 2) libc::close(null);
  return 0;
}

// ------------------------------------------------------------------ exec

// If execve() fails, all sockets stay usable.
int sovia_execve(const char* path, char* const arguments[], char* const environment[]) {
  Succession next;
  return libc::execve(path, arguments, next.environment(environment));
}

int sovia_execv(const char* path, char* const arguments[]) {
  return sovia_execve(path, arguments, environ);
}

int sovia_execvp(const char* file, char* const arguments[]) {
  return sovia_execvpe(file, arguments, environ);
}

int sovia_execvpe(const char* file, char* const arguments[], char* const environment[]) {
  Succession next;
  return SOVIA_LATE(execvpe)(file, arguments, next.environment(environment));
}

int sovia_execl(const char* path, const char* argument, ...) {
  SOVIA_ARGUMENT_ARRAY(all, (void)0);
  return sovia_execv(path, all);
}

int sovia_execlp(const char* file, const char* argument, ...) {
  SOVIA_ARGUMENT_ARRAY(all, (void)0);
  return sovia_execvp(file, all);
}

int sovia_execle(const char* path, const char* argument, ...) {
  SOVIA_ARGUMENT_ARRAY(all, char* const* const environment = va_arg(given, char* const*));
  return sovia_execve(path, all, environment);
}

int sovia_fexecve(int fd, char* const arguments[], char* const environment[]) {
  Succession next;
  return libc::fexecve(fd, arguments, next.environment(environment));
}

int sovia_execveat(int directory, const char* path, char* const arguments[],
                   char* const environment[], int flags) {
  Succession next;
  return static_cast<int>(syscall(SYS_execveat, directory, path, arguments,
                                  next.environment(environment), flags));
}

// ------------------------------------------------------------------ programs in children

namespace {

int spawn(decltype(libc::posix_spawn) call, pid_t* pid, const char* program, const posix_spawn_file_actions_t* actions,
          const posix_spawnattr_t* attributes, char* const arguments[], char* const environment[]) {
  fork::Spawning spawning;
  const int error = call(pid, program, actions, attributes, arguments, spawning.environment(environment));
  if (error != 0) spawning.undo();
  return error;
}

}  // namespace

int sovia_posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                      const posix_spawnattr_t* attributes, char* const arguments[],
                      char* const environment[]) {
  return spawn(libc::posix_spawn, pid, path, actions, attributes, arguments, environment);
}

int sovia_posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                       const posix_spawnattr_t* attributes, char* const arguments[],
                       char* const environment[]) {
  return spawn(libc::posix_spawnp, pid, file, actions, attributes, arguments, environment);
}

// The child gets the socket even if that closes on exec: it counts as passed on, as by SCM_RIGHTS.
int sovia_posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t* actions, int fd, int copy) {
  const Call socket(fd);
  if (socket) {
    const KeepErrno keep;
    socket->leave_for_good(fd, Reason::kPassed);
    socket->handoff.passed.store(true);
  }
  return SOVIA_LATE(posix_spawn_file_actions_adddup2)(actions, fd, copy);
}

namespace {

// Sets `environ` to another environment while it lives, for functions of the C library that read `environ` themselves.
// Used only if the other environment differs from the program's.
class OtherEnvironment {
 public:
  explicit OtherEnvironment(char* const* other) : own_(environ) { environ = const_cast<char**>(other); }
  ~OtherEnvironment() { environ = own_; }
  OtherEnvironment(const OtherEnvironment&) = delete;

 private:
  char** const own_;
};

// The C library's system(), with the given environment.
int run_shell(const char* command, char* const* environment) {
  const char* const arguments[] = {"sh", "-c", "--", command, nullptr};
  sigset_t blocked, before, defaults;
  struct sigaction ignore = {}, interrupt, quit;
  ignore.sa_handler = SIG_IGN;
  libc::sigaction(SIGINT, &ignore, &interrupt);
  libc::sigaction(SIGQUIT, &ignore, &quit);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  sigemptyset(&defaults);
  if (interrupt.sa_handler != SIG_IGN) sigaddset(&defaults, SIGINT);
  if (quit.sa_handler != SIG_IGN) sigaddset(&defaults, SIGQUIT);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &before);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t shell;
  constexpr int kNoShell = 127 << 8;
  int status = kNoShell;
  const int error = libc::posix_spawn(&shell, "/bin/sh", nullptr, &attributes,
                                        const_cast<char* const*>(arguments), environment);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) {
    while (waitpid(shell, &status, 0) < 0) {
      if (errno == EINTR) continue;
      status = -1;
      break;
    }
  }
  libc::sigaction(SIGINT, &interrupt, nullptr);
  libc::sigaction(SIGQUIT, &quit, nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) errno = error;
  return status;
}

}  // namespace

int sovia_system(const char* command) {
  fork::Spawning spawning;
  char* const* const environment = spawning.environment(environ);
  const int status = environment == environ || command == nullptr
                         ? libc::system(command)
                         : run_shell(command, environment);
  spawning.undo();
  return status;
}

FILE* sovia_popen(const char* command, const char* mode) {
  fork::Spawning spawning;
  char* const* const environment = spawning.environment(environ);
  FILE* stream;
  if (environment == environ) {
    stream = libc::popen(command, mode);
  } else {
    const OtherEnvironment other(environment);
    stream = libc::popen(command, mode);
  }
  if (stream == nullptr) spawning.undo();
  return stream;
}

// ------------------------------------------------------------------ the end

void sovia__exit(int status) {
  libc::prepare();
  process::finish();
  libc::_exit(status);
  __builtin_unreachable();
}

void sovia__Exit(int status) { sovia__exit(status); }
