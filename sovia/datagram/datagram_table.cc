#include "sovia/datagram/datagram_table.h"

#include <fcntl.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/once.h"
#include "sovia/process/options.h"
#include "sovia/process/seccomp.h"
#include "sovia/process/signals.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::datagram::table {
namespace {

struct Sockets {
  Mutex mutex;
  std::unordered_map<int, DatagramRef> by_descriptor VIADUCT_GUARDED_BY(mutex);
};

// Never destroyed: programs close descriptors while they exit.
Sockets& sockets() {
  return once([]() -> Sockets& { return *new Sockets; });
}

// Most descriptors are not in the table. A bit for each that is tells so without a lock.
constexpr int kBits = 64;
constexpr int kFew = 65536;  // descriptors with a bit; higher ones are left to the kernel
constinit std::atomic<std::uint64_t> g_bits[kFew / kBits]{};

void mark(int fd, bool known) {
  std::atomic<std::uint64_t>& word = g_bits[fd / kBits];
  const std::uint64_t bit = std::uint64_t{1} << fd % kBits;
  known ? word.fetch_or(bit) : word.fetch_and(~bit);
}

// Takes a descriptor's socket out of the table.
DatagramRef take(int fd) VIADUCT_REQUIRES(sockets().mutex) {
  const auto found = sockets().by_descriptor.find(fd);
  if (found == sockets().by_descriptor.end()) return nullptr;
  DatagramRef socket = std::move(found->second);
  sockets().by_descriptor.erase(found);
  mark(fd, false);
  g_count.fetch_sub(1);
  return socket;
}

bool is_inherited(int fd) {
  const int flags = libc::fcntl(fd, F_GETFD);
  return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

}  // namespace

void opened(int fd, bool nonblocking) {
  if (fd < 0 || fd >= kFew) return;
  closing(fd);  // the old one was closed without the library
  if (options().udp == 0 || options().lanes == 0 || seccomp::in_force()) return;
  counters::publish();
  const signals::Inside inside;
  DatagramRef socket = std::make_shared<DatagramSocket>(nonblocking);
  const LockGuard guard(sockets().mutex);
  sockets().by_descriptor[fd] = std::move(socket);
  mark(fd, true);
  g_count.fetch_add(1);
}

bool is_known(int fd) {
  return static_cast<unsigned>(fd) < static_cast<unsigned>(kFew) &&
         (g_bits[fd / kBits].load(std::memory_order_acquire) >> fd % kBits & 1) != 0;
}

DatagramRef find(int fd) {
  if (!knows(fd)) return nullptr;
  const signals::Inside inside;
  DatagramRef forgotten;  // freed without the lock
  const LockGuard guard(sockets().mutex);
  const auto found = sockets().by_descriptor.find(fd);
  if (found == sockets().by_descriptor.end()) return nullptr;
  if (!found->second->kernel_alone()) return found->second;
  forgotten = take(fd);
  return nullptr;
}

bool concerns(int fd) {
  if (!knows(fd)) return false;
  const signals::Inside inside;
  return find(fd) != nullptr;
}

bool is(int fd, const DatagramSocket& socket) {
  const LockGuard guard(sockets().mutex);
  const auto found = sockets().by_descriptor.find(fd);
  return found != sockets().by_descriptor.end() && found->second.get() == &socket;
}

void closing(int fd) {
  if (!knows(fd)) return;
  const signals::Inside inside;
  DatagramRef socket;
  {
    const LockGuard guard(sockets().mutex);
    socket = take(fd);
  }
  if (socket) socket->give_up(Reason::kEnd);
}

void closing_range(unsigned first, unsigned last) {
  if (g_count.load() == 0) return;
  const signals::Inside inside;
  std::vector<int> closed;
  {
    const LockGuard guard(sockets().mutex);
    for (const auto& [fd, socket] : sockets().by_descriptor) {
      if (static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last) closed.push_back(fd);
    }
  }
  for (const int fd : closed) closing(fd);
}

void give_up(int fd, Reason why) {
  if (!knows(fd)) return;
  const signals::Inside inside;
  if (const DatagramRef socket = find(fd)) socket->give_up(why);
}

void give_up_all(Reason why, bool only_inherited) {
  if (g_count.load() == 0) return;
  const signals::Inside inside;
  std::vector<DatagramRef> all;
  {
    const LockGuard guard(sockets().mutex);
    for (const auto& [fd, socket] : sockets().by_descriptor) {
      if (!only_inherited || is_inherited(fd)) all.push_back(socket);
    }
  }
  for (const DatagramRef& socket : all) socket->give_up(why);
}

// Held over fork.
void before_fork() VIADUCT_NO_THREAD_SAFETY_ANALYSIS { sockets().mutex.lock(); }

void after_fork(bool in_child) VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  if (in_child) {
    for (const auto& [fd, socket] : sockets().by_descriptor) socket->after_fork_in_child();
  }
  sockets().mutex.unlock();
}

}  // namespace viaduct::sovia::datagram::table
