// The system calls of the library, made without the C library's functions of those names: a
// program may define functions called connect, close or poll, and a socket library built on this
// one does.
//
// All return what the kernel returns: a result, or -1 with errno set.
#ifndef VIADUCT_VIPL_PROCESS_SYS_H
#define VIADUCT_VIPL_PROCESS_SYS_H

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>

#include "kagent/contract/slice.h"
#include "xdp/clock.h"
#include "xdp/xsk/system_calls.h"

namespace viaduct::vipl::sys {

// Moves a descriptor to the highest of these numbers that the program's limit allows, out of the program's way: the
// program may count on getting the lowest numbers, or have closed standard output and print all the same. Takes the
// old descriptor over.
inline constexpr int kDescriptorPlaces[] = {700, 200, STDERR_FILENO + 1};
inline int out_of_the_way(int fd) {
  if (fd < 0) return fd;
  for (const int place : kDescriptorPlaces) {
    if (fd >= place) return fd;
    const auto moved = static_cast<int>(::syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, place));
    if (moved < 0) continue;
    system_calls::close(fd);
    return moved;
  }
  return fd;
}

// Another descriptor of the same file; -1: there are no more.
inline int duplicate(int fd) {
  return out_of_the_way(static_cast<int>(
      ::syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kDescriptorPlaces[2])));
}
// From now on `fd` is what `by` was; `by` is closed.
inline void replace(int fd, int by) {
  ::syscall(SYS_dup3, by, fd, O_CLOEXEC);
  system_calls::close(by);
}

inline int socket(int domain, int type, int protocol) {
  return out_of_the_way(static_cast<int>(::syscall(SYS_socket, domain, type, protocol)));
}
inline int connect(int fd, const sockaddr* address, socklen_t bytes) {
  return static_cast<int>(::syscall(SYS_connect, fd, address, bytes));
}
inline int shutdown(int fd, int how) { return static_cast<int>(::syscall(SYS_shutdown, fd, how)); }
using system_calls::getsockopt;
inline int setsockopt(int fd, int level, int name, const void* value, socklen_t bytes) {
  return static_cast<int>(::syscall(SYS_setsockopt, fd, level, name, value, bytes));
}
inline long send(int fd, const void* data, std::size_t bytes, int flags) {
  return ::syscall(SYS_sendto, fd, data, bytes, flags, nullptr, 0);
}
inline long recv(int fd, void* data, std::size_t bytes, int flags) {
  return ::syscall(SYS_recvfrom, fd, data, bytes, flags, nullptr, nullptr);
}
inline long recvmsg(int fd, msghdr* message, int flags) {
  return ::syscall(SYS_recvmsg, fd, message, flags);
}
inline long sendmsg(int fd, const msghdr* message, int flags) {
  return ::syscall(SYS_sendmsg, fd, message, flags);
}
inline int open(const char* path, int flags) {
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, 0));
}
inline int socketpair(int type, int (&ends)[2]) {
  return static_cast<int>(::syscall(SYS_socketpair, AF_UNIX, type, 0, ends));
}
inline long pread(int fd, void* data, std::size_t bytes, std::uint64_t at) {
  return ::syscall(SYS_pread64, fd, data, bytes, at);
}
inline long pwrite(int fd, const void* data, std::size_t bytes, std::uint64_t at) {
  return ::syscall(SYS_pwrite64, fd, data, bytes, at);
}
using system_calls::close;
inline long read(int fd, void* data, std::size_t bytes) {
  return ::syscall(SYS_read, fd, data, bytes);
}
inline long write(int fd, const void* data, std::size_t bytes) {
  return ::syscall(SYS_write, fd, data, bytes);
}
using system_calls::get_seals;
inline long seek_end(int fd) { return system_calls::file_size(fd); }
// ends[0] is the end to read from; -1, -1 if there is no pipe.
inline void pipe(int (&ends)[2]) {
  if (::syscall(SYS_pipe2, ends, O_CLOEXEC | O_NONBLOCK) != 0) ends[0] = ends[1] = -1;
  for (int& end : ends) end = out_of_the_way(end);
}
inline int eventfd() {
  return out_of_the_way(static_cast<int>(::syscall(SYS_eventfd2, 0u, O_CLOEXEC | O_NONBLOCK)));
}
// An event descriptor that is readable from a time on (CLOCK_MONOTONIC; ~0: never).
inline int timer() {
  return out_of_the_way(
      static_cast<int>(::syscall(SYS_timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)));
}
inline bool set_timer(int fd, std::uint64_t at_ns) {
  itimerspec at{};
  if (at_ns != ~0ull) {
    at.it_value = {static_cast<time_t>(at_ns / 1'000'000'000), static_cast<long>(at_ns % 1'000'000'000)};
  }
  return ::syscall(SYS_timerfd_settime, fd, TFD_TIMER_ABSTIME, &at, nullptr) == 0;
}
// timeout_ms < 0: none.
inline int poll(pollfd* fds, nfds_t count, int timeout_ms) {
  timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  return static_cast<int>(
      ::syscall(SYS_ppoll, fds, count, timeout_ms < 0 ? nullptr : &timeout, nullptr, 0L));
}

