// The C library's functions that libsovia-preload.so takes the place of: the library is made from this list, `sovia
// explain` uses it, and the tests compare it with the symbols that programs import.
//
// X(symbol, result, target, (parameters), (arguments)): `symbol` calls `target` of sovia.h. V marks
// functions with a variable number of arguments, or that never return, whose wrappers are written by
// hand in preload.cc.
#ifndef VIADUCT_SOVIA_PRELOAD_SYMBOLS_H
#define VIADUCT_SOVIA_PRELOAD_SYMBOLS_H

// Data: over the lane once there is one.
#define SOVIA_DATA_SYMBOLS(X)                                                                      \
  X(send, ssize_t, sovia_send, (int fd, const void* p, size_t n, int f), (fd, p, n, f))            \
  X(__send, ssize_t, sovia_send, (int fd, const void* p, size_t n, int f), (fd, p, n, f))          \
  X(sendto, ssize_t, sovia_sendto,                                                                 \
    (int fd, const void* p, size_t n, int f, const sockaddr* a, socklen_t l), (fd, p, n, f, a, l)) \
  X(sendmsg, ssize_t, sovia_sendmsg, (int fd, const msghdr* m, int f), (fd, m, f))                 \
  X(sendmmsg, int, sovia_sendmmsg, (int fd, mmsghdr* m, unsigned n, int f), (fd, m, n, f))         \
  X(__sendmmsg, int, sovia_sendmmsg, (int fd, mmsghdr* m, unsigned n, int f), (fd, m, n, f))       \
  X(recv, ssize_t, sovia_recv, (int fd, void* p, size_t n, int f), (fd, p, n, f))                  \
  X(recvfrom, ssize_t, sovia_recvfrom,                                                             \
    (int fd, void* p, size_t n, int f, sockaddr* a, socklen_t* l), (fd, p, n, f, a, l))            \
  X(recvmsg, ssize_t, sovia_recvmsg, (int fd, msghdr* m, int f), (fd, m, f))                       \
  X(recvmmsg, int, sovia_recvmmsg, (int fd, mmsghdr* m, unsigned n, int f, timespec* t),           \
    (fd, m, n, f, t))                                                                              \
  X(read, ssize_t, sovia_read, (int fd, void* p, size_t n), (fd, p, n))                            \
  X(__read, ssize_t, sovia_read, (int fd, void* p, size_t n), (fd, p, n))                          \
  X(write, ssize_t, sovia_write, (int fd, const void* p, size_t n), (fd, p, n))                    \
  X(__write, ssize_t, sovia_write, (int fd, const void* p, size_t n), (fd, p, n))                  \
  X(readv, ssize_t, sovia_readv, (int fd, const iovec* v, int n), (fd, v, n))                      \
  X(writev, ssize_t, sovia_writev, (int fd, const iovec* v, int n), (fd, v, n))                    \
  X(preadv2, ssize_t, sovia_preadv2, (int fd, const iovec* v, int n, off_t o, int f),              \
    (fd, v, n, o, f))                                                                              \
  X(preadv64v2, ssize_t, sovia_preadv2, (int fd, const iovec* v, int n, off_t o, int f),           \
    (fd, v, n, o, f))                                                                              \
  X(pwritev2, ssize_t, sovia_pwritev2, (int fd, const iovec* v, int n, off_t o, int f),            \
    (fd, v, n, o, f))                                                                              \
  X(pwritev64v2, ssize_t, sovia_pwritev2, (int fd, const iovec* v, int n, off_t o, int f),         \
    (fd, v, n, o, f))                                                                              \
  X(sendfile, ssize_t, sovia_sendfile, (int out, int in, off_t* o, size_t n), (out, in, o, n))     \
  X(sendfile64, ssize_t, sovia_sendfile, (int out, int in, off_t* o, size_t n), (out, in, o, n))

