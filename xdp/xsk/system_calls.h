// The system calls of what is compiled into libvipl too, made without the C library's functions of
// those names: a program may define functions called close, mmap or send.
//
// All return what the kernel returns: a result, or -1 with errno set.
#ifndef VIADUCT_XDP_XSK_SYSTEM_CALLS_H
#define VIADUCT_XDP_XSK_SYSTEM_CALLS_H

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace viaduct::system_calls {

inline int close(int fd) { return static_cast<int>(::syscall(SYS_close, fd)); }
inline long file_size(int fd) { return ::syscall(SYS_lseek, fd, 0L, SEEK_END); }
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

// Shared memory, with every page there from the start; anonymous if fd is -1. nullptr on failure.
inline void* map(std::size_t bytes, int fd, long offset) {
  const int flags = MAP_SHARED | MAP_POPULATE | (fd < 0 ? MAP_ANONYMOUS : 0);
  const long at = ::syscall(SYS_mmap, nullptr, bytes, static_cast<long>(PROT_READ | PROT_WRITE),
                            static_cast<long>(flags), static_cast<long>(fd), offset);
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
