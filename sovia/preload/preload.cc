// libsovia-preload.so: the C library's names for the functions of sovia.h, for programs that are not recompiled. Each
// wrapper has a name of its own here and the C library's as its symbol, so that neither the headers' declarations nor
// their inline functions are in the way.
#include <aio.h>
#include <dlfcn.h>
#include <stdarg.h>

#include "sovia/api/api.h"
#include "sovia/api/api_passing.h"
#include "sovia/api/argument_array.h"
#include "sovia/datagram/datagram_table.h"
#include "sovia/process/rings.h"
#include "sovia/preload/symbols.h"

using namespace viaduct::sovia;

#define SOVIA_SYMBOL(symbol) __asm__(#symbol) __attribute__((visibility("default")))

extern "C" {

#define SOVIA_WRAPPER(symbol, result, target, parameters, arguments) \
  result preload_##symbol parameters SOVIA_SYMBOL(symbol);           \
  result preload_##symbol parameters { return target arguments; }
SOVIA_PRELOAD_SYMBOLS(SOVIA_WRAPPER)
#undef SOVIA_WRAPPER

// ------------------------------------------------------------------ fortified variants
// Fortified functions get the buffer's length. If it is too short they end the program, as the C library's do.
[[noreturn]] void __chk_fail();

ssize_t preload_read_chk(int fd, void* data, size_t bytes, size_t room) SOVIA_SYMBOL(__read_chk);
ssize_t preload_read_chk(int fd, void* data, size_t bytes, size_t room) {
  if (bytes > room) __chk_fail();
  return sovia_read(fd, data, bytes);
}

ssize_t preload_recv_chk(int fd, void* data, size_t bytes, size_t room, int flags)
    SOVIA_SYMBOL(__recv_chk);
ssize_t preload_recv_chk(int fd, void* data, size_t bytes, size_t room, int flags) {
  if (bytes > room) __chk_fail();
  return sovia_recv(fd, data, bytes, flags);
}

ssize_t preload_recvfrom_chk(int fd, void* data, size_t bytes, size_t room, int flags,
                             sockaddr* address, socklen_t* length) SOVIA_SYMBOL(__recvfrom_chk);
ssize_t preload_recvfrom_chk(int fd, void* data, size_t bytes, size_t room, int flags,
                             sockaddr* address, socklen_t* length) {
  if (bytes > room) __chk_fail();
  return sovia_recvfrom(fd, data, bytes, flags, address, length);
}

int preload_poll_chk(pollfd* fds, nfds_t count, int timeout, size_t room) SOVIA_SYMBOL(__poll_chk);
int preload_poll_chk(pollfd* fds, nfds_t count, int timeout, size_t room) {
  if (room / sizeof *fds < count) __chk_fail();
  return sovia_poll(fds, count, timeout);
}

int preload_ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask,
                      size_t room) SOVIA_SYMBOL(__ppoll_chk);
int preload_ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask,
                      size_t room) {
  if (room / sizeof *fds < count) __chk_fail();
  return sovia_ppoll(fds, count, timeout, mask);
}

int preload_vdprintf(int fd, const char* format, va_list arguments) SOVIA_SYMBOL(vdprintf);
int preload_vdprintf(int fd, const char* format, va_list arguments) {
  return sovia_vdprintf(fd, format, arguments);
}

// `flag` asks for the C library's checks of the format, which are made for sockets, too.
int preload_vdprintf_chk(int fd, int flag, const char* format, va_list arguments)
    SOVIA_SYMBOL(__vdprintf_chk);
int preload_vdprintf_chk(int fd, int flag, const char* format, va_list arguments) {
  const Socket* const known = table::peek(fd);
  const bool may_use_lane = known != nullptr && known->may_use_lane();
  if (may_use_lane || datagram::table::knows(fd)) return sovia_vdprintf(fd, format, arguments);
  using Checked = int (*)(int, int, const char*, va_list);
  return SOVIA_LATE_AS(Checked, __vdprintf_chk)(fd, flag, format, arguments);
}

int preload_dprintf(int fd, const char* format, ...) SOVIA_SYMBOL(dprintf);
int preload_dprintf(int fd, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = sovia_vdprintf(fd, format, arguments);
  va_end(arguments);
  return result;
}

int preload_dprintf_chk(int fd, int flag, const char* format, ...) SOVIA_SYMBOL(__dprintf_chk);
int preload_dprintf_chk(int fd, int flag, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int result = preload_vdprintf_chk(fd, flag, format, arguments);
  va_end(arguments);
  return result;
}

// ------------------------------------------------------------------ variable arguments
// fcntl and ioctl are called with one more argument or none. The argument always fits in a pointer.
#define SOVIA_FCNTL(name, symbol)                            \
  int name(int fd, int command, ...) SOVIA_SYMBOL(symbol);   \
  int name(int fd, int command, ...) {                       \
    va_list arguments;                                       \
    va_start(arguments, command);                            \
    void* const argument = va_arg(arguments, void*);         \
    va_end(arguments);                                       \
    return sovia_fcntl(fd, command, argument);               \
  }
