#include "sovia/socket/table.h"

#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/seccomp.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/lane_life.h"
#include "sovia/socket/socket_pool.h"

namespace viaduct::sovia::table {

constinit Entry* g_entries = nullptr;
constinit unsigned g_limit = 0;

namespace {

// The kernel gives no higher numbers unless fs.nr_open was raised. Sockets with higher numbers have no lanes.
constexpr unsigned kMostDescriptors = 1u << 20;

constinit std::atomic<int> g_highest{-1};  // the highest descriptor that ever was a socket of ours
constinit std::atomic<bool> g_failed{false};

constexpr bool is_socket(std::uintptr_t entry) { return entry > kTcpForeign; }
Socket* socket_of(std::uintptr_t entry) { return reinterpret_cast<Socket*>(entry); }
std::uintptr_t entry_of(Socket* socket) { return reinterpret_cast<std::uintptr_t>(socket); }

Entry* map_entries(std::size_t count) {
  void* const memory = mmap(nullptr, count * sizeof(Entry), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory != MAP_FAILED ? static_cast<Entry*>(memory) : nullptr;
}

// A program that locks all its memory (mlockall) gets all of the table at once, and may have no more of such memory: its
// table is as long as its present limit of descriptors. The kernel tells by refusing to drop the memory of the table.
Entry* map_table(unsigned& count) {
  count = kMostDescriptors;
  Entry* const whole = map_entries(count);
  if (whole != nullptr && madvise(whole, count * sizeof(Entry), MADV_DONTNEED) == 0) return whole;
  if (whole != nullptr) munmap(whole, count * sizeof(Entry));
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return nullptr;
  count = static_cast<unsigned>(std::min<rlim_t>(limit.rlim_cur, kMostDescriptors));
  return map_entries(count);
}

// Makes the table once. Two threads may do so at the same time: the second gives its memory back.
bool prepared() {
  static constinit std::atomic<Entry*> chosen{nullptr};
  if (__atomic_load_n(&g_limit, __ATOMIC_ACQUIRE) != 0) return true;
  if (g_failed.load()) return false;
  libc::prepare();
  const int saved = errno;
  unsigned count;
  Entry* const memory = map_table(count);
  errno = saved;
  if (memory == nullptr) {
    g_failed.store(true);  // all calls go to the kernel then
    return false;
  }
  Entry* none = nullptr;
  if (chosen.compare_exchange_strong(none, memory)) {
    __atomic_store_n(&g_entries, memory, __ATOMIC_RELEASE);
    __atomic_store_n(&g_limit, count, __ATOMIC_RELEASE);
  } else {
    munmap(memory, count * sizeof(Entry));
    while (__atomic_load_n(&g_limit, __ATOMIC_ACQUIRE) == 0) {
    }
  }
  return true;
}

Entry* entry_at(int fd) {
  if (!prepared() || static_cast<unsigned>(fd) >= g_limit) return nullptr;
  return &g_entries[fd];
}

void note_highest(int fd) {
  int highest = g_highest.load(std::memory_order_relaxed);
  while (highest < fd && !g_highest.compare_exchange_weak(highest, fd)) {
  }
}

// Ends an entry. Returns the reference that it held.
SocketRef taken(std::uintptr_t entry) {
  if (!is_socket(entry)) return {};
  SocketPool::remove_descriptor(*socket_of(entry));
  return SocketRef(socket_of(entry));
}

int option(int fd, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  return libc::getsockopt(fd, SOL_SOCKET, name, &value, &bytes) == 0 ? value : -1;
}

// Most of a program's descriptors are no sockets, which the first call finds out.
bool kernel_says_tcp(int fd) {
  if (option(fd, SO_PROTOCOL) != IPPROTO_TCP || option(fd, SO_TYPE) != SOCK_STREAM) return false;
  const int domain = option(fd, SO_DOMAIN);
  return domain == AF_INET || domain == AF_INET6;
}

bool may_have_lanes() { return options().lanes != 0 && !seccomp::in_force(); }

// The table's entry for a TCP socket, by how the socket came to be.
std::uintptr_t entry_for(int fd, Origin origin) {
  if (!may_have_lanes()) return kTcpForeign;
  // Inherited and received sockets have no lane: stdio writes to standard streams without the library, and a process
  // that passes a socket on, or leaves it to a program that it runs, may go on using it.
  if (origin == Origin::kInherited) {
    counters::publish();
    if (option(fd, SO_ACCEPTCONN) != 1) {
      background::prepare(fd);
      const Reason why = fd <= STDERR_FILENO ? Reason::kStandardStream : Reason::kInherited;
      counters::fell(why);
      counters::show_socket(fd, counters::Way::kKernel, why);
    }
    return kTcpForeign;
  }
  if (origin == Origin::kReceived) {
    counters::publish();
    counters::fell(Reason::kPassed);
    counters::show_socket(fd, counters::Way::kKernel, Reason::kPassed);
    return kTcpForeign;
  }
  Socket* const socket = SocketPool::make(origin == Origin::kMade);
  if (socket == nullptr) {
    counters::fell(Reason::kResources);
    return kTcpForeign;
  }
  counters::publish();
  counters::add(Counter::kSockets);
  note_highest(fd);
  socket->link.shown.at(fd);
  return entry_of(socket);
}

}  // namespace

Socket* look(int fd) {
  Entry* const at = entry_at(fd);
  if (at == nullptr) return nullptr;
  std::uintptr_t entry = at->load(std::memory_order_acquire);
  if (entry == kUnknown) {
    const int saved = errno;
    std::uintptr_t found = kForeign;
    errno = 0;
    if (may_have_lanes() && kernel_says_tcp(fd)) {
      found = entry_for(fd, Origin::kInherited);
    } else if (may_have_lanes() && errno == EBADF) {
      found = kUnknown;
    }
    errno = saved;
    if (at->compare_exchange_strong(entry, found)) {
      entry = found;
    } else {
      taken(found);  // another thread was first
    }
  }
  return is_socket(entry) ? socket_of(entry) : nullptr;
}

SocketRef find(int fd) {
  for (;;) {
    Socket* const socket = peek(fd);
    if (socket == nullptr) return {};
    const bool retained = SocketPool::retain(socket);
    // The socket may have gone after peek(), and its memory may be another socket's by now.
    if (retained && g_entries[fd].load(std::memory_order_acquire) == entry_of(socket)) {
      return SocketRef(socket);
    }
    if (retained) SocketRef(socket).reset();
  }
}

void opened(int fd, Origin origin) {
  Entry* const at = entry_at(fd);
  if (at == nullptr) return;
  const int saved = errno;
  const bool tcp = origin == Origin::kMade || (!seccomp::in_force() && kernel_says_tcp(fd));
  // A socket that the entry still has was closed without the library.
  taken(at->exchange(tcp ? entry_for(fd, origin) : kForeign));
  errno = saved;
}

SocketRef left_unread(const int* fds, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Entry* const at = entry_at(fds[i]);
    if (at == nullptr) return {};
    if (i != 0) {
      copied(fds[0], fds[i]);
      continue;
    }
    Socket* const socket = SocketPool::make(false);
    if (socket == nullptr) return {};
    note_highest(fds[0]);
    taken(at->exchange(entry_of(socket)));
  }
  return find(fds[0]);
}

SocketRef adopt(int fd) {
  SocketRef known = find(fd);
  if (known || !is_tcp(fd)) return known;
  Socket* const socket = SocketPool::make(false);
  if (socket == nullptr) return {};
  forbid(*socket, options().lanes != 0 ? Reason::kInherited : Reason::kOff);
  note_highest(fd);
  taken(g_entries[fd].exchange(entry_of(socket)));
  return find(fd);
}

void opened_foreign(int fd) {
  Entry* const at = entry_at(fd);
  if (at == nullptr || at->load(std::memory_order_relaxed) == kForeign) return;
  taken(at->exchange(kForeign));
}

void copied(int fd, int copy) {
  Entry* const to = entry_at(copy);
  if (to == nullptr) return;
  SocketRef socket = find(fd);
  if (!socket) {
    taken(to->exchange(is_tcp(fd) ? kTcpForeign : kForeign));
    return;
  }
  SocketPool::add_descriptor(*socket);
  SocketPool::retain(socket.get());
  note_highest(copy);
  socket->link.shown.at(copy);
  taken(to->exchange(entry_of(socket.get())));
}

SocketRef closing(int fd) {
  Entry* const at = entry_at(fd);
  if (at == nullptr || at->load(std::memory_order_relaxed) == kForeign) return {};
  const std::uintptr_t entry = at->exchange(kForeign);
  if (is_socket(entry)) {
    socket_of(entry)->link.shown.leaves(fd);
  } else {
    counters::show_socket(fd, counters::Way::kNone, Reason::kNone);
  }
  return taken(entry);
}

bool is_tcp(int fd) {
  peek(fd);
  return static_cast<unsigned>(fd) < g_limit &&
         g_entries[fd].load(std::memory_order_relaxed) >= kTcpForeign;
}

void for_each(void (*visit)(int fd, Socket& socket, void* context), void* context) {
  const int highest = g_highest.load();
  for (int fd = 0; fd <= highest; ++fd) {
    if (!is_socket(g_entries[fd].load(std::memory_order_relaxed))) continue;
    const SocketRef socket = find(fd);
    if (socket) visit(fd, *socket, context);
  }
}

}  // namespace viaduct::sovia::table
