/*
 * SOVIA: sockets over VIA. The Berkeley socket calls under the prefix sovia_, and with them all other
 * calls that a program makes on descriptors which may be sockets.
 *
 * Each function has the arguments, the results and the errno of the C library's function of the same name without the
 * prefix, and may be used in its place on any descriptor: for all but TCP sockets it calls the C library. Descriptors
 * are those of the kernel. A TCP connection to a host that also uses this library, on a link that a VIA agent serves
 * at both ends, goes over VIA once it is worth it; every other stays with the kernel. See sovia(7) and libsovia(3).
 *
 * A program either calls these functions by name, or is compiled with sovia_names.h, which maps the plain names onto
 * them, or is run unchanged by `sovia run`. It must use them for everything it does with its sockets, close, dup, fork
 * and exec included: other calls read and write the kernel's side of a connection only.
 *
 * May be used from C (C89 with `long long`, or later) and C++.
 */
#ifndef SOVIA_SOVIA_H
#define SOVIA_SOVIA_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* takes effect if no system header was included before */
#endif

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct aiocb;
struct mmsghdr;
struct sigevent;

#ifdef __cplusplus
#define SOVIA_BEGIN extern "C" {
#define SOVIA_END }
#else
#define SOVIA_BEGIN
#define SOVIA_END
#endif
#define SOVIA_API __attribute__((visibility("default")))
#define SOVIA_FORMAT(position, first) __attribute__((format(printf, position, first)))
#define SOVIA_SENTINEL __attribute__((sentinel))
#define SOVIA_NO_RETURN __attribute__((noreturn))

/* A level of setsockopt and getsockopt, and its options, for TCP sockets. Without the library the kernel says
 * ENOPROTOOPT.
 *
 *     SOVIA_MESSAGES  int, not 0: each send is a message, and each receive takes one, as with SOCK_SEQPACKET.
 *                     To be set at both ends, before data goes over the connection (EISCONN); an
 *                     accepted socket has it from its listener. See sovia(7).
 *
 * sovia_socket(AF_INET or AF_INET6, SOCK_SEQPACKET, IPPROTO_TCP) makes a TCP socket that has it. */
#define SOL_SOVIA 21327
#define SOVIA_MESSAGES 1

SOVIA_BEGIN

/* ------------------------------------------------------------------ connections */

SOVIA_API int sovia_socket(int domain, int type, int protocol);
SOVIA_API int sovia_socketpair(int domain, int type, int protocol, int descriptors[2]);
SOVIA_API int sovia_bind(int fd, const struct sockaddr *address, socklen_t length);
SOVIA_API int sovia_listen(int fd, int backlog);
SOVIA_API int sovia_accept(int fd, struct sockaddr *address, socklen_t *length);
SOVIA_API int sovia_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
SOVIA_API int sovia_connect(int fd, const struct sockaddr *address, socklen_t length);
SOVIA_API int sovia_shutdown(int fd, int how);
SOVIA_API int sovia_getsockname(int fd, struct sockaddr *address, socklen_t *length);
SOVIA_API int sovia_getpeername(int fd, struct sockaddr *address, socklen_t *length);
SOVIA_API int sovia_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
SOVIA_API int sovia_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
SOVIA_API int sovia_sockatmark(int fd);

/* ------------------------------------------------------------------ data
 * preadv2 and pwritev2 take the offset -1 on a socket; the other calls with an offset fail there with
 * ESPIPE, so they need no mapping. */

SOVIA_API ssize_t sovia_send(int fd, const void *data, size_t bytes, int flags);
SOVIA_API ssize_t sovia_sendto(int fd, const void *data, size_t bytes, int flags,
                               const struct sockaddr *address, socklen_t length);
SOVIA_API ssize_t sovia_sendmsg(int fd, const struct msghdr *message, int flags);
SOVIA_API int sovia_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);
SOVIA_API ssize_t sovia_recv(int fd, void *data, size_t bytes, int flags);
SOVIA_API ssize_t sovia_recvfrom(int fd, void *data, size_t bytes, int flags,
                                 struct sockaddr *address, socklen_t *length);
SOVIA_API ssize_t sovia_recvmsg(int fd, struct msghdr *message, int flags);
SOVIA_API int sovia_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
                             struct timespec *timeout);
SOVIA_API ssize_t sovia_read(int fd, void *data, size_t bytes);
SOVIA_API ssize_t sovia_write(int fd, const void *data, size_t bytes);
SOVIA_API ssize_t sovia_readv(int fd, const struct iovec *pieces, int count);
SOVIA_API ssize_t sovia_writev(int fd, const struct iovec *pieces, int count);
SOVIA_API ssize_t sovia_preadv2(int fd, const struct iovec *pieces, int count, off_t offset,
                                int flags);
SOVIA_API ssize_t sovia_pwritev2(int fd, const struct iovec *pieces, int count, off_t offset,
                                 int flags);
SOVIA_API ssize_t sovia_sendfile(int out, int in, off_t *offset, size_t bytes);
SOVIA_API ssize_t sovia_splice(int in, loff_t *in_offset, int out, loff_t *out_offset, size_t bytes,
                               unsigned int flags);