SOVIA_FCNTL(preload_fcntl, fcntl)
SOVIA_FCNTL(preload_fcntl64, fcntl64)
SOVIA_FCNTL(preload_other_fcntl, __fcntl)
#undef SOVIA_FCNTL

int preload_ioctl(int fd, unsigned long request, ...) SOVIA_SYMBOL(ioctl);
int preload_ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return sovia_ioctl(fd, request, argument);
}

int preload_execl(const char* path, const char* argument, ...) SOVIA_SYMBOL(execl);
int preload_execl(const char* path, const char* argument, ...) {
  SOVIA_ARGUMENT_ARRAY(all, (void)0);
  return sovia_execv(path, all);
}

int preload_execlp(const char* file, const char* argument, ...) SOVIA_SYMBOL(execlp);
int preload_execlp(const char* file, const char* argument, ...) {
  SOVIA_ARGUMENT_ARRAY(all, (void)0);
  return sovia_execvp(file, all);
}

int preload_execle(const char* path, const char* argument, ...) SOVIA_SYMBOL(execle);
int preload_execle(const char* path, const char* argument, ...) {
  SOVIA_ARGUMENT_ARRAY(all, char* const* const environment = va_arg(given, char* const*));
  return sovia_execve(path, all, environment);
}

// Reads as many arguments as a system call can have. Those that were not given are passed on with any value.
int preload_prctl(int option, ...) SOVIA_SYMBOL(prctl);
[[gnu::no_sanitize("address")]] int preload_prctl(int option, ...) {
  va_list arguments;
  va_start(arguments, option);
  unsigned long given[4];
  for (unsigned long& each : given) each = va_arg(arguments, unsigned long);
  va_end(arguments);
  return sovia_prctl(option, given[0], given[1], given[2], given[3]);
}

// libseccomp installs its filters by syscall(), libuv makes its rings, and others close descriptors. Other system calls are passed on, with six arguments, of which the caller
// may have given fewer: what lies behind them is read too, as by the C library.
long preload_syscall(long number, ...) SOVIA_SYMBOL(syscall);
[[gnu::no_sanitize("address")]] long preload_syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  unsigned long given[6];
  for (unsigned long& each : given) each = va_arg(arguments, unsigned long);
  va_end(arguments);
  using Syscall = long (*)(long, ...);
  if (long result; passing::makes_call(number, given, result)) return result;
  return SOVIA_LATE_AS(Syscall, syscall)(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

// ------------------------------------------------------------------ libraries that make system calls themselves
// liburing's functions return the error.
#define SOVIA_REFUSED_RING(name, parameters, arguments)                        \
  int preload_##name parameters SOVIA_SYMBOL(name);                            \
  int preload_##name parameters {                                              \
    using Make = int (*) parameters;                                           \
    const Make make = rings::are_refused() ? nullptr : SOVIA_LATE_AS(Make, name); \
    return make != nullptr ? make arguments : -ENOSYS;                         \
  }
SOVIA_REFUSED_RING(io_uring_queue_init, (unsigned n, void* ring, unsigned f), (n, ring, f))
SOVIA_REFUSED_RING(io_uring_queue_init_params, (unsigned n, void* ring, void* p), (n, ring, p))
SOVIA_REFUSED_RING(io_uring_queue_init_mem, (unsigned n, void* ring, void* p, void* m, size_t b), (n, ring, p, m, b))
SOVIA_REFUSED_RING(io_uring_setup, (unsigned n, void* p), (n, p))
#undef SOVIA_REFUSED_RING

// libaio's, which returns the error too.
int preload_io_submit(void* context, long count, iocb** requests) SOVIA_SYMBOL(io_submit);
int preload_io_submit(void* context, long count, iocb** requests) {
  using Submit = int (*)(void*, long, iocb**);
  const Submit submit = SOVIA_LATE_AS(Submit, io_submit);
  if (submit == nullptr) return -ENOSYS;
  passing::before_submit(count, requests);
  return submit(context, count, requests);
}

// A plug-in that is bound to the C library first would call it past this library. The call is the last thing that the
// function does, so that the loader sees the program's function as its caller.
void* preload_dlopen(const char* file, int flags) SOVIA_SYMBOL(dlopen);
void* preload_dlopen(const char* file, int flags) {
  using Open = void* (*)(const char*, int);
  return SOVIA_LATE_AS(Open, dlopen)(file, flags & ~RTLD_DEEPBIND);
}

[[noreturn]] void preload_exit(int status) SOVIA_SYMBOL(_exit);
void preload_exit(int status) { sovia__exit(status); }

[[noreturn]] void preload_Exit(int status) SOVIA_SYMBOL(_Exit);
void preload_Exit(int status) { sovia__exit(status); }

}  // extern "C"