#define SOVIA_DATA_SYMBOLS_BY_HAND(V) \
  V(__read_chk)                       \
  V(__recv_chk)                       \
  V(__recvfrom_chk)                   \
  V(dprintf)                          \
  V(__dprintf_chk)                    \
  V(vdprintf)                         \
  V(__vdprintf_chk)

// Calls that only the kernel can serve: a connection leaves its lane first.
#define SOVIA_LEAVING_SYMBOLS(X)                                                                   \
  X(splice, ssize_t, sovia_splice,                                                                 \
    (int in, loff_t* i, int out, loff_t* o, size_t n, unsigned f), (in, i, out, o, n, f))          \
  X(aio_read, int, sovia_aio_read, (aiocb* b), (b))                                                \
  X(aio_read64, int, sovia_aio_read, (aiocb* b), (b))                                              \
  X(aio_write, int, sovia_aio_write, (aiocb* b), (b))                                              \
  X(aio_write64, int, sovia_aio_write, (aiocb* b), (b))                                            \
  X(lio_listio, int, sovia_lio_listio, (int m, aiocb* const* l, int n, sigevent* e), (m, l, n, e)) \
  X(lio_listio64, int, sovia_lio_listio, (int m, aiocb* const* l, int n, sigevent* e),             \
    (m, l, n, e))

// Connections: made and ended in the kernel, with a lane beside.
#define SOVIA_CONNECTION_SYMBOLS(X)                                                                \
  X(socket, int, sovia_socket, (int d, int t, int p), (d, t, p))                                   \
  X(__socket, int, sovia_socket, (int d, int t, int p), (d, t, p))                                 \
  X(socketpair, int, sovia_socketpair, (int d, int t, int p, int v[2]), (d, t, p, v))              \
  X(accept, int, sovia_accept, (int fd, sockaddr* a, socklen_t* l), (fd, a, l))                    \
  X(accept4, int, sovia_accept4, (int fd, sockaddr* a, socklen_t* l, int f), (fd, a, l, f))        \
  X(connect, int, sovia_connect, (int fd, const sockaddr* a, socklen_t l), (fd, a, l))             \
  X(__connect, int, sovia_connect, (int fd, const sockaddr* a, socklen_t l), (fd, a, l))           \
  X(shutdown, int, sovia_shutdown, (int fd, int how), (fd, how))                                   \
  X(getsockopt, int, sovia_getsockopt, (int fd, int s, int o, void* v, socklen_t* l),              \
    (fd, s, o, v, l))                                                                              \
  X(setsockopt, int, sovia_setsockopt, (int fd, int s, int o, const void* v, socklen_t l),         \
    (fd, s, o, v, l))                                                                              \
  X(sockatmark, int, sovia_sockatmark, (int fd), (fd))

// Descriptors: the library follows their copies and their end.
#define SOVIA_DESCRIPTOR_SYMBOLS(X)                                                                \
  X(close, int, sovia_close, (int fd), (fd))                                                       \
  X(__close, int, sovia_close, (int fd), (fd))                                                     \
  X(close_range, int, sovia_close_range, (unsigned a, unsigned b, int f), (a, b, f))               \
  X(closefrom, void, sovia_closefrom, (int a), (a))                                                \
  X(dup, int, sovia_dup, (int fd), (fd))                                                           \
  X(dup2, int, sovia_dup2, (int fd, int copy), (fd, copy))                                         \
  X(__dup2, int, sovia_dup2, (int fd, int copy), (fd, copy))                                       \
  X(dup3, int, sovia_dup3, (int fd, int copy, int f), (fd, copy, f))                               \
  X(pidfd_getfd, int, sovia_pidfd_getfd, (int p, int fd, unsigned f), (p, fd, f))

#define SOVIA_DESCRIPTOR_SYMBOLS_BY_HAND(V) \
  V(fcntl)                                  \
  V(fcntl64)                                \
  V(__fcntl)                                \
  V(ioctl)

