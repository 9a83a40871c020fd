// Copying and closing descriptors.
#include <linux/close_range.h>
#include <sys/syscall.h>

#include "sovia/api/api.h"
#include "sovia/datagram/datagram_table.h"
#include "sovia/poll/epoll_set.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/program/fd_relocation.h"
#include "sovia/socket/lane_pin.h"
#include "sovia/socket/waiting_call.h"

using namespace viaduct::sovia;

namespace {

// The descriptor is about to be closed or replaced. The last descriptor of a socket ends its lane.
void let_go(int fd) {
  datagram::table::closing(fd);
  const SocketRef socket = table::closing(fd);
  epoll_sets::closing(fd, socket.get());
  if (socket && !keep_for_waiting(*socket, fd) && socket->descriptors() == 0) socket->release(fd);
}

// Frees a descriptor number that the program wants. False if it is the library's and can't be freed, as other threads
// may be about to use it.
bool vacate(int fd) {
  if (!own_descriptors::has(fd)) return true;
  if (fd != counters::descriptor()) return give_way(fd);
  counters::forget_descriptor();
  return true;
}

bool is_open(int fd) {
  const KeepErrno keep;
  return libc::fcntl(fd, F_GETFD) >= 0;
}

// dup2 and dup3, for different descriptors. `make` is the kernel's call.
template <class Make>
int replace(int fd, int copy, Make&& make) {
  const signals::Inside inside;
  const bool ours = table::peek(fd) != nullptr;
  if (own_descriptors::has(copy)) {
    if (!is_open(fd)) return failed(EBADF);
    if (!vacate(copy)) return failed(EBUSY);
  }
  const bool known = table::peek(copy) != nullptr;
  const bool replaces = (known || epoll_sets::knows(copy) || datagram::table::knows(copy)) && is_open(fd);
  datagram::table::give_up(fd, Reason::kShared);
  if (replaces) let_go(copy);
  // The socket leaves its lane for good, as stdio would write to a standard stream without the library.
  if (ours && copy <= STDERR_FILENO) leave_for_good(fd, Reason::kStandardStream);
  const int result = make();
  if (result < 0 && replaces && known) table::opened(copy, table::Origin::kInherited);
  if (result < 0) return result;
  if (ours || table::is_tcp(fd)) return copied(fd, copy);
  table::opened_foreign(copy);
  epoll_sets::copied(fd, copy);
  return result;
}

int close_numbers(unsigned first, unsigned last, int flags) {
  using Syscall = long (*)(long, ...);
  return static_cast<int>(SOVIA_LATE_AS(Syscall, syscall)(SYS_close_range, first, last, flags));
}

}  // namespace

int viaduct::sovia::copied(int fd, int copy) {
  if (copy < 0) return copy;
  const signals::Inside inside;
  const KeepErrno keep;
  datagram::table::give_up(fd, Reason::kShared);
  table::copied(fd, copy);
  epoll_sets::copied(fd, copy);
  return copy;
}

int sovia_close(int fd) {
  return keeping_errno([&]() -> int {
    libc::prepare();
    if (own_descriptors::has(fd)) return failed(EBADF);
    {
      const signals::Inside inside;
      let_go(fd);
    }
    return libc::close(fd);
  });
}

int sovia_close_range(unsigned int first, unsigned int last, int flags) {
  return keeping_errno([&]() -> int {
    libc::prepare();
    constexpr unsigned kKnown = CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC;
    const unsigned given = static_cast<unsigned>(flags);
    if (first > last || (given & ~kKnown) != 0 || (given & CLOSE_RANGE_CLOEXEC) != 0) {
      return close_numbers(first, last, flags);
    }
    const signals::Inside inside;
    table::for_each([=](int fd, Socket&) {
      if (static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last) let_go(fd);
    });
    epoll_sets::closing_range(first, last);
    datagram::table::closing_range(first, last);

    // Closes the range around the library's own descriptors.
    int result = 0;
    for (;;) {
      const int own = first > 0x7fffffffu ? -1 : own_descriptors::next_from(static_cast<int>(first));
      if (own < 0 || static_cast<unsigned>(own) > last) break;
      const unsigned number = static_cast<unsigned>(own);
      if (number > first) result = close_numbers(first, number - 1, flags);
      if (result != 0 || number == last) return result;
      first = number + 1;
    }
    return close_numbers(first, last, flags);
  });
}

void sovia_closefrom(int first) {
  const unsigned from = first < 0 ? 0u : static_cast<unsigned>(first);
  if (sovia_close_range(from, ~0u, 0) == 0) return;
  for (int fd = static_cast<int>(sysconf(_SC_OPEN_MAX)) - 1; fd >= static_cast<int>(from); --fd) {
    sovia_close(fd);
  }
}

int sovia_dup(int fd) {
  libc::prepare();
  return copied(fd, libc::dup(fd));
}

int sovia_dup2(int fd, int copy) {
  return keeping_errno([&]() -> int {
    libc::prepare();
    if (fd == copy) return libc::dup2(fd, copy);
    return replace(fd, copy, [=] { return libc::dup2(fd, copy); });
  });
}

int sovia_dup3(int fd, int copy, int flags) {
  return keeping_errno([&]() -> int {
    libc::prepare();
    if (fd == copy) return libc::dup3(fd, copy, flags);
    return replace(fd, copy, [=] { return libc::dup3(fd, copy, flags); });
  });
}

int sovia_pidfd_getfd(int pidfd, int fd, unsigned int flags) {
  const int got = static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, fd, flags));
  if (got >= 0) {
    const KeepErrno keep;
    table::opened(got, table::Origin::kReceived);
    epoll_sets::received(got);
  }
  return got;
}
