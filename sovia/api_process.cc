// Processes: fork, exec, spawn and their kin, and the end of the process.
#include <sys/stat.h>
#include <sys/syscall.h>

#include "sovia/api.h"
#include "sovia/argument_array.h"
#include "sovia/fork.h"
#include "sovia/process.h"

using namespace viaduct::sovia;

namespace {

// The program goes and its lanes with it: sockets that survive are read and written through the
// kernel next, and what was sent on the others has arrived. exec may fail, so they stay usable.
void leave_all() {
  kernel::prepare();
  table::for_each(
      [](int fd, Socket& socket, void*) {
        if (socket.concerned()) socket.leave(fd, Reason::kExec);
      },
      nullptr);
}

}  // namespace

pid_t sovia_fork(void) {
  kernel::prepare();
  process::watch();
  const pid_t child = kernel::fork();
  if (child < 0) fork::failed();
  return child;
}

// The child shares the parent's memory in a true vfork, and would close the parent's sockets in it.
pid_t sovia_vfork(void) { return sovia_fork(); }

// Runs no handlers of its own.
pid_t sovia__Fork(void) {
  kernel::prepare();
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
  if (child > 0) kernel::_exit(0);  // sockets are the child's now
  if (setsid() < 0) return -1;
  if (!stay_in_directory && chdir("/") != 0) return -1;
  if (keep_streams) return 0;
  const int null = open("/dev/null", O_RDWR);
  if (null < 0) return -1;
  struct stat about;
  if (fstat(null, &about) != 0 || !S_ISCHR(about.st_mode)) {
    kernel::close(null);
    return failed(ENODEV);
  }
  for (int stream = 0; stream <= 2; ++stream) sovia_dup2(null, stream);
  if (null > 2) kernel::close(null);
  return 0;
}

// ------------------------------------------------------------------ exec

int sovia_execve(const char* path, char* const arguments[], char* const environment[]) {
  leave_all();
  return kernel::execve(path, arguments, environment);
}

int sovia_execv(const char* path, char* const arguments[]) {
  leave_all();
  return kernel::execve(path, arguments, environ);
}

int sovia_execvp(const char* file, char* const arguments[]) {
  leave_all();
  return kernel::execvp(file, arguments);
}

int sovia_execvpe(const char* file, char* const arguments[], char* const environment[]) {
  leave_all();
  return SOVIA_LATE(execvpe)(file, arguments, environment);
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
  leave_all();
  return kernel::fexecve(fd, arguments, environment);
}

int sovia_execveat(int directory, const char* path, char* const arguments[],
                   char* const environment[], int flags) {
  leave_all();
  return static_cast<int>(
      syscall(SYS_execveat, directory, path, arguments, environment, flags));
}

// ------------------------------------------------------------------ programs in children

int sovia_posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                      const posix_spawnattr_t* attributes, char* const arguments[],
                      char* const environment[]) {
  fork::Spawning spawning;
  const int error = kernel::posix_spawn(pid, path, actions, attributes, arguments, environment);
  if (error != 0) spawning.undo();
  return error;
}

int sovia_posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                       const posix_spawnattr_t* attributes, char* const arguments[],
                       char* const environment[]) {
  fork::Spawning spawning;
  const int error = kernel::posix_spawnp(pid, file, actions, attributes, arguments, environment);
  if (error != 0) spawning.undo();
  return error;
}

// The child gets the socket although it may close on exec: it is passed on, as by SCM_RIGHTS.
int sovia_posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t* actions, int fd, int copy) {
  const Call socket(table::find(fd));
  if (socket) {
    const KeepErrno keep;
    socket->leave_for_good(fd, Reason::kPassed);
  }
  return SOVIA_LATE(posix_spawn_file_actions_adddup2)(actions, fd, copy);
}

int sovia_system(const char* command) {
  fork::Spawning spawning;
  const int status = kernel::system(command);
  spawning.undo();
  return status;
}

FILE* sovia_popen(const char* command, const char* mode) {
  fork::Spawning spawning;
  FILE* const stream = kernel::popen(command, mode);
  if (stream == nullptr) spawning.undo();
  return stream;
}

// ------------------------------------------------------------------ the end

void sovia__exit(int status) {
  kernel::prepare();
  process::finish();
  kernel::_exit(status);
  __builtin_unreachable();
}

void sovia__Exit(int status) { sovia__exit(status); }
