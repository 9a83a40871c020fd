// The system calls of the library as the simulation has them: see vipl/process/sys.h, whose place this file
// takes when libvipl is compiled for it. Time is virtual, threads are fibers, and the other end of
// a socket is an agent of the simulated world: tests/sim/world/simulated_sys.cc.
#ifndef VIADUCT_TESTS_SIM_SEAM_VIPL_PROCESS_SYS_H
#define VIADUCT_TESTS_SIM_SEAM_VIPL_PROCESS_SYS_H

#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>

namespace viaduct::vipl::sys {

inline int out_of_the_way(int fd) { return fd; }
int duplicate(int fd);

int socket(int domain, int type, int protocol);
int connect(int fd, const sockaddr* address, socklen_t bytes);
int shutdown(int fd, int how);
int getsockopt(int fd, int level, int name, void* value, socklen_t* bytes);
int setsockopt(int fd, int level, int name, const void* value, socklen_t bytes);
long send(int fd, const void* data, std::size_t bytes, int flags);
long recv(int fd, void* data, std::size_t bytes, int flags);
long recvmsg(int fd, msghdr* message, int flags);
int close(int fd);
long read(int fd, void* data, std::size_t bytes);
long write(int fd, const void* data, std::size_t bytes);
int get_seals(int fd);
long seek_end(int fd);
int eventfd();
// Ports of the simulation have no trains.
inline void pipe(int (&ends)[2]) { ends[0] = ends[1] = -1; }
// Sleeps have timeouts of their own.
inline int timer() { return -1; }
inline bool set_timer(int, std::uint64_t) { return false; }
int poll(pollfd* fds, nfds_t count, int timeout_ms);
int poll_ns(pollfd* fds, nfds_t count, std::uint64_t timeout_ns, const sigset_t* mask = nullptr);
long random(void* data, std::size_t bytes);
void* map(std::size_t bytes, int fd);
void unmap(void* at, std::size_t bytes);
// For processes that attach, of which there are none here.
inline long sendmsg(int, const msghdr*, int) { return -1; }
inline int open(const char*, int) { return -1; }
inline int socketpair(int, int (&)[2]) { return -1; }
inline long pread(int, void*, std::size_t, std::uint64_t) { return -1; }
inline long pwrite(int, const void*, std::size_t, std::uint64_t) { return -1; }
// For sessions that go over to another agent, which none does here.
inline void replace(int, int) {}
inline bool move_over(void*, std::size_t, void*) { return false; }

// Another fiber may run before it returns.
std::uint64_t monotonic_ns();
void yield();
inline int process() { return 1; }
int thread();
bool thread_lives(int id);
inline void name_thread(const char*) {}
inline int membarrier(int) { return 0; }
inline std::uint64_t shorten_slice(int) { return 0; }
inline void restore_slice(int, std::uint64_t) {}
inline unsigned user() { return 0; }
int affinity(void* mask, std::size_t bytes);

int futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::uint64_t deadline_ns);
void futex_wake(std::atomic<std::uint32_t>& word, int count = INT_MAX);

}  // namespace viaduct::vipl::sys

#endif
