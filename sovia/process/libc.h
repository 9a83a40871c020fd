// The kernel's calls as the C library offers them, past all other functions of the same names (the preload library has
// some). Everything in sovia/ calls the kernel through these.
//
//     libc::send(fd, data, bytes, 0)
#ifndef VIADUCT_SOVIA_PROCESS_LIBC_H
#define VIADUCT_SOVIA_PROCESS_LIBC_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

// Functions that every C library of today has. Newer ones are found with libc::find.
#define SOVIA_KERNEL_CALLS(X)                                                                     \
  X(socket) X(connect) X(bind) X(listen) X(accept) X(accept4) X(shutdown) X(close)                \
  X(getsockname) X(getpeername) X(getsockopt) X(setsockopt)                                       \
  X(send) X(sendto) X(sendmsg) X(sendmmsg) X(recv) X(recvfrom) X(recvmsg) X(recvmmsg)             \
  X(read) X(write) X(readv) X(writev) X(sendfile) X(splice) X(dup) X(dup2) X(dup3) X(fcntl)       \
  X(ioctl) X(poll) X(ppoll) X(select) X(pselect) X(epoll_create) X(epoll_create1) X(epoll_ctl)    \
  X(epoll_wait) X(epoll_pwait) X(fork) X(execve) X(execvp) X(fexecve) X(posix_spawn)              \
  X(posix_spawnp) X(system) X(popen) X(fdopen) X(fileno) X(fileno_unlocked) X(sigaction) X(_exit)

namespace viaduct::sovia::libc {

#define SOVIA_DECLARE(name) extern decltype(&::name) name;
SOVIA_KERNEL_CALLS(SOVIA_DECLARE)
#undef SOVIA_DECLARE

// To be called before any of the above is used; cheap when it has been. Every function of sovia.h calls it, by
// table::find() or itself, as programs may call before constructors have run.
void prepare();

// Any other function of the C library, or nullptr.
void* find(const char* name);

}  // namespace viaduct::sovia::libc

namespace viaduct::sovia {

// A function of the C library that is not in the list above; nullptr if the library is too old.
inline void* late(const char* name) {
  libc::prepare();
  return libc::find(name);
}

// Looked up once: SOVIA_LATE(preadv2)(...) is the C library's preadv2. Threads and handlers may look it up at the same time.
#define SOVIA_LATE(name) SOVIA_LATE_AS(decltype(&::name), name)
#define SOVIA_LATE_AS(type, name)                                    \
  ([]() {                                                            \
    static constinit std::atomic<void*> found{nullptr};              \
    void* call = found.load(std::memory_order_relaxed);              \
    if (call == nullptr) {                                           \
      call = ::viaduct::sovia::late(#name);                          \
      found.store(call, std::memory_order_relaxed);                  \
    }                                                                \
    return reinterpret_cast<type>(call);                             \
  }())

// Makes a call of the API. One that succeeds leaves errno as it was, like the kernel's: some programs look at it alone.
template <class Body>
[[gnu::always_inline]] inline auto keeping_errno(Body&& body) {
  const int before = errno;
  const auto result = body();
  if (result >= 0) errno = before;
  return result;
}

// Sets errno, and returns what the failed call is to return.
template <class Result = int>
Result failed(int error, Result result = -1) {
  errno = error;
  return result;
}

// Keeps errno over the later steps of a call that has succeeded.
class KeepErrno {
 public:
  KeepErrno() : kept_(errno) {}
  ~KeepErrno() { errno = kept_; }
  KeepErrno(const KeepErrno&) = delete;

 private:
  int kept_;
};

}  // namespace viaduct::sovia

#endif
