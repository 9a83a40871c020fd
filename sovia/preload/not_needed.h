// Functions of the C library that take descriptors, or do something with them, and that libsovia-preload.so leaves
// alone, with the reason. Together with symbols.h the list is complete.
//
// X(symbol, reason)
#ifndef VIADUCT_SOVIA_PRELOAD_NOT_NEEDED_H
#define VIADUCT_SOVIA_PRELOAD_NOT_NEEDED_H

#define SOVIA_SAYS_KERNEL "the kernel's answer is right: connections are its own"
#define SOVIA_NO_SOCKET "fails on sockets, as the kernel says"
#define SOVIA_HANDLERS "its fork runs the library's handlers, its child execs or has no socket on its lane"
#define SOVIA_OTHER_KIND "for descriptors of another kind"
#define SOVIA_STREAMS "streams on sockets call the library"

#define SOVIA_NOT_NEEDED(X)                                                                       \
  X(bind, SOVIA_SAYS_KERNEL)                                                                      \
  X(bindresvport, SOVIA_SAYS_KERNEL)                                                              \
  X(bindresvport6, SOVIA_SAYS_KERNEL)                                                             \
  X(listen, SOVIA_SAYS_KERNEL)                                                                    \
  X(getsockname, SOVIA_SAYS_KERNEL)                                                               \
  X(getpeername, SOVIA_SAYS_KERNEL)                                                               \
  X(isfdtype, SOVIA_SAYS_KERNEL)                                                                  \
  X(isatty, SOVIA_SAYS_KERNEL)                                                                    \
  X(fstat, SOVIA_SAYS_KERNEL)                                                                     \
  X(fstat64, SOVIA_SAYS_KERNEL)                                                                   \
  X(__fxstat, SOVIA_SAYS_KERNEL)                                                                  \
  X(__fxstat64, SOVIA_SAYS_KERNEL)                                                                \
  X(fstatat, SOVIA_SAYS_KERNEL)                                                                   \
  X(fstatat64, SOVIA_SAYS_KERNEL)                                                                 \
  X(__fxstatat, SOVIA_SAYS_KERNEL)                                                                \
  X(__fxstatat64, SOVIA_SAYS_KERNEL)                                                              \
  X(statx, SOVIA_SAYS_KERNEL)                                                                     \
  X(fstatfs, SOVIA_SAYS_KERNEL)                                                                   \
  X(fstatfs64, SOVIA_SAYS_KERNEL)                                                                 \
  X(fstatvfs, SOVIA_SAYS_KERNEL)                                                                  \
  X(fstatvfs64, SOVIA_SAYS_KERNEL)                                                                \
  X(fchmod, SOVIA_SAYS_KERNEL)                                                                    \
  X(fchown, SOVIA_SAYS_KERNEL)                                                                    \
  X(fpathconf, SOVIA_SAYS_KERNEL)                                                                 \
  X(fgetxattr, SOVIA_SAYS_KERNEL)                                                                 \
  X(fsetxattr, SOVIA_SAYS_KERNEL)                                                                 \
  X(flistxattr, SOVIA_SAYS_KERNEL)                                                                \
  X(fremovexattr, SOVIA_SAYS_KERNEL)                                                              \
  X(futimens, SOVIA_SAYS_KERNEL)                                                                  \
  X(futimes, SOVIA_SAYS_KERNEL)                                                                   \
  X(flock, SOVIA_SAYS_KERNEL)                                                                     \
  X(aio_cancel, SOVIA_SAYS_KERNEL)                                                                \
  X(aio_cancel64, SOVIA_SAYS_KERNEL)                                                              \
  X(lockf, SOVIA_NO_SOCKET)                                                                       \
  X(lockf64, SOVIA_NO_SOCKET)                                                                     \
  X(lseek, SOVIA_NO_SOCKET)                                                                       \
  X(lseek64, SOVIA_NO_SOCKET)                                                                     \
  X(llseek, SOVIA_NO_SOCKET)                                                                      \
  X(pread, SOVIA_NO_SOCKET)                                                                       \
  X(pread64, SOVIA_NO_SOCKET)                                                                     \
  X(__pread_chk, SOVIA_NO_SOCKET)                                                                 \
  X(__pread64, SOVIA_NO_SOCKET)                                                                   \
  X(__pread64_chk, SOVIA_NO_SOCKET)                                                               \
  X(pwrite, SOVIA_NO_SOCKET)                                                                      \
  X(pwrite64, SOVIA_NO_SOCKET)                                                                    \
  X(__pwrite64, SOVIA_NO_SOCKET)                                                                  \
  X(preadv, SOVIA_NO_SOCKET)                                                                      \
  X(preadv64, SOVIA_NO_SOCKET)                                                                    \
  X(pwritev, SOVIA_NO_SOCKET)                                                                     \
  X(pwritev64, SOVIA_NO_SOCKET)                                                                   \
  X(ftruncate, SOVIA_NO_SOCKET)                                                                   \
  X(ftruncate64, SOVIA_NO_SOCKET)                                                                 \
  X(fallocate, SOVIA_NO_SOCKET)                                                                   \
  X(fallocate64, SOVIA_NO_SOCKET)                                                                 \
  X(posix_fallocate, SOVIA_NO_SOCKET)                                                             \
  X(posix_fallocate64, SOVIA_NO_SOCKET)                                                           \
  X(posix_fadvise, SOVIA_NO_SOCKET)                                                               \
  X(posix_fadvise64, SOVIA_NO_SOCKET)                                                             \
  X(readahead, SOVIA_NO_SOCKET)                                                                   \
  X(copy_file_range, SOVIA_NO_SOCKET)                                                             \
  X(fsync, SOVIA_NO_SOCKET)                                                                       \
  X(fdatasync, SOVIA_NO_SOCKET)                                                                   \
  X(syncfs, SOVIA_NO_SOCKET)                                                                      \
  X(sync_file_range, SOVIA_NO_SOCKET)                                                             \
  X(mmap, SOVIA_NO_SOCKET)                                                                        \
  X(mmap64, SOVIA_NO_SOCKET)                                                                      \
  X(fchdir, SOVIA_NO_SOCKET)                                                                      \
  X(fdopendir, SOVIA_NO_SOCKET)                                                                   \
  X(getdents64, SOVIA_NO_SOCKET)                                                                  \
  X(getdirentries, SOVIA_NO_SOCKET)                                                               \
  X(getdirentries64, SOVIA_NO_SOCKET)                                                             \
  X(tee, SOVIA_NO_SOCKET)                                                                         \
  X(vmsplice, SOVIA_NO_SOCKET)                                                                    \
  X(open_by_handle_at, SOVIA_NO_SOCKET)                                                           \
  X(setns, SOVIA_NO_SOCKET)                                                                       \
  X(tcdrain, SOVIA_NO_SOCKET)                                                                     \
  X(tcflow, SOVIA_NO_SOCKET)                                                                      \
  X(tcflush, SOVIA_NO_SOCKET)                                                                     \
  X(tcgetattr, SOVIA_NO_SOCKET)                                                                   \
  X(tcsetattr, SOVIA_NO_SOCKET)                                                                   \
  X(tcgetpgrp, SOVIA_NO_SOCKET)                                                                   \
  X(tcsetpgrp, SOVIA_NO_SOCKET)                                                                   \
  X(tcgetsid, SOVIA_NO_SOCKET)                                                                    \
  X(tcsendbreak, SOVIA_NO_SOCKET)                                                                 \
  X(ttyname, SOVIA_NO_SOCKET)                                                                     \
  X(ttyname_r, SOVIA_NO_SOCKET)                                                                   \
  X(ptsname, SOVIA_NO_SOCKET)                                                                     \
  X(ptsname_r, SOVIA_NO_SOCKET)                                                                   \
  X(__ptsname_r_chk, SOVIA_NO_SOCKET)                                                             \
  X(grantpt, SOVIA_NO_SOCKET)                                                                     \
  X(unlockpt, SOVIA_NO_SOCKET)                                                                    \
  X(openat, "a directory's descriptor, and never a socket's new one")                             \
  X(openat64, "a directory's descriptor, and never a socket's new one")                           \
  X(__openat_2, "a directory's descriptor, and never a socket's new one")                         \
  X(__openat64_2, "a directory's descriptor, and never a socket's new one")                       \
  X(faccessat, SOVIA_OTHER_KIND)                                                                  \
  X(fchmodat, SOVIA_OTHER_KIND)                                                                   \
  X(fchownat, SOVIA_OTHER_KIND)                                                                   \
  X(futimesat, SOVIA_OTHER_KIND)                                                                  \
  X(utimensat, SOVIA_OTHER_KIND)                                                                  \
  X(linkat, SOVIA_OTHER_KIND)                                                                     \
  X(symlinkat, SOVIA_OTHER_KIND)                                                                  \
  X(unlinkat, SOVIA_OTHER_KIND)                                                                   \
  X(renameat, SOVIA_OTHER_KIND)                                                                   \
  X(renameat2, SOVIA_OTHER_KIND)                                                                  \
  X(readlinkat, SOVIA_OTHER_KIND)                                                                 \
  X(__readlinkat_chk, SOVIA_OTHER_KIND)                                                           \
  X(mkdirat, SOVIA_OTHER_KIND)                                                                    \
  X(mknodat, SOVIA_OTHER_KIND)                                                                    \
  X(mkfifoat, SOVIA_OTHER_KIND)                                                                   \
  X(scandirat, SOVIA_OTHER_KIND)                                                                  \
  X(scandirat64, SOVIA_OTHER_KIND)                                                                \
  X(name_to_handle_at, SOVIA_OTHER_KIND)                                                          \
  X(eventfd_read, SOVIA_OTHER_KIND)                                                               \
  X(eventfd_write, SOVIA_OTHER_KIND)                                                              \
  X(timerfd_gettime, SOVIA_OTHER_KIND)                                                            \
  X(timerfd_settime, SOVIA_OTHER_KIND)                                                            \
  X(signalfd, SOVIA_OTHER_KIND)                                                                   \
  X(inotify_add_watch, SOVIA_OTHER_KIND)                                                          \
  X(inotify_rm_watch, SOVIA_OTHER_KIND)                                                           \
  X(fanotify_mark, SOVIA_OTHER_KIND)                                                              \
  X(pidfd_send_signal, SOVIA_OTHER_KIND)                                                          \
  X(process_madvise, SOVIA_OTHER_KIND)                                                            \
  X(process_mrelease, SOVIA_OTHER_KIND)                                                           \
  X(backtrace_symbols_fd, "writes when a program fails; to a socket it goes through the kernel")  \
  X(posix_spawn_file_actions_addclose, "what the child closes is not the parent's")               \
  X(posix_spawn_file_actions_addclosefrom_np, "what the child closes is not the parent's")        \
  X(posix_spawn_file_actions_addfchdir_np, SOVIA_OTHER_KIND)                                      \
  X(posix_spawn_file_actions_addopen, SOVIA_OTHER_KIND)                                           \
  X(posix_spawn_file_actions_addtcsetpgrp_np, SOVIA_OTHER_KIND)                                   \
  X(login_tty, "standard streams never have a lane")                                              \
  X(forkpty, SOVIA_HANDLERS)                                                                      \
  X(wordexp, SOVIA_HANDLERS)                                                                      \
  X(pclose, "a pipe")                                                                             \
  X(quick_exit, "runs the library's handler")                                                     \
  X(exit, "runs the library's destructor")                                                        \
  X(fcloseall, SOVIA_STREAMS)                                                                     \
  X(fopencookie, SOVIA_STREAMS)

#endif
