// Waiting for a set: the lanes' events and the kernel's, in turn.
#include <errno.h>
#include <poll.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "sovia/lane/engine.h"
#include "sovia/lane/waiting.h"
#include "sovia/poll/epoll_registration.h"
#include "sovia/poll/epoll_set.h"
#include "sovia/process/libc.h"
#include "sovia/process/signals.h"

namespace viaduct::sovia {
namespace {

constexpr int kChanged = -2;  // the set is not the kernel's alone any more

// The news of a lane's change: behind the end that was told no more can come to be read.
short news_of(const Registration& r, short pending) VIADUCT_REQUIRES(set_state) {
  return r.told.has_end() ? static_cast<short>(pending & ~POLLIN) : pending;
}

// Whether an edge-triggered program is to be told: of news (`cause`), of what it does not know, or of what a call has
// found no more of since.
bool has_news(Registration& r, short answer, short cause) VIADUCT_REQUIRES(set_state) {
  const short bits = event_bits::plain(answer);
  if (!r.socket) return (bits & (cause | POLLERR | POLLHUP)) != 0;
  short known = r.told.events;
  if (!r.told.has_end() && r.told.emptied != r.socket->rx.emptied.load(std::memory_order_relaxed)) known &= ~POLLIN;
  if (r.told.filled != r.socket->tx.filled.load(std::memory_order_relaxed)) known &= ~POLLOUT;
  const auto news = static_cast<short>((event_bits::plain(cause) & (POLLIN | POLLOUT | POLLPRI)) | r.told.withheld);
  r.told.withheld = static_cast<short>(news & event_bits::plain(r.wanted()) & ~bits);
  return (bits & (news | ~known)) != 0;
}

class Count {
 public:
  explicit Count(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Count() { --count_; }
  Count(const Count&) = delete;

 private:
  std::atomic<int>& count_;
};

class Watch final : public WaitCondition {
 public:
  explicit Watch(EpollSet& set) : set_(set) {}
  bool ready() override { return set_.maybe_ready(); }
  bool concerns(const Watched& source) const override {
    return set_.maybe_ready() || set_.has(source);
  }

