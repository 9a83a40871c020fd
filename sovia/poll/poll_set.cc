#include "sovia/poll/poll_set.h"

#include <errno.h>
#include <limits.h>

#include <algorithm>

#include "sovia/lane/engine.h"
#include "sovia/poll/event_bits.h"
#include "sovia/process/libc.h"
#include "sovia/process/signals.h"
#include "sovia/socket/table.h"

namespace viaduct::sovia {
namespace {

// The value of pollfd::fd for no descriptor, unlike the complement of one that is left out for now.
constexpr int kNone = INT_MIN;

// More descriptors than this are shown to the kernel before a sleep, as it may refuse them.
constexpr std::size_t kFewToSleepOn = 16;

// For how long a descriptor is left out of a sleep that the kernel would otherwise end at once.
constexpr std::uint64_t kLeftOutNs = 10'000'000;

// If all wanted events are on lanes, and some are ready, the kernel is asked only so often: it could add only errors.
constexpr unsigned kCallsWithoutKernel = 16;
constexpr std::uint64_t kNsWithoutKernel = 50'000;
thread_local unsigned t_calls_without_kernel = kCallsWithoutKernel;
thread_local std::uint64_t t_kernel_asked = 0;

constexpr short kSelectRead = event_bits::kRead | POLLRDBAND | POLLHUP | POLLERR;
constexpr short kSelectWrite = event_bits::kWrite | POLLWRBAND | POLLERR;

}  // namespace

bool PollSet::known_kernel_alone(int fd) {
  if (fd < 0) return true;
  if (static_cast<unsigned>(fd) >= table::g_limit) return false;
  const std::uintptr_t entry = table::g_entries[fd].load(std::memory_order_acquire);
  if (entry == table::kUnknown) return false;
  if (entry > table::kTcpForeign) return reinterpret_cast<const Socket*>(entry)->kernel_alone();
  return !datagram::table::knows(fd) && !epoll_sets::knows(fd);
}

bool PollSet::concerns_us(int fd) {
  if (fd < 0) return false;
  if (const Socket* const socket = table::peek(fd)) return !socket->kernel_alone();
  if (datagram::table::concerns(fd)) return true;
  if (!epoll_sets::knows(fd)) return false;
  const signals::Inside inside;
  return static_cast<bool>(epoll_sets::find(fd));
}

PollSet::PollSet(std::size_t room, bool as_select)
    : as_select_(as_select), fds_(room), items_(room) {}

void PollSet::add(int fd, short wanted) {
  const std::size_t place = size_++;
  fds_[place] = {fd < 0 ? kNone : fd, wanted, 0};
  if (fd < 0) return;
  ++live_;
  Item& item = items_[item_count_];
  SocketRef socket = table::find(fd);
  if (socket) {
    if (socket->kernel_alone()) return;
    item.socket = std::move(socket);
  } else {
    item.datagrams = datagram::table::find(fd);
    if (!item.datagrams) item.set = epoll_sets::find(fd);
    if (!item.set && !item.datagrams) return;
  }
  item.place = place;
  item.wanted = wanted;
  item.asked = wanted;
  ++item_count_;
}

void PollSet::forget(std::size_t place) {
  fds_[place] = {kNone, 0, 0};
  --live_;
}

// Asks the kernel without waiting, looks at the lanes once more, and merges the answers. kEnds: `count` is the call's result.
// kAgain: the answer does not count.
PollSet::Look PollSet::look_at_kernel(bool last, int lanes, const sigset_t* mask, int& count) {
  static constexpr timespec kNoTime{};
  // `mask` is used only if no lane is ready: a signal that it lets in must not keep ready descriptors from the program.
  const int said = last && lanes == 0 && mask != nullptr ? libc::ppoll(fds_.data(), size_, &kNoTime, mask)
                                                         : libc::poll(fds_.data(), size_, 0);
  if (said < 0) {
    count = -1;
    if (errno == EINTR) signals::run_held_back(mask);
    if (errno != EINTR || lanes == 0) return Look::kEnds;
    if (const int still = answer_from_lanes(); still > 0) count = still;
    if (count < 0) errno = EINTR;
    return Look::kEnds;
  }
  progress();
  count = merge(said > 0);
  return asked_in_vain() ? Look::kAgain : Look::kAsked;
}

// Sleeps until something may be ready. Sets in it are told of the sleeper, as threads that make a set ready by other
// means than lanes must wake it.
Woken PollSet::sleep(std::uint64_t deadline, const sigset_t* mask) {
  const auto tell = [this](int by) {
    for (std::size_t i = 0; i < item_count_; ++i) {
      if (items_[i].set) items_[i].set->sleeps(by);
    }
  };
  tell(+1);
  const std::uint64_t until = left_out_ == 0 ? deadline : std::min(deadline, now_ns() + kLeftOutNs);
  const Woken woken = wait_for(*this, fds_.data(), size_, until, mask, spin_);
  tell(-1);
  return woken;
}

int PollSet::wait(bool look_only, std::uint64_t deadline, const sigset_t* mask) {
  bool asked = false;  // the kernel has been asked in this call
  for (bool last = look_only;;) {
    // A look asks the kernel first where it must: what comes by a lane meanwhile is seen in this call.
    const bool kernel_first = last && mask == nullptr && !asked;
    if (!kernel_first) progress();
    adapt();
    int lanes = 0;
    if (!kernel_first || on_lanes_ == live_) {
      if (kernel_first) progress();
      lanes = answer_from_lanes();
      if (lanes > 0 && on_lanes_ == live_ && (asked || kernel_can_wait()) && !asked_in_vain()) return lanes;
    }

    // Without events of lanes the sleep asks the kernel, too.
    if (last || lanes > 0 || spin_ || size_ > kFewToSleepOn) {
      int count = 0;
      const Look look = look_at_kernel(last, lanes, mask, count);
      if (look == Look::kEnds) return count;
      if (look == Look::kAgain) continue;
      asked = true;
      if (count == 0 && look_only) engine::after_look_in_vain();
      if (count > 0 || last) return count;
    }

    switch (sleep(deadline, mask)) {
      case Woken::kReady:
        break;
      case Woken::kDescriptors:
        if (asked_in_vain()) break;
        if (const int count = merge(true); count > 0) return count;
        break;
      case Woken::kTimeout:
        last = now_ns() >= deadline;
        break;
      case Woken::kSignal:
        signals::run_held_back(mask);
        return failed(EINTR);
    }
  }
}

bool PollSet::ready() {
  for (std::size_t i = 0; i < item_count_; ++i) {
    Item& item = items_[i];
    if (item.set) {
      if (item.set->maybe_ready()) return true;
      continue;
    }
    if (item.datagrams) {
      if (counted(item.wanted, item.answer(0, -1)) != 0) return true;
      continue;
    }
    if (counted(item.wanted, item.answer(0, -1)) != 0) return true;
    if (item.socket->routes() != item.routes) return true;
  }
  return false;
}

bool PollSet::concerns(const Watched& source) const {
  for (std::size_t i = 0; i < item_count_; ++i) {
    const Item& item = items_[i];
    if (item.datagrams ? item.datagrams.get() == &source
        : item.set     ? item.set->maybe_ready()
                       : item.socket.get() == &source) {
      return true;
    }
  }
  return false;
}

// Sets the events to ask the kernel for, as the routes are now.
void PollSet::adapt() {
  if (left_out_ > 0) {
    for (std::size_t place = 0; place < size_; ++place) {
      if (fds_[place].fd < 0 && fds_[place].fd != kNone) fds_[place].fd = ~fds_[place].fd;
    }
    left_out_ = 0;
  }
  spin_ = false;
  on_lanes_ = 0;
  for (std::size_t i = 0; i < item_count_; ++i) {
    Item& item = items_[i];
    if (item.set) {
      spin_ |= item.set->has_lanes();
      continue;
    }
    if (item.datagrams) {
      spin_ |= item.datagrams->has_open_lane();
      continue;
    }
    const short wanted = event_bits::plain(item.wanted);
    item.routes = item.socket->routes();
    item.asked = item.socket->ask_kernel(wanted);
    fds_[item.place].events = item.asked;
    spin_ |= item.asked != wanted;
    if (item.asked == 0) ++on_lanes_;
  }
}

short PollSet::Item::answer(short kernel_says, int fd) const {
  if (kernel_says & POLLNVAL) return POLLNVAL;
  if (datagrams) {
    const short ready = datagrams->readable() ? static_cast<short>(event_bits::kRead & wanted) : short{0};
    return static_cast<short>(kernel_says | ready);
  }
  if (set) {
    const short ready = set->yields() ? static_cast<short>(event_bits::kRead & wanted) : short{0};
    return static_cast<short>(set->without_wake_event(fd, kernel_says) | ready);
  }
  return event_bits::dressed(
      socket->answer(event_bits::plain(wanted), event_bits::plain(kernel_says), fd), wanted);
}

int PollSet::answer_from_lanes() {
  for (std::size_t place = 0; place < size_; ++place) fds_[place].revents = 0;
  return merge(false);
}

// Whether the kernel, which could add only errors, was asked a short time ago.
bool PollSet::kernel_can_wait() {
  if (++t_calls_without_kernel < kCallsWithoutKernel &&
      now_ns() - t_kernel_asked < kNsWithoutKernel) {
    return true;
  }
  t_calls_without_kernel = 0;
  t_kernel_asked = now_ns();
  return false;
}

// Whether the events to ask the kernel for have changed since the sleep began, so that its answer may mean something
// else.
bool PollSet::asked_in_vain() const {
  for (std::size_t i = 0; i < item_count_; ++i) {
    const Item& item = items_[i];
    if (item.socket && item.socket->routes() != item.routes) return true;
  }
  return false;
}

// Turns the kernel's answer into the program's. Returns the number of ready descriptors.
int PollSet::merge(bool kernel_has_spoken) {
  int count = 0;
  std::size_t next_item = 0;
  for (std::size_t place = 0; place < size_; ++place) {
    pollfd& told = fds_[place];
    const short said = told.revents;
    short wanted = told.events;
    bool is_set = false;  // the kernel doesn't repeat an event of a set that doesn't count
    if (next_item < item_count_ && items_[next_item].place == place) {
      const Item& item = items_[next_item++];
      wanted = item.wanted;
      is_set = item.set != nullptr;
      if (told.fd == kNone) continue;
      told.revents = item.answer(said, told.fd);
    } else if (!kernel_has_spoken) {
      continue;
    }
    told.revents = counted(wanted, told.revents);
    if (told.revents != 0) {
      ++count;
    } else if (said != 0 && told.fd >= 0 && !is_set) {
      leave_out(place);
    }
  }
  return count;
}

void PollSet::leave_out(std::size_t place) {
  fds_[place].fd = ~fds_[place].fd;
  ++left_out_;
}

// The part of an answer that select() counts as ready.
short PollSet::counted(short wanted, short answer) const {
  if (!as_select_) return answer;
  short counts = POLLNVAL;
  if (wanted & event_bits::kRead) counts |= kSelectRead;
  if (wanted & event_bits::kWrite) counts |= kSelectWrite;
  if (wanted & POLLPRI) counts |= POLLPRI;
  return static_cast<short>(answer & counts);
}

}  // namespace viaduct::sovia
