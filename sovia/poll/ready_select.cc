// select, pselect.
#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "sovia/poll/event_bits.h"
#include "sovia/poll/kernel_only_poll.h"
#include "sovia/poll/poll_set.h"
#include "sovia/poll/ready_arguments.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/signals.h"
#include "sovia/socket/held_sends.h"
#include "sovia/sovia.h"

using namespace viaduct::sovia;

namespace {

constexpr int kWordBits = sizeof(long) * CHAR_BIT;

// The count that the kernel would use. It looks at no more bits than the process's table of descriptors has, and
// programs that pass getdtablesize() with a plain fd_set rely on that.
int limited(int count) {
  if (count <= FD_SETSIZE) return count;
  const int status = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (status < 0) return FD_SETSIZE;
  char text[4096];
  const ssize_t length = libc::read(status, text, sizeof text - 1);
  libc::close(status);
  text[std::max<ssize_t>(length, 0)] = '\0';
  const char* line = std::strstr(text, "\nFDSize:");
  return line == nullptr ? FD_SETSIZE : std::min(count, std::atoi(line + sizeof "\nFDSize:" - 1));
}

// The three sets of a call. They may be longer than an fd_set: programs allocate longer ones.
class Sets {
 public:
  Sets(int count, fd_set* read, fd_set* write, fd_set* except)
      : count_(count), bits_{words(read), words(write), words(except)} {}

  bool are_there() const {
    for (unsigned long* bits : bits_) {
      if (bits != nullptr && !can_read(bits, bytes())) return false;
    }
    return true;
  }
  // Whether the answer can be written to the sets.
  bool can_be_written() const {
    for (unsigned long* bits : bits_) {
      if (bits != nullptr && count_ > 0 && !copy_guarded(bits, bits, bytes())) return false;
    }
    return true;
  }

  // The events wanted of a descriptor, in poll()'s bits.
  short wanted(int fd) const {
    short events = 0;
    if (has(bits_[0], fd)) events |= event_bits::kRead | POLLRDBAND;
    if (has(bits_[1], fd)) events |= event_bits::kWrite | POLLWRBAND;
    if (has(bits_[2], fd)) events |= POLLPRI;
    return events;
  }

  bool any_of_ours(KernelOnlyPoll& bypassing) const {
    const signals::Inside inside;
    if (!are_there()) return false;
    for (int fd = next(0); fd < count_; fd = next(fd + 1)) {
      if (PollSet::concerns_us(fd) && !bypassing.take(fd)) return true;
    }
    return false;
  }

  // The first descriptor from `fd` on that is in any set, or count.
  int next(int fd) const {
    while (fd < count_) {
      unsigned long word = 0;
      for (const unsigned long* bits : bits_) {
        if (bits != nullptr) word |= bits[fd / kWordBits];
      }
      word >>= fd % kWordBits;
      if (word != 0) return std::min(count_, fd + __builtin_ctzl(word));
      fd += kWordBits - fd % kWordBits;
    }
    return count_;
  }

  int members() const {
    int n = 0;
    for (int fd = next(0); fd < count_; fd = next(fd + 1)) ++n;
    return n;
  }

  void clear() {
    for (unsigned long* bits : bits_) {
      if (bits != nullptr) std::memset(bits, 0, bytes());
    }
  }

  // Puts a descriptor into the sets that it is ready for. Returns the number of those sets.
  int put(int fd, short wanted, short ready) {
    int n = 0;
    const auto into = [&](unsigned long* bits, short asked, short counts) {
      if (!(wanted & asked) || !(ready & counts)) return;
      bits[fd / kWordBits] |= 1ul << fd % kWordBits;
      ++n;
    };
    into(bits_[0], POLLIN, event_bits::kRead | POLLRDBAND | POLLHUP | POLLERR);
    into(bits_[1], POLLOUT, event_bits::kWrite | POLLWRBAND | POLLERR);
    into(bits_[2], POLLPRI, POLLPRI);
    return n;
  }