 private:
  EpollSet& set_;
};

// Uses epoll_pwait2 where it exists, as whole milliseconds would make short waits long.
int kernel_wait(int epfd, epoll_event* events, int most, std::uint64_t deadline,
                const sigset_t* mask) {
  using Wait = int (*)(int, epoll_event*, int, const timespec*, const sigset_t*);
  const auto wait = SOVIA_LATE_AS(Wait, epoll_pwait2);
  if (deadline == kNever) return libc::epoll_pwait(epfd, events, most, -1, mask);
  const timespec left = until(deadline);
  if (wait != nullptr) {
    const int result = wait(epfd, events, most, &left, mask);
    if (result >= 0 || errno != ENOSYS) return result;
  }
  const long ms = left.tv_sec * 1000 + (left.tv_nsec + 999'999) / 1'000'000;
  return libc::epoll_pwait(epfd, events, most, static_cast<int>(std::min<long>(ms, INT_MAX)), mask);
}

}  // namespace

int EpollSet::wait(int epfd, epoll_event* events, int most, bool look_only,
                   std::uint64_t deadline, const sigset_t* mask) {
  Watch watch(*this);
  for (bool last = look_only;;) {
    progress();
    if (quiet()) {
      let_kernel_wait();  // the next wait bypasses the library
      const int count = wait_in_kernel(epfd, events, most, last ? 0 : deadline, mask);
      if (count < 0 && count != kChanged && errno == EINTR) {
        signals::run_held_back(mask);
        errno = EINTR;
      }
      if (count != kChanged) return count;
    }
    const int count = harvest(epfd, events, most);
    if (count != 0) return count;
    if (look_only) engine::after_look_in_vain();
    if (last) return 0;

    pollfd fd{epfd, POLLIN, 0};
    Woken woken;
    {
      const Count sleeper(sleepers_);
      woken = wait_for(watch, &fd, 1, deadline, mask, has_lanes());
    }
    if (woken == Woken::kTimeout) last = true;
    if (woken == Woken::kSignal) {
      signals::run_held_back(mask);
      return failed(EINTR);
    }
  }
}

int EpollSet::go_on_waiting(int epfd, epoll_event* events, int most, int count, bool look_only,
                            std::uint64_t deadline) {
  {
    const SetGuard guard(*this);
    ++harvest_.call;
    count = translate(events, 0, count);
  }
  return count > 0 ? count : wait(epfd, events, most, look_only, deadline, nullptr);
}

// Waits for a set of which the kernel knows all events.
int EpollSet::wait_in_kernel(int epfd, epoll_event* events, int most, std::uint64_t deadline,
                             const sigset_t* mask) {
  for (;;) {
    int count;
    {
      const Count sleeper(raw_sleepers_);
      if (!quiet()) return kChanged;
      count = kernel_wait(epfd, events, most, deadline, mask);
    }
    if (count <= 0) return count;
    const SetGuard guard(*this);
    ++harvest_.call;
    count = translate(events, 0, count);
    if (count > 0) return count;
    if (deadline != kNever && now_ns() >= deadline) return 0;
  }
}

// Collects the present events, in the order in which they came: the lanes' behind the kernel's, which were there when the
// arrivals were taken in a moment ago, or at the place of the wake event, which was rung when they came earlier. If the
// kernel's fill the room, the lanes' come first the next time.
int EpollSet::harvest(int epfd, epoll_event* events, int most) {
  const SetGuard guard(*this);
  ++harvest_.call;
  refresh_changed();
  const int lanes_first = std::exchange(harvest_.kernel_filled, false) ? collect(events, 0, most) : 0;
  if (lanes_first == most) return most;
  harvest_.lanes_place = -1;
  const int kernels = ask_kernel(epfd, events, lanes_first, most);
  if (kernels < 0) return lanes_first > 0 ? lanes_first : kernels;
  harvest_.kernel_filled = kernels == most && maybe_ready();
  harvest_.asks_anew = false;
  const int all = collect(events, kernels, most);
  if (harvest_.lanes_place >= 0) std::rotate(events + harvest_.lanes_place, events + kernels, events + all);
  // A lane that has ended has given the kernel something to tell.
  return harvest_.asks_anew && all == 0 ? ask_kernel(epfd, events, 0, most) : all;
}

// Brings the kernel's registrations up to date before the kernel is asked: else it would tell of a socket by itself of
// which a lane tells, too.
void EpollSet::refresh_changed() {
  if (!ready_.take_route_change()) return;
  for (int left = ready_.size(); left > 0; --left) {
    short pending;
    Registration* const r = ready_.pop(pending);
    if (r == nullptr) return;
    if ((pending & kRouteChange) == 0) {
      ready_.add(*r, pending);
    } else if (r->dormant) {
      forget_dormant(*r);  // the lane may not report all events any more
    } else if (r->socket && !refresh(*r, true)) {
      erase(*r);
    } else {
      ready_.add(*r, static_cast<short>(pending & ~kRouteChange));
    }
  }
}

// Fills events[begin..most) with the kernel's events. Returns the count with those before `begin`, or -1.
int EpollSet::ask_kernel(int epfd, epoll_event* events, int begin, int most) {
  for (;;) {
    const int said = libc::epoll_wait(epfd, events + begin, most - begin, 0);
    if (said < 0) return -1;
    const int count = translate(events, begin, begin + said);
    // Ask again if all events were the library's: they are muted now, and may have left no room for others.
    if (count > begin || begin + said < most) return count;
  }
}

// Turns events of the kernel into those that the program is to see. Returns the count with those before `begin`.
int EpollSet::translate(epoll_event* events, int begin, int end) {
  int count = begin;
  for (int i = begin; i < end; ++i) {
    const epoll_event event = events[i];
    Registration* r;
    switch (registrations_.sender_of(event.data.u64, r)) {
      case RegistrationTable::Sender::kProgram:
        events[count++] = event;
        continue;
      case RegistrationTable::Sender::kWakeEvent:
        if (!quiet() && has_raw_sleepers()) wake_event_.ring(epfd_);  // it may have been meant for another thread
        harvest_.lanes_place = count;
        continue;
      case RegistrationTable::Sender::kToken:
        break;
    }
    if (r == nullptr) continue;  // deleted in the meantime
    r->spoke = true;
    if (r->dormant) {
      forget_dormant(*r);
      continue;
    }
    auto said = static_cast<short>(event.events & 0xffff);
    if (r->inner) said = r->inner->without_wake_event(r->fd, said);
    // Only at the end it matters that an event comes of a change of the registration alone.
    const bool echoes = std::exchange(r->echoes, false) && r->told.has_end();
    short cause = echoes ? short{0} : said;
    // The answer has all that the lane has to tell, too.
    if (r->has(EPOLLET)) {
      const short pending = ready_.take(*r);
      if ((pending & kRouteChange) != 0) list(*r, kRouteChange);  // the next harvest's
      cause |= static_cast<short>(news_of(*r, pending) & ~kRouteChange);
    }
    const short answer = r->answer(said);
    if (answer == 0 || (r->disabled && r->call != harvest_.call)) {
      if (r->has(EPOLLET)) has_news(*r, 0, cause);
      mute(*r);
    } else if (!r->has(EPOLLET) || has_news(*r, answer, cause)) {
      emit(*r, answer, events, count);
    }
  }
  return count;
}

// Fills events[begin..most) from the ready list. Returns the count with those before `begin`.
int EpollSet::collect(epoll_event* events, int begin, int most) {
  int count = begin;
  for (int left = ready_.size(); left > 0 && count < most; --left) {
    short pending;
    Registration* r = ready_.pop(pending);
    if (r == nullptr) break;
    if ((pending & kRouteChange) != 0) {
      list(*r, pending);  // since the kernel was asked: it is the next harvest's
      continue;
    }
    short answer = look_again(r, pending);
    if (answer == 0) continue;
    if (r->has(EPOLLET) && !has_news(*r, answer, news_of(*r, pending))) continue;
    // The kernel has no room to tell of its part.
    const bool last = count + 1 == most && !r->has(EPOLLET);
    if (last && (r->kernel.events & kKernelsPart) != 0) answer |= r->answer(r->kernels_part());
    emit(*r, answer, events, count);
    if (!r->has(EPOLLET | EPOLLONESHOT)) list(*r, 0);
  }
  return count;
}

bool EpollSet::yields() {
  if (!maybe_ready()) return false;
  const SetGuard guard(*this);
  refresh_changed();
  for (int left = ready_.size(); left > 0; --left) {
    short pending;
    Registration* r = ready_.pop(pending);
    if (r == nullptr) break;
    if (look_again(r, pending) == 0) continue;
    list(*r, pending);
    return true;
  }
  return false;
}

// The events of a registration from the ready list. May erase the registration if there are none.
short EpollSet::look_again(Registration* r, short pending) {
  if (r->dormant) {
    // After a change of routes the lane may not report all events any more.
    if ((pending & kRouteChange) != 0) forget_dormant(*r);
    return 0;
  }
  if (r->socket && !refresh(*r, (pending & kRouteChange) != 0)) {
    erase(*r);
    return 0;
  }
  if (r->disabled || (!r->laned && !r->inner && !(r->has(EPOLLET) && r->kernel.tokened))) return 0;
  short answer;
  if (r->inner) {
    answer = r->inner->yields() ? static_cast<short>(event_bits::kRead & r->wanted()) : short{0};
  } else {
    // The kernel tells an edge once only, so it is asked for the part that it has.
    const bool asks = (pending & kRouteChange) != 0 ||
                      (r->has(EPOLLET) && r->socket->ask_kernel(event_bits::plain(r->wanted())) != 0);
    answer = r->answer(asks ? r->kernels_part() : short{0});
  }
  if (answer == 0 && r->has(EPOLLET)) has_news(*r, 0, pending);
  // The answer may have found that the lane has ended.
  if (answer == 0 && r->socket && !refresh(*r, false)) erase(*r);
  return answer;
}

// Adds an event, or its bits to the registration's event, so that there is one even if both a lane and the kernel have
// events.
void EpollSet::emit(Registration& r, short answer, epoll_event* events, int& count) {
  const auto bits = static_cast<std::uint16_t>(answer);
  if (r.call == harvest_.call) {
    events[r.place].events |= bits;
    r.told.events |= event_bits::plain(answer);
    return;
  }
  r.call = harvest_.call;
  r.place = count;
  if (r.socket) {
    r.told.events = event_bits::plain(answer);
    r.told.emptied = r.socket->rx.emptied.load(std::memory_order_relaxed);
    r.told.filled = r.socket->tx.filled.load(std::memory_order_relaxed);
  }
  events[count].events = bits;
  events[count].data = r.program.data;
  ++count;
  if (r.has(EPOLLONESHOT)) {
    r.disabled = true;
    r.interest = 0;
  }
}

}  // namespace viaduct::sovia
