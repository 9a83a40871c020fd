#include "sovia/process/own_descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>

#include "sovia/process/libc.h"

namespace viaduct::sovia::own_descriptors {
namespace {

constexpr std::size_t kMost = 256;
constexpr rlim_t kFew = 32;
constexpr int kHigh = 992;     // keeps the kernel's descriptor table small, for select()
constexpr rlim_t kFdSet = 1024;  // numbers that select() can name

// Slots hold fd + 1; 0 is free.
std::atomic<int> g_slots[kMost];
std::atomic<std::size_t> g_used{0};  // slots that were ever used

constexpr int kMostOfVipl = 64;
std::atomic<int (*)(int* fds, int most)> g_list_vipl{nullptr};
std::atomic<int> g_least_of_vipl{INT_MAX};  // the least seen so far, as descriptors come and go

// Calls visit(number) for each descriptor that VIPL has.
template <class Visit>
void for_each_of_vipl(Visit&& visit) {
  int fds[kMostOfVipl];
  const auto list = g_list_vipl.load(std::memory_order_acquire);
  const int count = list != nullptr ? std::min(list(fds, kMostOfVipl), kMostOfVipl) : 0;
  for (int i = 0; i < count; ++i) visit(fds[i]);
}

int copy_to(int fd, rlim_t least) {
  return static_cast<int>(syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, static_cast<int>(least)));
}

// Moves `fd` beyond the program's limit of descriptors, where the program neither misses nor asks for the number; the
// limit is raised for a moment. If that can't be done, the number stays below the limit, however low.
int move(int fd) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > kFdSet) return copy_to(fd, kHigh);
  constexpr rlim_t kRoom = 64;
  const rlimit more{limit.rlim_cur + kRoom,
                    limit.rlim_max < limit.rlim_cur + kRoom ? limit.rlim_cur + kRoom : limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &more) == 0) {
    const int moved = copy_to(fd, limit.rlim_cur);
    setrlimit(RLIMIT_NOFILE, &limit);
    if (moved >= 0) return moved;
  }
  return copy_to(fd, limit.rlim_cur > 64 ? limit.rlim_cur - 32 : limit.rlim_cur / 2);
}

bool is_same_file(int one, int other) {
  struct stat first {}, second {};
  return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

void mark(int fd) {
  for (std::size_t i = 0; i < kMost; ++i) {
    int free = 0;
    if (!g_slots[i].compare_exchange_strong(free, fd + 1)) continue;
    std::size_t used = g_used.load();
    while (used < i + 1 && !g_used.compare_exchange_weak(used, i + 1)) {
    }
    return;
  }
}

bool scarce() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kFew;
}

int adopt(int fd) {
  if (fd < 0) return fd;
  const int saved = errno;
  const int high = move(fd);
  // Many programs close a number twice, and between the two another thread's descriptor may have it. The second close
  // takes it from the library, and the program's next descriptor may have it by now.
  if (high >= 0 && is_same_file(high, fd)) libc::close(fd);
  errno = saved;
  const int kept = high >= 0 ? high : fd;
  mark(kept);
  return kept;
}

void release(int fd) {
  const std::size_t used = g_used.load();
  for (std::size_t i = 0; i < used; ++i) {
    int marked = fd + 1;
    if (g_slots[i].compare_exchange_strong(marked, 0)) return;
  }
}

void close(int fd) {
  if (fd < 0) return;
  release(fd);
  libc::close(fd);
}

void count_vipl(int (*list)(int* fds, int most)) {
  g_list_vipl.store(list, std::memory_order_release);
  int least = g_least_of_vipl.load();
  for_each_of_vipl([&](int fd) { least = std::min(least, fd); });
  g_least_of_vipl.store(least);
}

bool has(int fd) {
  const std::size_t used = g_used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < used; ++i) {
    if (g_slots[i].load(std::memory_order_relaxed) == fd + 1) return fd >= 0;
  }
  return is_of_vipl(fd);
}

bool is_of_vipl(int fd) {
  bool found = false;
  if (fd >= g_least_of_vipl.load(std::memory_order_relaxed)) {
    for_each_of_vipl([&](int one) { found = found || one == fd; });
  }
  return found;
}

int next_from(int fd) {
  const std::size_t used = g_used.load(std::memory_order_acquire);
  int least = -1;
  for (std::size_t i = 0; i < used; ++i) {
    const int marked = g_slots[i].load(std::memory_order_relaxed) - 1;
    if (marked >= fd && (least < 0 || marked < least)) least = marked;
  }
  if (g_least_of_vipl.load(std::memory_order_relaxed) == INT_MAX) return least;
  for_each_of_vipl([&](int one) {
    if (one >= fd && (least < 0 || one < least)) least = one;
  });
  return least;
}

}  // namespace viaduct::sovia::own_descriptors
