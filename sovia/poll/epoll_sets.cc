// Which descriptors of the process are epoll sets.
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sovia/poll/epoll_set.h"
#include "sovia/process/once.h"
#include "sovia/process/seccomp.h"
#include "sovia/socket/fork_handoff.h"
#include "sovia/socket/table.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

namespace epoll_sets {

constinit std::array<Face, kFaces> g_faces{};

namespace {

struct Table {
  Mutex mutex;
  std::unordered_map<int, EpollSetRef> sets VIADUCT_GUARDED_BY(mutex);
};

// Never destroyed: programs close descriptors while they exit.
Table& table_of_sets() {
  return once([]() -> Table& { return *new Table; });
}

constinit std::atomic<int> g_count{0};  // descriptors in the table

// Most descriptors are no sets. A bit for each set tells so without a lock.
constexpr int kBits = 64;
constexpr int kFew = kFaces;  // descriptors with a bit
constinit std::array<std::atomic<std::uint64_t>, kFew / kBits> g_bits{};

void mark(int fd, bool is_set) {
  if (fd >= kFew) return;
  g_faces[static_cast<std::size_t>(fd)].kernel_says_all = false;
  std::atomic<std::uint64_t>& word = g_bits[static_cast<std::size_t>(fd / kBits)];
  const std::uint64_t bit = std::uint64_t{1} << fd % kBits;
  is_set ? word.fetch_or(bit) : word.fetch_and(~bit);
}

void enter(int fd, EpollSetRef set) {
  Table& table = table_of_sets();
  EpollSetRef old;  // to be destroyed without the lock
  {
    const LockGuard guard(table.mutex);
    EpollSetRef& entry = table.sets[fd];
    old = std::exchange(entry, std::move(set));
    if (!old) ++g_count;
    mark(fd, true);
  }
}

// Takes the descriptor's set out of the table, if any; `last` if no other descriptor of the process has the set.
EpollSetRef take(int fd, bool& last) {
  Table& table = table_of_sets();
  const LockGuard guard(table.mutex);
  const auto found = table.sets.find(fd);
  if (found == table.sets.end()) return nullptr;
  EpollSetRef set = std::move(found->second);
  table.sets.erase(found);
  --g_count;
  mark(fd, false);
  last = true;
  for (const auto& [other, its_set] : table.sets) {
    if (its_set != set) continue;
    set->use_descriptor(other);
    last = false;
    break;
  }
  return set;
}

std::vector<EpollSetRef> all_sets() {
  std::vector<EpollSetRef> sets;
  if (g_count.load(std::memory_order_acquire) == 0) return sets;
  Table& table = table_of_sets();
  const LockGuard guard(table.mutex);
  for (const auto& [fd, set] : table.sets) sets.push_back(set);
  return sets;
}

bool is_epoll(int fd) {
  char path[64];
  char target[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(path, target, sizeof target - 1);
  if (length < 0) return false;
  target[length] = '\0';
  return strcmp(target, "anon_inode:[eventpoll]") == 0;
}

// A descriptor of the same set that is in the table, or -1. The kernel may refuse to compare them.
int another_of(int fd) {
  Table& table = table_of_sets();
  const LockGuard guard(table.mutex);
  for (const auto& [other, set] : table.sets) {
    constexpr int kFile = 0;
    if (syscall(SYS_kcmp, getpid(), getpid(), kFile, other, fd) == 0) return other;
  }
  return -1;
}

}  // namespace

bool knows(int fd) {
  if (fd < 0 || g_count.load(std::memory_order_acquire) == 0) return false;
  if (fd >= kFew) return true;
  return g_bits[static_cast<std::size_t>(fd / kBits)].load(std::memory_order_acquire) >>
             fd % kBits & 1;
}

EpollSetRef find(int fd) {
  if (!knows(fd)) return nullptr;
  Table& table = table_of_sets();
  const LockGuard guard(table.mutex);
  const auto found = table.sets.find(fd);
  return found == table.sets.end() ? nullptr : found->second;
}

EpollSetRef find_or_look(int epfd) {
  EpollSetRef set = find(epfd);
  if (set || epfd < 0 || seccomp::in_force() || !is_epoll(epfd)) return set;
  set = std::make_shared<EpollSet>(epfd);
  set->adopt_registrations();
  enter(epfd, set);
  return set;
}

void opened(int epfd) {
  if (epfd >= 0) enter(epfd, std::make_shared<EpollSet>(epfd));
}

void received(int fd) {
  if (seccomp::in_force() || !is_epoll(fd)) return;
  if (const int own = another_of(fd); own >= 0) return copied(own, fd);
  const EpollSetRef set = std::make_shared<EpollSet>(fd);
  set->pass();
  enter(fd, set);
}

void copied(int fd, int copy) {
  if (EpollSetRef set = find(fd)) {
    enter(copy, std::move(set));
  } else if (knows(copy)) {
    bool last;
    take(copy, last);  // closed without the library
  }
}

void closing(int fd, Socket* socket) {
  if (g_count.load(std::memory_order_acquire) == 0) return;
  if (socket != nullptr) {
    std::vector<EpollSetRef> sets = that_have(*socket, fd);
    std::erase_if(sets, [fd](const EpollSetRef& set) { return set->forget_dormant(fd); });
    if (sets.empty()) return;
    const bool copies = socket->descriptors() > 0;
    // The program can't change the registration from now on, so the kernel must report without the library.
    if (copies) socket->leave_for_good(fd, Reason::kEpoll);
    const bool others = copies || is_shared(*socket);
    for (const EpollSetRef& set : sets) set->closing(fd, others);
    return;
  }
  if (knows(fd)) {
    bool last = false;
    if (const EpollSetRef set = take(fd, last)) {
      for (const EpollSetRef& outer : set->outer_sets(fd, last)) outer->closing(fd, !last);
      return;
    }
  }
  if (any_other()) {
    for (const EpollSetRef& set : all_sets()) set->closing(fd, false);
  }
}

void closing_range(unsigned first, unsigned last) {
  if (g_count.load(std::memory_order_acquire) == 0) return;
  std::vector<int> closed;
  {
    Table& table = table_of_sets();
    const LockGuard guard(table.mutex);
    for (const auto& [fd, set] : table.sets) {
      const auto number = static_cast<unsigned>(fd);
      if (number >= first && number <= last) closed.push_back(fd);
    }
  }
  for (const int fd : closed) closing(fd, nullptr);
}

void forget_dormant() {
  for (const EpollSetRef& set : all_sets()) set->forget_dormant(-1);
}

void adopt_registrations() {
  if (seccomp::in_force()) return;
  for (const EpollSetRef& set : all_sets()) set->adopt_registrations();
}

namespace {

// A set may have several descriptors.
std::vector<EpollSet*> each_once(const Table& table) VIADUCT_REQUIRES(table.mutex) {
  std::vector<EpollSet*> sets;
  for (const auto& [epfd, set] : table.sets) {
    if (std::find(sets.begin(), sets.end(), set.get()) == sets.end()) sets.push_back(set.get());
  }
  return sets;
}

}  // namespace

// Locks all sets or none: threads may lock sets that are in each other in any order. They are
// held over fork.
bool try_before_fork() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  Table& table = table_of_sets();
  if (!table.mutex.try_lock()) return false;
  if (!Watched::try_lock_for_fork()) {
    table.mutex.unlock();
    return false;
  }
  std::vector<EpollSet*> locked;
  bool all = true;
  for (EpollSet* const set : each_once(table)) {
    all = set->try_lock_for_fork();
    if (!all) break;
    locked.push_back(set);
  }
  if (all) return true;
  for (EpollSet* const set : locked) set->unlock_after_fork(false);
  Watched::unlock_after_fork();
  table.mutex.unlock();
  return false;
}

void after_fork(bool in_child) VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  Table& table = table_of_sets();
  for (EpollSet* const set : each_once(table)) set->unlock_after_fork(in_child);
  Watched::unlock_after_fork();
  table.mutex.unlock();
}

}  // namespace epoll_sets
}  // namespace viaduct::sovia