  // Whether the kernel takes one of the descriptors for a bad one. Unlike poll() it ignores descriptors beyond the
  // process's table.
  bool has_bad() const {
    const std::size_t words = bytes() / sizeof(long);
    ShortArray<unsigned long, 3 * FD_SETSIZE / kWordBits> copies(3 * words);
    fd_set* sets[3];
    for (int i = 0; i < 3; ++i) {
      unsigned long* copy = copies.data() + static_cast<std::size_t>(i) * words;
      if (bits_[i] != nullptr) std::memcpy(copy, bits_[i], bytes());
      sets[i] = bits_[i] != nullptr ? reinterpret_cast<fd_set*>(copy) : nullptr;
    }
    timeval no_time{};
    return libc::select(count_, sets[0], sets[1], sets[2], &no_time) < 0 && errno == EBADF;
  }

 private:
  static unsigned long* words(fd_set* set) { return reinterpret_cast<unsigned long*>(set); }
  static bool has(const unsigned long* bits, int fd) {
    return bits != nullptr && (bits[fd / kWordBits] >> fd % kWordBits & 1) != 0;
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>((count_ + kWordBits - 1) / kWordBits) * sizeof(long);
  }

  int count_;
  unsigned long* bits_[3];
};

int wait(int count, Sets& sets, bool look_only, std::uint64_t deadline, const sigset_t* mask) {
  const signals::Inside inside;
  if (!sets.can_be_written()) return failed(EFAULT);
  const auto members = static_cast<std::size_t>(sets.members());
  PollSet set(members, true);
  ShortArray<int, 64> numbers(members);
  std::size_t n = 0;
  for (int fd = sets.next(0); fd < count; fd = sets.next(fd + 1)) {
    numbers[n++] = fd;
    set.add(fd, sets.wanted(fd));
  }
  for (bool checked = false;; checked = true) {
    if (set.wait(look_only, deadline, mask) < 0) return -1;
    bool bad = false;
    for (std::size_t i = 0; i < n; ++i) bad |= set.ready(i) == POLLNVAL;
    if (!bad) break;
    if (checked || sets.has_bad()) return failed(EBADF);
    for (std::size_t i = 0; i < n; ++i) {
      if (set.ready(i) == POLLNVAL) set.forget(i);
    }
  }
  ShortArray<short, 64> wanted(n);
  for (std::size_t i = 0; i < n; ++i) wanted[i] = sets.wanted(numbers[i]);
  sets.clear();
  int ready = 0;
  for (std::size_t i = 0; i < n; ++i) ready += sets.put(numbers[i], wanted[i], set.ready(i));
  return ready;
}

// By the kernel's call, if the arguments are not valid or no descriptor concerns the library.
template <class KernelCall>
int wait_for_sets(int count, fd_set* read, fd_set* write, fd_set* except, bool valid, const Limit& limit,
                  const sigset_t* mask, KernelCall&& kernel) {
  held_sends::before_wait();
  count = limited(count);
  Sets sets(count, read, write, except);
  {
    KernelOnlyPoll bypassing;
    if (!valid || !sets.any_of_ours(bypassing)) return kernel();
  }
  return wait(count, sets, limit.look_only, limit.deadline, mask);
}

}  // namespace

int sovia_select(int count, fd_set* read, fd_set* write, fd_set* except, timeval* timeout) {
  return keeping_errno([&]() -> int {
    libc::prepare();
    timeval given{};
    const bool valid = timeout == nullptr || (copy_guarded(&given, timeout, sizeof given) &&
                                              given.tv_sec >= 0 && given.tv_usec >= 0);
    const timespec time{given.tv_sec + given.tv_usec / 1'000'000, given.tv_usec % 1'000'000 * 1000};
    Limit limit;
    limit.take(timeout != nullptr ? &time : nullptr);
    bool by_kernel = false;
    const int ready = wait_for_sets(count, read, write, except, valid, limit, nullptr, [&] {
      by_kernel = true;
      return libc::select(count, read, write, except, timeout);
    });
    if (by_kernel || timeout == nullptr || limit.look_only) return ready;
    // Linux stores the time that was left, also after errors.
    const KeepErrno keep;
    const timespec left = until(limit.deadline);
    given = {left.tv_sec, left.tv_nsec / 1000};
    copy_guarded(timeout, &given, sizeof given);  // a constant one stays as it is, as with the kernel
    return ready;
  });
}

int sovia_pselect(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* timeout,
                  const sigset_t* mask) {
  return keeping_errno([&]() -> int {
    libc::prepare();
    Limit limit;
    const bool valid = limit.take(timeout) && is_mask(mask);
    return wait_for_sets(count, read, write, except, valid, limit, mask,
                         [=] { return libc::pselect(count, read, write, except, timeout, mask); });
  });
}