SOVIA_API int sovia_aio_read(struct aiocb *request);
SOVIA_API int sovia_aio_write(struct aiocb *request);
SOVIA_API int sovia_lio_listio(int mode, struct aiocb *const requests[], int count,
                               struct sigevent *event);

/* ------------------------------------------------------------------ tagged buffers
 * The peer of a connection that has SOVIA_MESSAGES puts data to a buffer of this process, or gets it from there,
 * without a call of this program's on it: over VIA by RDMA, else in the stream of the connection.
 *
 * A tag names a buffer, for one connection. The program hands it to its peer as it is, in a message say. It is good
 * until sovia_untag, the last close of the socket, or the end of the process; a child has none of its parent's.
 *
 * Sizes and offsets are in bytes. Buffers stay the caller's; the library allocates nothing that the caller has to free.
 * Any thread may call these functions, several at once; a put and a get of the same bytes at the same time mix old and
 * new ones. The functions wait, whatever O_NONBLOCK and the time limits of the socket say. Puts and gets are done in no
 * certain order, neither among themselves nor with messages; but those that sovia_done has waited for come before those
 * that begin later.
 *
 * Where RDMA can't be used the peer does its part while one of its threads is in a receive, in FIONREAD, or in one of
 * the last three of these functions on the socket; sovia_poll tells of it as of something to read, so that a receive
 * that does not wait (EAGAIN) is enough. The same holds for the first put or get of each tag on each lane. */

/* The peer's rights to a buffer. */
#define SOVIA_TAG_PUT 1
#define SOVIA_TAG_GET 2

/* A tag has the same layout on all hosts. Programs only pass it on. */
struct sovia_tag {
  unsigned char bytes[32];
};

/* Names `bytes` bytes at `buffer`, which must stay until the tag is withdrawn. `access`: SOVIA_TAG_PUT, SOVIA_TAG_GET,
 * or both. Memory that is not there is found by the peer: EFAULT.
 * -1 with errno: EBADF, ENOTSOCK; EOPNOTSUPP without SOVIA_MESSAGES; EINVAL for another access, or no bytes; ENOMEM. */
SOVIA_API int sovia_tag(int fd, void *buffer, size_t bytes, int access, struct sovia_tag *tag);

/* Withdraws a tag of this process's: when it has returned, the buffer is neither written nor read any more. A put or
 * get that comes too late ends with EACCES at the peer; a late one
 * by RDMA makes the connection go on without a lane before that.
 * -1 with errno: EBADF, ENOTSOCK; EINVAL if it is no tag of this socket. */
SOVIA_API int sovia_untag(int fd, const struct sovia_tag *tag);

/* Begins to write to the peer's buffer, `offset` bytes from its beginning. `data` must stay as it is until
 * sovia_done, also if this fails with EINTR.
 * -1 with errno: EBADF, ENOTSOCK; EOPNOTSUPP without SOVIA_MESSAGES; EINVAL if it is no tag; EACCES if the tag does
 * not allow it; ERANGE if it is not inside of the buffer: then nothing is written. EPIPE, ECONNRESET, ENOTCONN, EPROTO
 * if the connection has ended; EFAULT; ENOBUFS as at sovia_done; EINTR. */
SOVIA_API int sovia_put(int fd, const struct sovia_tag *tag, size_t offset, const void *data, size_t bytes);

/* Begins to read from the peer's buffer to `data`, which has the bytes after sovia_done. Otherwise as sovia_put. */
SOVIA_API int sovia_get(int fd, const struct sovia_tag *tag, size_t offset, void *data, size_t bytes);

/* Waits until all puts and gets that have begun on this socket are done, at most for so many milliseconds (-1: for
 * ever). Messages that come meanwhile are kept for receives.
 * -1 with errno: EBADF, ENOTSOCK; EOPNOTSUPP. ETIMEDOUT, EINTR: some are not done yet; ENOBUFS: the same, as 64 MB
 * of messages wait to be received first. Any other errno: none is under way any more, and some have failed. The first
 * failure is returned, once: EACCES, ERANGE if the peer refused it, EFAULT if memory is not there, at either end,
 * ENOMEM at the peer; ECONNRESET, EPROTO if the connection has ended. */
SOVIA_API int sovia_done(int fd, int timeout);

/* ------------------------------------------------------------------ descriptors */

SOVIA_API int sovia_close(int fd);
SOVIA_API int sovia_close_range(unsigned int first, unsigned int last, int flags);
SOVIA_API void sovia_closefrom(int first);
SOVIA_API int sovia_dup(int fd);
SOVIA_API int sovia_dup2(int fd, int copy);
SOVIA_API int sovia_dup3(int fd, int copy, int flags);
SOVIA_API int sovia_fcntl(int fd, int command, ...);
SOVIA_API int sovia_ioctl(int fd, unsigned long request, ...);
SOVIA_API int sovia_pidfd_getfd(int pidfd, int fd, unsigned int flags);

