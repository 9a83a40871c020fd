// The system calls of what is compiled into libvipl too, made without the C library's functions of
// those names: a program may define functions called close, mmap or send.
//
// All return what the kernel returns: a result, or -1 with errno set.
#ifndef VIADUCT_XDP_XSK_SYSTEM_CALLS_H
#define VIADUCT_XDP_XSK_SYSTEM_CALLS_H

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace viaduct::system_calls {

// Calls whose numbers a socket library may look for in syscall(), as they would be the program's wish: without it. Returns
// what the kernel does, an error as a negative number.
inline long direct(long number, long first, long second, long third) {
#if defined(__x86_64__)
  long result = number;
  asm volatile("syscall" : "+a"(result) : "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long call asm("x8") = number, result asm("x0") = first, more asm("x1") = second, last asm("x2") = third;
  asm volatile("svc 0" : "+r"(result) : "r"(call), "r"(more), "r"(last) : "memory");
  return result;
#elif defined(__riscv)
  register long call asm("a7") = number, result asm("a0") = first, more asm("a1") = second, last asm("a2") = third;
  asm volatile("ecall" : "+r"(result) : "r"(call), "r"(more), "r"(last) : "memory");
  return result;
#else
  const long result = ::syscall(number, first, second, third);
  return result < 0 ? -errno : result;
#endif
}

inline int close(int fd) {
  const long result = direct(SYS_close, fd, 0, 0);
  if (result == 0) return 0;
  errno = static_cast<int>(-result);
  return -1;
}
inline long file_size(int fd) { return ::syscall(SYS_lseek, fd, 0L, SEEK_END); }
inline int get_seals(int fd) { return static_cast<int>(::syscall(SYS_fcntl, fd, F_GET_SEALS)); }
inline int getsockopt(int fd, int level, int name, void* value, socklen_t* bytes) {
  return static_cast<int>(::syscall(SYS_getsockopt, fd, level, name, value, bytes));
}

// Tell the kernel to look at the socket's rings: to send, or to receive.
inline int wake_to_send(int fd) {
  return static_cast<int>(::syscall(SYS_sendto, fd, nullptr, 0L, MSG_DONTWAIT, nullptr, 0));
}
inline void wake_to_receive(int fd) {
  ::syscall(SYS_recvfrom, fd, nullptr, 0L, MSG_DONTWAIT, nullptr, nullptr);
}

inline long send_message(int fd, const msghdr& message) {
  return ::syscall(SYS_sendmsg, fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}
inline long receive_message(int fd, msghdr& message) {
  return ::syscall(SYS_recvmsg, fd, &message, MSG_DONTWAIT);
}

inline int setsockopt(int fd, int level, int name, int value) {
  return static_cast<int>(::syscall(SYS_setsockopt, fd, level, name, &value, sizeof value));
}
// nullptr: disconnects.
inline int connect(int fd, const sockaddr_in6* to) {
  const sockaddr nobody{AF_UNSPEC, {}};
  return static_cast<int>(to != nullptr ? ::syscall(SYS_connect, fd, to, sizeof *to)
                                        : ::syscall(SYS_connect, fd, &nobody, sizeof nobody));
}
inline long read(int fd, void* data, std::size_t bytes) { return ::syscall(SYS_read, fd, data, bytes); }
// Moves pages, and not copies of them, from memory into a pipe, and from there to another descriptor.
inline long put_pages(int pipe, const iovec& pages) {
  return ::syscall(SYS_vmsplice, pipe, &pages, 1L, SPLICE_F_NONBLOCK);
}
inline long move_pages(int pipe, int to, std::size_t bytes) {
  return ::syscall(SYS_splice, pipe, nullptr, to, nullptr, bytes, SPLICE_F_NONBLOCK);
}
inline bool kernel_is_from(unsigned major, unsigned minor) {
  utsname its;
  if (::syscall(SYS_uname, &its) != 0) return false;
  unsigned number[2] = {0, 0};
  const char* at = its.release;
  for (unsigned& each : number) {
    for (; *at >= '0' && *at <= '9'; ++at) each = each * 10 + static_cast<unsigned>(*at - '0');
    if (*at == '.') ++at;
  }
  return number[0] != major ? number[0] > major : number[1] >= minor;
}

// Shared memory, with every page there from the start; anonymous if fd is -1. nullptr on failure.
inline void* map(std::size_t bytes, int fd, long offset) {
  const int flags = MAP_SHARED | MAP_POPULATE | (fd < 0 ? MAP_ANONYMOUS : 0);
  const long at = ::syscall(SYS_mmap, nullptr, bytes, static_cast<long>(PROT_READ | PROT_WRITE),
                            static_cast<long>(flags), static_cast<long>(fd), offset);
  return at == -1 ? nullptr : reinterpret_cast<void*>(at);
}
// Maps a file shared, with pages that come as they are touched. nullptr on failure.
inline void* map_file_untouched(std::size_t bytes, int fd) {
  const long at = ::syscall(SYS_mmap, nullptr, bytes, static_cast<long>(PROT_READ | PROT_WRITE),
                            static_cast<long>(MAP_SHARED), static_cast<long>(fd), 0L);
  return at == -1 ? nullptr : reinterpret_cast<void*>(at);
}
// Shared anonymous memory whose pages come as they are touched.
inline void* map_untouched(std::size_t bytes) {
  const long at = ::syscall(SYS_mmap, nullptr, bytes, static_cast<long>(PROT_READ | PROT_WRITE),
                            static_cast<long>(MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE), -1L, 0L);
  return at == -1 ? nullptr : reinterpret_cast<void*>(at);
}
inline void unmap(void* at, std::size_t bytes) { ::syscall(SYS_munmap, at, bytes); }

}  // namespace viaduct::system_calls

#endif