// Waiting: for lanes and for the kernel's descriptors at once.
#define SOVIA_READY_SYMBOLS(X)                                                                     \
  X(poll, int, sovia_poll, (pollfd* p, nfds_t n, int t), (p, n, t))                                \
  X(__poll, int, sovia_poll, (pollfd* p, nfds_t n, int t), (p, n, t))                              \
  X(ppoll, int, sovia_ppoll, (pollfd* p, nfds_t n, const timespec* t, const sigset_t* m),          \
    (p, n, t, m))                                                                                  \
  X(select, int, sovia_select, (int n, fd_set* r, fd_set* w, fd_set* e, timeval* t),               \
    (n, r, w, e, t))                                                                               \
  X(__select, int, sovia_select, (int n, fd_set* r, fd_set* w, fd_set* e, timeval* t),             \
    (n, r, w, e, t))                                                                               \
  X(pselect, int, sovia_pselect,                                                                   \
    (int n, fd_set* r, fd_set* w, fd_set* e, const timespec* t, const sigset_t* m),                \
    (n, r, w, e, t, m))                                                                            \
  X(epoll_create, int, sovia_epoll_create, (int n), (n))                                           \
  X(epoll_create1, int, sovia_epoll_create1, (int f), (f))                                         \
  X(epoll_ctl, int, sovia_epoll_ctl, (int e, int o, int fd, epoll_event* v), (e, o, fd, v))        \
  X(epoll_wait, int, sovia_epoll_wait, (int e, epoll_event* v, int n, int t), (e, v, n, t))        \
  X(epoll_pwait, int, sovia_epoll_pwait,                                                           \
    (int e, epoll_event* v, int n, int t, const sigset_t* m), (e, v, n, t, m))                     \
  X(epoll_pwait2, int, sovia_epoll_pwait2,                                                         \
    (int e, epoll_event* v, int n, const timespec* t, const sigset_t* m), (e, v, n, t, m))

#define SOVIA_READY_SYMBOLS_BY_HAND(V) \
  V(__poll_chk)                        \
  V(__ppoll_chk)

// Processes: connections leave their lanes before a fork or an exec, and may have lanes again when
// one process alone holds them.
#define SOVIA_PROCESS_SYMBOLS(X)                                                                   \
  X(sigaction, int, sovia_sigaction,                                                               \
    (int s, const struct sigaction* a, struct sigaction* b), (s, a, b))                            \
  X(__sigaction, int, sovia_sigaction,                                                             \
    (int s, const struct sigaction* a, struct sigaction* b), (s, a, b))                            \
  X(siginterrupt, int, sovia_siginterrupt, (int s, int i), (s, i))                                 \
  X(sigset, sighandler_t, sovia_sigset, (int s, sighandler_t h), (s, h))                           \
  X(signal, sighandler_t, sovia_signal, (int s, sighandler_t h), (s, h))                           \
  X(bsd_signal, sighandler_t, sovia_signal, (int s, sighandler_t h), (s, h))                       \
  X(ssignal, sighandler_t, sovia_signal, (int s, sighandler_t h), (s, h))                          \
  X(sysv_signal, sighandler_t, sovia_sysv_signal, (int s, sighandler_t h), (s, h))                 \
  X(__sysv_signal, sighandler_t, sovia_sysv_signal, (int s, sighandler_t h), (s, h))               \
  X(fork, pid_t, sovia_fork, (), ())                                                               \
  X(__fork, pid_t, sovia_fork, (), ())                                                             \
  X(vfork, pid_t, sovia_vfork, (), ())                                                             \
  X(__vfork, pid_t, sovia_vfork, (), ())                                                           \
  X(_Fork, pid_t, sovia__Fork, (), ())                                                             \
  X(daemon, int, sovia_daemon, (int d, int s), (d, s))                                             \
  X(execve, int, sovia_execve, (const char* p, char* const a[], char* const e[]), (p, a, e))       \
  X(execv, int, sovia_execv, (const char* p, char* const a[]), (p, a))                             \
  X(execvp, int, sovia_execvp, (const char* p, char* const a[]), (p, a))                           \
  X(execvpe, int, sovia_execvpe, (const char* p, char* const a[], char* const e[]), (p, a, e))     \
  X(fexecve, int, sovia_fexecve, (int fd, char* const a[], char* const e[]), (fd, a, e))           \
  X(execveat, int, sovia_execveat,                                                                 \
    (int d, const char* p, char* const a[], char* const e[], int f), (d, p, a, e, f))              \
  X(posix_spawn, int, sovia_posix_spawn,                                                           \
    (pid_t* c, const char* p, const posix_spawn_file_actions_t* f, const posix_spawnattr_t* s,     \
     char* const a[], char* const e[]), (c, p, f, s, a, e))                                        \
  X(posix_spawnp, int, sovia_posix_spawnp,                                                         \
    (pid_t* c, const char* p, const posix_spawn_file_actions_t* f, const posix_spawnattr_t* s,     \
     char* const a[], char* const e[]), (c, p, f, s, a, e))                                        \
  X(posix_spawn_file_actions_adddup2, int, sovia_posix_spawn_file_actions_adddup2,                 \
    (posix_spawn_file_actions_t* f, int fd, int copy), (f, fd, copy))                              \
  X(system, int, sovia_system, (const char* c), (c))                                               \
  X(popen, FILE*, sovia_popen, (const char* c, const char* m), (c, m))