// ~0: no limit. Without a mask the thread's own stays.
inline int poll_ns(pollfd* fds, nfds_t count, std::uint64_t timeout_ns,
                   const sigset_t* mask = nullptr) {
  constexpr long kMaskBytes = 8;  // the kernel's
  timespec timeout = {static_cast<time_t>(timeout_ns / 1'000'000'000),
                      static_cast<long>(timeout_ns % 1'000'000'000)};
  return static_cast<int>(::syscall(SYS_ppoll, fds, count,
                                    timeout_ns == ~0ull ? nullptr : &timeout, mask, kMaskBytes));
}
inline long random(void* data, std::size_t bytes) {
  return ::syscall(SYS_getrandom, data, bytes, 0u);
}

// nullptr when there is no memory. Anonymous memory if fd is -1.
inline void* map(std::size_t bytes, int fd) {
  const long flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  const long at = ::syscall(SYS_mmap, nullptr, bytes, static_cast<long>(PROT_READ | PROT_WRITE),
                            flags, static_cast<long>(fd), 0L);
  return at == -1 ? nullptr : reinterpret_cast<void*>(at);
}
// Moves a mapping from `from` to `to`, where something of the same size is mapped: at no time is nothing there.
// False: all is as it was.
inline bool move_over(void* from, std::size_t bytes, void* to) {
  return ::syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != -1;
}
using system_calls::unmap;

// This function of the C library may be used: programs don't define one of that name, and it is no system call.
using viaduct::monotonic_ns;

inline void yield() { ::syscall(SYS_sched_yield); }
inline int process() { return static_cast<int>(::syscall(SYS_getpid)); }
inline int thread() { return static_cast<int>(::syscall(SYS_gettid)); }
inline bool thread_lives(int id) {
  return ::syscall(SYS_tgkill, process(), id, 0) == 0 || errno != ESRCH;
}
inline void name_thread(const char* name) { ::syscall(SYS_prctl, PR_SET_NAME, name, 0, 0, 0); }
// `command`: one of MEMBARRIER_CMD_*.
inline int membarrier(int command) {
  return static_cast<int>(::syscall(SYS_membarrier, command, 0, 0));
}
using viaduct::restore_slice;
using viaduct::shorten_slice;
inline unsigned user() { return static_cast<unsigned>(::syscall(SYS_geteuid)); }

// Sleeps while word == expected, at most until deadline_ns (CLOCK_MONOTONIC; ~0: no limit). The
// word may lie in memory that other processes share.
inline int futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                      std::uint64_t deadline_ns) {
  timespec until = {static_cast<time_t>(deadline_ns / 1'000'000'000),
                    static_cast<long>(deadline_ns % 1'000'000'000)};
  return static_cast<int>(::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected,
                                    deadline_ns == ~0ull ? nullptr : &until, nullptr,
                                    FUTEX_BITSET_MATCH_ANY));
}
inline void futex_wake(std::atomic<std::uint32_t>& word, int count = INT_MAX) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

}  // namespace viaduct::vipl::sys

#endif
