/*
 * A port by recompilation: maps the C library's names onto those of sovia.h, so that a program made of
 * C sources uses SOVIA for all its sockets without an edit:
 *
 *     cc -include sovia_names.h $(pkg-config --cflags sovia) ... $(pkg-config --libs sovia)
 *
 * or `#include <sovia_names.h>` as the first line of each file. All files of the program that handle
 * descriptors must be compiled with it.
 *
 * The names are mapped wherever they stand, not only where they are called, so that pointers to
 * functions are right too. A variable, a member or a static function of the program that has one of
 * these names just gets another one, everywhere. Two things need a hand: a member of that name in a
 * structure of the system's headers (cookie_io_functions_t is the only known one), before whose use
 * `#undef read` and so on; and C++, whose standard classes have members called read, close and the
 * like: there, call sovia_read ... by name, or run the program unchanged with `sovia run`.
 *
 * The system's headers that declare these names are included first and with all that they have
 * (_GNU_SOURCE), whatever the program asks for later: it then finds what it asks for.
 */
#ifndef SOVIA_SOVIA_NAMES_H
#define SOVIA_SOVIA_NAMES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#define SOVIA_NAMES_GNU_SOURCE
#endif

#include <aio.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "sovia.h"

/* The program may define it as it likes. */
#ifdef SOVIA_NAMES_GNU_SOURCE
#undef _GNU_SOURCE
#undef SOVIA_NAMES_GNU_SOURCE
#endif

/* ------------------------------------------------------------------ connections */

#undef socket
#define socket sovia_socket
#undef socketpair
#define socketpair sovia_socketpair
#undef bind
#define bind sovia_bind
#undef listen
#define listen sovia_listen
#undef accept
#define accept sovia_accept
#undef accept4
#define accept4 sovia_accept4
#undef connect
#define connect sovia_connect
#undef shutdown
#define shutdown sovia_shutdown
#undef getsockname
#define getsockname sovia_getsockname
#undef getpeername
#define getpeername sovia_getpeername
#undef getsockopt
#define getsockopt sovia_getsockopt
#undef setsockopt
#define setsockopt sovia_setsockopt
#undef sockatmark
#define sockatmark sovia_sockatmark

/* ------------------------------------------------------------------ data */

#undef send
#define send sovia_send
#undef sendto
#define sendto sovia_sendto
#undef sendmsg
#define sendmsg sovia_sendmsg
#undef sendmmsg
#define sendmmsg sovia_sendmmsg
#undef recv
#define recv sovia_recv
#undef recvfrom
#define recvfrom sovia_recvfrom
#undef recvmsg
#define recvmsg sovia_recvmsg
#undef recvmmsg
#define recvmmsg sovia_recvmmsg
#undef read
#define read sovia_read
#undef write
#define write sovia_write
#undef readv
#define readv sovia_readv
#undef writev
#define writev sovia_writev
#undef preadv2
#define preadv2 sovia_preadv2
#undef preadv64v2
#define preadv64v2 sovia_preadv2
#undef pwritev2
#define pwritev2 sovia_pwritev2
#undef pwritev64v2
#define pwritev64v2 sovia_pwritev2
#undef sendfile
#define sendfile sovia_sendfile
#undef sendfile64
#define sendfile64 sovia_sendfile
#undef splice
#define splice sovia_splice
#undef aio_read
#define aio_read sovia_aio_read
#undef aio_read64
#define aio_read64 sovia_aio_read
#undef aio_write
#define aio_write sovia_aio_write
#undef aio_write64
#define aio_write64 sovia_aio_write
#undef lio_listio
#define lio_listio sovia_lio_listio
#undef lio_listio64
#define lio_listio64 sovia_lio_listio

/* ------------------------------------------------------------------ descriptors */

#undef close
#define close sovia_close
#undef close_range
#define close_range sovia_close_range
#undef closefrom
#define closefrom sovia_closefrom
#undef dup
#define dup sovia_dup
#undef dup2
#define dup2 sovia_dup2
#undef dup3
#define dup3 sovia_dup3
#undef fcntl
#define fcntl sovia_fcntl
#undef fcntl64
#define fcntl64 sovia_fcntl
#undef ioctl
#define ioctl sovia_ioctl
#undef pidfd_getfd
#define pidfd_getfd sovia_pidfd_getfd

/* ------------------------------------------------------------------ readiness */

#undef poll
#define poll sovia_poll
#undef ppoll
#define ppoll sovia_ppoll
#undef select
#define select sovia_select
#undef pselect
#define pselect sovia_pselect
#undef epoll_create
#define epoll_create sovia_epoll_create
#undef epoll_create1
#define epoll_create1 sovia_epoll_create1
#undef epoll_ctl
#define epoll_ctl sovia_epoll_ctl
#undef epoll_wait
#define epoll_wait sovia_epoll_wait
#undef epoll_pwait
#define epoll_pwait sovia_epoll_pwait
#undef epoll_pwait2
#define epoll_pwait2 sovia_epoll_pwait2

/* ------------------------------------------------------------------ processes */

#undef fork
#define fork sovia_fork
#undef vfork
#define vfork sovia_vfork
#undef _Fork
#define _Fork sovia__Fork
#undef prctl
#define prctl sovia_prctl
#undef daemon
#define daemon sovia_daemon
#undef execve
#define execve sovia_execve
#undef execv
#define execv sovia_execv
#undef execvp
#define execvp sovia_execvp
#undef execvpe
#define execvpe sovia_execvpe
#undef execl
#define execl sovia_execl
#undef execlp
#define execlp sovia_execlp
#undef execle
#define execle sovia_execle
#undef fexecve
#define fexecve sovia_fexecve
#undef execveat
#define execveat sovia_execveat
#undef posix_spawn
#define posix_spawn sovia_posix_spawn
#undef posix_spawnp
#define posix_spawnp sovia_posix_spawnp
#undef posix_spawn_file_actions_adddup2
#define posix_spawn_file_actions_adddup2 sovia_posix_spawn_file_actions_adddup2
#undef system
#define system sovia_system
#undef popen
#define popen sovia_popen
#undef _exit
#define _exit sovia__exit
#undef _Exit
#define _Exit sovia__Exit

/* ------------------------------------------------------------------ stdio */

#undef fdopen
#define fdopen sovia_fdopen
#undef fileno
#define fileno sovia_fileno
#undef fileno_unlocked
#define fileno_unlocked sovia_fileno_unlocked
#undef fclose
#define fclose sovia_fclose
#undef freopen
#define freopen sovia_freopen
#undef freopen64
#define freopen64 sovia_freopen
#undef dprintf
#define dprintf sovia_dprintf
#undef vdprintf
#define vdprintf sovia_vdprintf

/* ------------------------------------------------------------------ signals
 * There is a structure of the same name: only calls are mapped. */

#undef sigaction
#define sigaction(signal, action, before) sovia_sigaction(signal, action, before)
#undef siginterrupt
#define siginterrupt sovia_siginterrupt
#undef signal
#define signal(number, handler) sovia_signal(number, handler)
#undef bsd_signal
#define bsd_signal sovia_signal
#undef ssignal
#define ssignal sovia_signal
#undef sigset
#define sigset sovia_sigset
#undef sysv_signal
#define sysv_signal sovia_sysv_signal

#endif