#define SOVIA_PROCESS_SYMBOLS_BY_HAND(V) \
  V(execl)                               \
  V(execlp)                              \
  V(execle)                              \
  V(prctl)                               \
  V(syscall)                             \
  V(_exit)                               \
  V(_Exit)

// Ways past the library: rings of io_uring are refused, sockets of libaio leave their lanes, and plug-ins are bound to
// this library first (RTLD_DEEPBIND).
#define SOVIA_RING_SYMBOLS_BY_HAND(V) \
  V(io_uring_queue_init)              \
  V(io_uring_queue_init_params)       \
  V(io_uring_queue_init_mem)          \
  V(io_uring_setup)

#define SOVIA_PASSING_SYMBOLS_BY_HAND(V) \
  SOVIA_RING_SYMBOLS_BY_HAND(V)          \
  V(dlopen)                              \
  V(io_submit)

// stdio on sockets: streams whose functions are those of the library.
#define SOVIA_STDIO_SYMBOLS(X)                                                                     \
  X(fdopen, FILE*, sovia_fdopen, (int fd, const char* m), (fd, m))                                 \
  X(fileno, int, sovia_fileno, (FILE* s), (s))                                                     \
  X(fileno_unlocked, int, sovia_fileno_unlocked, (FILE* s), (s))                                   \
  X(fclose, int, sovia_fclose, (FILE* s), (s))                                                     \
  X(freopen, FILE*, sovia_freopen, (const char* p, const char* m, FILE* s), (p, m, s))             \
  X(freopen64, FILE*, sovia_freopen, (const char* p, const char* m, FILE* s), (p, m, s))

#define SOVIA_PRELOAD_SYMBOLS(X) \
  SOVIA_DATA_SYMBOLS(X)          \
  SOVIA_LEAVING_SYMBOLS(X)       \
  SOVIA_CONNECTION_SYMBOLS(X)    \
  SOVIA_DESCRIPTOR_SYMBOLS(X)    \
  SOVIA_READY_SYMBOLS(X)         \
  SOVIA_PROCESS_SYMBOLS(X)       \
  SOVIA_STDIO_SYMBOLS(X)

#define SOVIA_PRELOAD_SYMBOLS_BY_HAND(V) \
  SOVIA_DATA_SYMBOLS_BY_HAND(V)          \
  SOVIA_DESCRIPTOR_SYMBOLS_BY_HAND(V)    \
  SOVIA_READY_SYMBOLS_BY_HAND(V)         \
  SOVIA_PROCESS_SYMBOLS_BY_HAND(V)       \
  SOVIA_PASSING_SYMBOLS_BY_HAND(V)

#endif