/* ------------------------------------------------------------------ readiness */

SOVIA_API int sovia_poll(struct pollfd *fds, nfds_t count, int timeout);
SOVIA_API int sovia_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                          const sigset_t *mask);
SOVIA_API int sovia_select(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
                           struct timeval *timeout);
SOVIA_API int sovia_pselect(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
                            const struct timespec *timeout, const sigset_t *mask);
SOVIA_API int sovia_epoll_create(int size);
SOVIA_API int sovia_epoll_create1(int flags);
SOVIA_API int sovia_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
SOVIA_API int sovia_epoll_wait(int epoll, struct epoll_event *events, int room, int timeout);
SOVIA_API int sovia_epoll_pwait(int epoll, struct epoll_event *events, int room, int timeout,
                                const sigset_t *mask);
SOVIA_API int sovia_epoll_pwait2(int epoll, struct epoll_event *events, int room,
                                 const struct timespec *timeout, const sigset_t *mask);

/* As sigaction(2), signal(3), sysv_signal(3), sigset(3) and siginterrupt(3). Handlers that are set by them do not
 * run while the library has locks: they may use sockets, leave by longjmp and end the process. */
SOVIA_API int sovia_sigaction(int signal, const struct sigaction *action, struct sigaction *before);
SOVIA_API void (*sovia_signal(int signal, void (*handler)(int)))(int);
SOVIA_API void (*sovia_sysv_signal(int signal, void (*handler)(int)))(int);
SOVIA_API void (*sovia_sigset(int signal, void (*disposition)(int)))(int);
SOVIA_API int sovia_siginterrupt(int signal, int interrupts);

/* ------------------------------------------------------------------ processes
 * sovia_vfork is sovia_fork: the child has its own memory, and the parent goes on at once. */

SOVIA_API pid_t sovia_fork(void);
SOVIA_API pid_t sovia_vfork(void);
SOVIA_API pid_t sovia__Fork(void);
SOVIA_API int sovia_daemon(int stay_in_directory, int keep_streams);
SOVIA_API int sovia_execve(const char *path, char *const arguments[], char *const environment[]);
SOVIA_API int sovia_execv(const char *path, char *const arguments[]);
SOVIA_API int sovia_execvp(const char *file, char *const arguments[]);
SOVIA_API int sovia_execvpe(const char *file, char *const arguments[], char *const environment[]);
SOVIA_API int sovia_execl(const char *path, const char *argument, ...) SOVIA_SENTINEL;
SOVIA_API int sovia_execlp(const char *file, const char *argument, ...) SOVIA_SENTINEL;
SOVIA_API int sovia_execle(const char *path, const char *argument, ...);
SOVIA_API int sovia_fexecve(int fd, char *const arguments[], char *const environment[]);
SOVIA_API int sovia_execveat(int directory, const char *path, char *const arguments[],
                             char *const environment[], int flags);
SOVIA_API int sovia_posix_spawn(pid_t *pid, const char *path,
                                const posix_spawn_file_actions_t *actions,
                                const posix_spawnattr_t *attributes, char *const arguments[],
                                char *const environment[]);
SOVIA_API int sovia_posix_spawnp(pid_t *pid, const char *file,
                                 const posix_spawn_file_actions_t *actions,
                                 const posix_spawnattr_t *attributes, char *const arguments[],
                                 char *const environment[]);
SOVIA_API int sovia_posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd,
                                                     int copy);
SOVIA_API int sovia_system(const char *command);
SOVIA_API FILE *sovia_popen(const char *command, const char *mode);
/* Connections leave their lanes for good before a seccomp filter is installed. */
SOVIA_API int sovia_prctl(int option, ...);
SOVIA_API void sovia__exit(int status) SOVIA_NO_RETURN;
SOVIA_API void sovia__Exit(int status) SOVIA_NO_RETURN;

/* ------------------------------------------------------------------ stdio
 * A stream on a socket reads and writes through sovia_read and sovia_write; all functions of stdio
 * work on it. fileno() of the C library does not know its descriptor, sovia_fileno does. */

SOVIA_API FILE *sovia_fdopen(int fd, const char *mode);
SOVIA_API int sovia_fileno(FILE *stream);
SOVIA_API int sovia_fileno_unlocked(FILE *stream);
SOVIA_API int sovia_fclose(FILE *stream);
SOVIA_API FILE *sovia_freopen(const char *path, const char *mode, FILE *stream);
SOVIA_API int sovia_dprintf(int fd, const char *format, ...) SOVIA_FORMAT(2, 3);
SOVIA_API int sovia_vdprintf(int fd, const char *format, va_list arguments) SOVIA_FORMAT(2, 0);

/* ------------------------------------------------------------------ about SOVIA itself */

/* "0.1.0" */
SOVIA_API const char *sovia_version(void);

/* The route of a socket: 0 if the data of one direction at least goes over VIA now, 1 if all of it goes
 * through the kernel; -1 with errno EBADF or ENOTSOCK if it is no TCP socket. */
SOVIA_API int sovia_route(int fd);

SOVIA_END

#endif
