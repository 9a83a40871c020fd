// The registrations of a set, and the ready list.
#include "sovia/poll/epoll_set.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "sovia/poll/epoll_registration.h"
#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/process/threads.h"
#include "sovia/socket/table.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

// The changes of a socket that may cause an event of the registration: arriving data may bring POLLRDHUP and POLLPRI,
// too, and errors always count.
short interest_of(const Registration& r) VIADUCT_REQUIRES(set_state) {
  if (r.disabled) return 0;
  short interest = event_bits::plain(r.wanted());
  if (interest & (POLLRDHUP | POLLPRI)) interest |= POLLIN;
  return static_cast<short>(interest | POLLERR | POLLHUP);
}

// The changes for which a new registration is looked at: all but those of routes.
constexpr short kWhatThereIs = event_bits::kAsked | event_bits::kUnasked;

// The number of registrations that are neither a socket's nor a set's.
constinit std::atomic<int> g_others{0};

}  // namespace

void Registration::changed(short what) {
  if ((what & (interest.load(std::memory_order_relaxed) | kRouteChange)) == 0) return;
  set->push(*this, what);
  // After a change of routes the kernel's registration has to change, also for threads that sleep already: they are
  // woken to do it. While the program is away the wake event keeps the lanes' place among the kernel's events (harvest()).
  if (((what & kRouteChange) != 0 && set->sleepers_ > 0) || t_is_librarys) set->wake_event_.ring(set->epfd_);
}

short Registration::kernels_part() const {
  pollfd one{fd, static_cast<short>(kernel.events & kKernelsPart), 0};
  return libc::poll(&one, 1, 0) > 0 && (one.revents & POLLNVAL) == 0 ? one.revents : short{0};
}

void refresh_watchers(Socket& socket) {
  struct Place {
    EpollSetRef set;
    int fd;
  };
  std::vector<Place> places;
  socket.for_each_watcher([&](Watcher& watcher) {
    auto& r = static_cast<Registration&>(watcher);
    if (EpollSetRef set = r.set->weak_from_this().lock()) places.push_back({std::move(set), r.fd});
  });
  for (const auto& [set, fd] : places) {
    const SetGuard guard(*set);
    Registration* const r = set->registrations_.find(fd);
    if (r == nullptr || r->socket.get() != &socket) continue;
    if (r->dormant) {
      set->forget_dormant(*r);
    } else if (!set->refresh(*r, false)) {
      set->erase(*r);
    }
  }
}

EpollSet::EpollSet(int epfd) : epfd_(epfd) {}

EpollSet::~EpollSet() {
  while (Registration* const r = registrations_.any()) erase(*r);
}

// ------------------------------------------------------------------ control
int EpollSet::control(int epfd, int op, int fd, epoll_event* event) {
  const bool changes = op == EPOLL_CTL_ADD || op == EPOLL_CTL_MOD;
  if ((changes && event == nullptr) || (!changes && op != EPOLL_CTL_DEL)) {
    return libc::epoll_ctl(epfd, op, fd, event);
  }
  SocketRef socket = table::find(fd);
  EpollSetRef inner = socket ? nullptr : epoll_sets::find(fd);
  if (inner.get() == this) return libc::epoll_ctl(epfd, op, fd, event);
  if (passed_) {
    if (socket && changes) socket->leave_for_good(fd, Reason::kEpoll);
    if (inner && changes) inner->pass();
    return libc::epoll_ctl(epfd, op, fd, event);
  }

  const SetGuard guard(*this);
  Registration* r = registrations_.find(fd);
  if (r != nullptr && (r->socket.get() != socket.get() || r->inner != inner)) {
    erase(*r);  // the descriptor has been reused
    r = nullptr;
  }
  // A dormant registration only serves an ADD; the kernel refuses all else.
  if (r != nullptr && r->dormant && (op != EPOLL_CTL_ADD || (event->events & EPOLLEXCLUSIVE))) {
    forget_dormant(*r);
    r = nullptr;
  }
  switch (op) {
    case EPOLL_CTL_DEL:
      return remove(epfd, fd, event, r);
    case EPOLL_CTL_ADD:
      return add(epfd, fd, *event, r, std::move(socket), std::move(inner));
    default:
      return modify(epfd, fd, *event, r, std::move(socket), std::move(inner));
  }
}

// Some programs delete a registration and make it anew for each message (redis-benchmark does so twice). The kernel's
// part of a silent one stays, which saves two system calls. One without a lane is erased, as memory and lists would
// cost more than they save.
int EpollSet::remove(int epfd, int fd, epoll_event* event, Registration* r) {
  if (r != nullptr && r->silent()) {
    r->make_dormant();
    return 0;
  }
  const int result = libc::epoll_ctl(epfd, EPOLL_CTL_DEL, fd, event);
  if (r != nullptr && result == 0 && r->socket && !r->laned && !r->inherited) {
    r->in_kernel = false;
    r->make_dormant();
    return 0;
  }
  if (r != nullptr && (result == 0 || errno == ENOENT || errno == EBADF)) {
    const KeepErrno keep;
    erase(*r);
  }
  return result;
}

void Registration::make_dormant() {
  dormant = true;
  interest = 0;
  set->lanes_ -= int{std::exchange(laned, false)};
}

int EpollSet::add(int epfd, int fd, epoll_event& event, Registration* r, SocketRef socket,
                  EpollSetRef inner) {
  if (r != nullptr && r->dormant) {
    r->dormant = false;
    r->program = event;
    return enter(r->in_kernel ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, *r);
  }
  int op = EPOLL_CTL_ADD;
  if (r != nullptr) {
    if (libc::epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) < 0) return -1;  // EEXIST, as it should be
    // Another process that has the set has deleted it.
    op = EPOLL_CTL_MOD;
    erase(*r);
  }
  if (!socket && !inner && !RegistrationTable::looks_like_token(event.data.u64)) {
    return libc::epoll_ctl(epfd, op, fd, &event);
  }
  return enter(op, insert(fd, std::move(socket), std::move(inner), event));
}

int EpollSet::modify(int epfd, int fd, epoll_event& event, Registration* r, SocketRef socket,
                     EpollSetRef inner) {
  if (!socket && !inner && r == nullptr && !RegistrationTable::looks_like_token(event.data.u64)) {
    return libc::epoll_ctl(epfd, EPOLL_CTL_MOD, fd, &event);
  }
  // The kernel refuses to change an exclusive registration, and to make one exclusive later.
  if ((r != nullptr && r->has(EPOLLEXCLUSIVE)) || (event.events & EPOLLEXCLUSIVE)) return failed(EINVAL);
  if (r == nullptr) {
    return enter(EPOLL_CTL_MOD, insert(fd, std::move(socket), std::move(inner), event));
  }
  const epoll_event before = r->program;
  const bool was_disabled = r->disabled;
  r->program = event;
  if (arm(*r, EPOLL_CTL_MOD) < 0) {
    r->program = before;
    r->disabled = was_disabled;
    r->interest = interest_of(*r);
    return -1;
  }
  return look_at_once(*r);
}

// Makes the kernel's part of a new registration.
int EpollSet::enter(int op, Registration& r) {
  if (arm(r, op) < 0) {
    const KeepErrno keep;
    erase(r);
    return -1;
  }
  return look_at_once(r);
}

// Brings a registration that the program has set into the kernel.
int EpollSet::arm(Registration& r, int op) {
  r.disabled = false;
  r.muted = false;
  r.told = Told();
  r.interest = interest_of(r);
  KernelPlan planned = plan(r);
  // The kernel gets the program's events of an exclusive one, to decide whether they are allowed.
  if (r.has(EPOLLEXCLUSIVE)) planned = {r.program.events, planned.tokened};
  if (op == EPOLL_CTL_MOD && r.silent() && planned == r.kernel) return 0;
  const int result = apply(r, op, planned);
  r.echoes = false;
  return result;
}

// Looks at a new registration: if it is ready already, that is an event for which sleepers are woken.
int EpollSet::look_at_once(Registration& r) {
  if (r.is_kernels_alone() || !refresh(r, false)) {
    erase(r);
    return 0;
  }
  if (r.laned || r.inner) {
    push(r, kWhatThereIs);
    wake_sleepers();
  }
  return 0;
}

// Looks at the socket, and returns the kernel's registration to make.
KernelPlan EpollSet::plan(Registration& r) {
  const std::uint32_t own = r.program.events;
  if (!r.socket) return {own, true};
  const bool concerned = !r.socket->kernel_alone();
  const bool laned = concerned && !r.socket->kernel_knows_all();
  lanes_ += int{laned} - int{r.laned};
  r.concerned = concerned;
  r.laned = laned;
  if (laned) need_more_than_kernel();
  if (!laned) {
    if (r.disabled) return {kSilent | EPOLLONESHOT, true};
    // An edge-triggered program gets no event of the kernel's that only comes of a change of the registration.
    const bool tokened = r.muted || r.has(EPOLLONESHOT) || RegistrationTable::looks_like_token(r.program.data.u64) ||
                         (r.has(EPOLLET) && r.kernel.tokened);
    return {own | (r.muted ? std::uint32_t{EPOLLET} : 0), tokened};
  }
  const std::uint32_t flags = own & EPOLLWAKEUP;
  if (r.disabled) return {kSilent | flags, true};
  const short asked = r.socket->ask_kernel(event_bits::plain(r.wanted()));
  const bool edges = asked == 0 || r.muted || r.has(EPOLLET);
  const auto events = static_cast<std::uint16_t>(event_bits::dressed(asked, r.wanted()));
  return {events | flags | (edges ? std::uint32_t{EPOLLET} : 0), true};
}

// Brings the kernel's registration up to date. `anew`: the meaning of events reported before may have changed, so the
// kernel must report them again; edge-triggered ones are asked for (look_again()). False if there is no registration any
// more.
bool EpollSet::refresh(Registration& r, bool anew) {
  if (anew) r.muted = false;
  const KernelPlan planned = plan(r);
  const bool again = anew && r.kernel.tokened && (r.kernel.events & EPOLLET) && !r.has(EPOLLET);
  return (planned == r.kernel && !again) || apply(r, EPOLL_CTL_MOD, planned) == 0;
}

int EpollSet::apply(Registration& r, int op, const KernelPlan& planned) {
  epoll_event event{};
  event.events = planned.events;
  event.data.u64 = planned.tokened ? RegistrationTable::token(r) : r.program.data.u64;
  const int epfd = epfd_;
  if (op == EPOLL_CTL_MOD && ((r.kernel.events | planned.events) & EPOLLEXCLUSIVE)) {
    if (libc::epoll_ctl(epfd, EPOLL_CTL_DEL, r.fd, nullptr) < 0) return -1;
    op = EPOLL_CTL_ADD;
  }
  const int result = libc::epoll_ctl(epfd, op, r.fd, &event);
  if (result == 0) {
    r.kernel = planned;
    r.in_kernel = true;
    r.spoke = false;
    r.echoes = op == EPOLL_CTL_MOD && r.has(EPOLLET) && r.told.has_end() && r.kernels_part() != 0;
    harvest_.asks_anew = true;
  }
  return result;
}

// Stops the kernel from reporting again and again an event that is not for the program.
void EpollSet::mute(Registration& r) {
  if (!r.socket) return;
  const bool fired = (r.kernel.events & EPOLLONESHOT) && !r.disabled;  // it must be armed again
  if (r.kernel.events & EPOLLET && !fired) return;
  r.muted = true;
  KernelPlan planned = plan(r);
  planned.events |= EPOLLET;
  planned.tokened = true;
  apply(r, EPOLL_CTL_MOD, planned);
}

// Erases the registration, and its part in the kernel.
void EpollSet::forget_dormant(Registration& r) {
  const KeepErrno keep;
  if (r.in_kernel && !r.inherited) libc::epoll_ctl(epfd_, EPOLL_CTL_DEL, r.fd, nullptr);
  erase(r);
}

bool EpollSet::forget_dormant(int fd) {
  const SetGuard guard(*this);
  std::vector<Registration*> dormant;
  if (Registration* const r = registrations_.find(fd); r != nullptr && r->dormant) dormant.push_back(r);
  if (fd < 0) {
    registrations_.any_of([&](Registration& r) VIADUCT_REQUIRES(set_state) {
      if (r.dormant) dormant.push_back(&r);
      return false;
    });
  }
  for (Registration* const r : dormant) forget_dormant(*r);
  return !dormant.empty();
}

void EpollSet::closing(int fd, bool others) {
  const SetGuard guard(*this);
  Registration* r = registrations_.find(fd);
  if (r == nullptr) return;
  if (!r->inherited) {
    if (others || !r->socket) {
      // The kernel may keep this registration, and the program can't change it any more: it gets the program's events.
      const KernelPlan last{r->disabled ? kSilent | EPOLLONESHOT : r->program.events, false};
      if (last != r->kernel) apply(*r, EPOLL_CTL_MOD, last);
    } else if (r->kernel.tokened) {
      libc::epoll_ctl(epfd_, EPOLL_CTL_DEL, fd, nullptr);
    }
  }
  erase(*r);
}

void EpollSet::pass() {
  if (passed_.exchange(true)) return;
  forget_dormant(-1);
  std::vector<int> fds;
  std::vector<EpollSetRef> inner;
  {
    const SetGuard guard(*this);
    registrations_.any_of([&](Registration& r) VIADUCT_REQUIRES(set_state) {
      fds.push_back(r.fd);
      if (r.inner) inner.push_back(r.inner);
      return false;
    });
  }
  for (const EpollSetRef& set : inner) set->pass();
  for (const int fd : fds) {
    const SocketRef socket = table::find(fd);
    if (socket) socket->leave_for_good(fd, Reason::kEpoll);
    // Bytes of the lane that are unread are this library's to tell of.
    if (!socket || socket->unread(fd) == 0) closing(fd, true);
  }
  wake_event_.remove(epfd_);
}

std::vector<EpollSetRef> EpollSet::outer_sets(int fd, bool any) {
  std::vector<EpollSetRef> sets;
  const LockGuard guard(outer_mutex_);
  for (Registration* r = outer_; r != nullptr; r = r->next_outer) {
    if (!any && r->fd != fd) continue;
    if (EpollSetRef set = r->set->weak_from_this().lock()) sets.push_back(std::move(set));
  }
  return sets;
}

// The file has lines "tfd: 5 events: 1d data: 7 ...", with hexadecimal numbers after tfd.
void EpollSet::adopt_registrations() {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", epfd_.load());
  FILE* info = fopen(path, "re");
  if (info == nullptr) return;
  const SetGuard guard(*this);
  char line[256];
  while (fgets(line, sizeof line, info) != nullptr) {
    int fd = -1;
    unsigned events = 0;
    unsigned long long data = 0;
    if (sscanf(line, "tfd: %d events: %x data: %llx", &fd, &events, &data) != 3) continue;
    SocketRef socket = table::find(fd);
    if (!socket || registrations_.find(fd) != nullptr) continue;
    epoll_event event{};
    event.events = events;
    event.data.u64 = data;
    Registration& r = insert(fd, std::move(socket), nullptr, event);
    r.kernel = {events, false};
    r.in_kernel = true;
    r.disabled = (events & EPOLLONESHOT) && !(events & 0xffff);
    r.interest = interest_of(r);
    if (!refresh(r, false)) {
      erase(r);
    } else if (r.laned) {
      push(r, kRouteChange);
    }
  }
  fclose(info);
}

// ------------------------------------------------------------------ registrations
Registration& EpollSet::insert(int fd, SocketRef socket, EpollSetRef inner,
                               const epoll_event& event) {
  Registration& r = registrations_.make(fd);
  r.set = this;
  r.socket = std::move(socket);
  r.inner = std::move(inner);
  r.program = event;
  if (r.inner) {
    r.concerned = true;
    ++nested_;
    need_more_than_kernel();
  }
  if (!r.inner && !r.socket) ++g_others;
  r.watch();
  return r;
}

void EpollSet::erase(Registration& r) {
  r.unwatch();
  ready_.remove(r);
  lanes_ -= int{r.laned};
  if (r.inner) --nested_;
  if (!r.inner && !r.socket) --g_others;
  registrations_.erase(r);
}

void Registration::watch() {
  if (inner) {
    const LockGuard guard(inner->outer_mutex_);
    next_outer = std::exchange(inner->outer_, this);
  } else if (socket) {
    socket->add(*this);
  }
}

void Registration::unwatch() {
  if (inner) {
    const LockGuard guard(inner->outer_mutex_);
    Registration** at = &inner->outer_;
    while (*at != this) at = &(*at)->next_outer;
    *at = next_outer;
  } else if (socket) {
    socket->remove(*this);
  }
}

bool EpollSet::has(const Watched& source) const {
  bool found = false;
  source.for_each_watcher([&](Watcher& watcher) {
    const auto& r = static_cast<const Registration&>(watcher);
    found |= r.set == this && r.interest != 0;  // a change of routes puts it on the ready list anyway
  });
  return found;
}

bool EpollSet::has_lanes() {
  if (lanes_ > 0) return true;
  if (nested_ == 0) return false;
  const SetGuard guard(*this);
  return registrations_.any_of(
      [](const Registration& r) VIADUCT_REQUIRES(set_state) { return r.inner && r.inner->has_lanes(); });
}

// ------------------------------------------------------------------ the ready list
// Puts the registration on the ready list, after a change.
void EpollSet::push(Registration& r, short changed) {
  list(r, changed);
  {
    const LockGuard guard(outer_mutex_);
    for (Registration* w = outer_; w != nullptr; w = w->next_outer) w->set->push(*w, POLLIN);
  }
  if (has_raw_sleepers()) wake_event_.ring(epfd_);
}

void EpollSet::list(Registration& r, short pending) {
  if (ready_.add(r, pending)) need_more_than_kernel();
}

// ------------------------------------------------------------------ sets that the kernel knows all about
void EpollSet::let_kernel_wait() {
  epoll_sets::Face* const face = epoll_sets::face_of(epfd_);
  if (face == nullptr || face->kernel_says_all) return;
  const LockGuard guard(mutex_, ready_.mutex());
  if (quiet()) face->kernel_says_all = true;
}

// To be called before looking for threads that may sleep in the kernel.
void EpollSet::need_more_than_kernel() {
  if (epoll_sets::Face* const face = epoll_sets::face_of(epfd_)) face->kernel_says_all = false;
}

bool EpollSet::has_raw_sleepers() const {
  if (raw_sleepers_ > 0) return true;
  const epoll_sets::Face* const face = epoll_sets::face_of(epfd_);
  return face != nullptr && face->sleepers > 0;
}

// ------------------------------------------------------------------ the wake event
// Wakes the threads that sleep on the set, by the kernel.
void EpollSet::wake_sleepers() {
  if (sleepers_ > 0 || has_raw_sleepers()) wake_event_.ring(epfd_);
  const LockGuard guard(outer_mutex_);
  for (Registration* w = outer_; w != nullptr; w = w->next_outer) w->set->wake_sleepers();
}

namespace {

// One descriptor serves all sets, as it is always readable: arming it anew in a set wakes that set's sleepers.
int wake_event() {
  static constinit std::atomic<int> g_wake_event{-1};
  int fd = g_wake_event.load();
  if (fd >= 0) return fd;
  const int made = own_descriptors::adopt(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  if (g_wake_event.compare_exchange_strong(fd, made)) return made;
  own_descriptors::close(made);
  return fd;
}

// `events`: EPOLLIN, or 0 to disarm the wake event. It is one-shot, so that it reports once each time.
int change_wake_event(int epfd, int op, std::uint32_t events) {
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.u64 = RegistrationTable::wake_event_token();
  return libc::epoll_ctl(epfd, op, wake_event(), &event);
}

}  // namespace

void SetWakeEvent::ring(int epfd) {
  const KeepErrno keep;
  const LockGuard guard(mutex_);
  if (wake_event() < 0) return;
  rung_ = true;
  if (change_wake_event(epfd, EPOLL_CTL_MOD, EPOLLIN) != 0 && errno == ENOENT) {
    change_wake_event(epfd, EPOLL_CTL_ADD, EPOLLIN);
  }
}

void SetWakeEvent::remove(int epfd) {
  const KeepErrno keep;
  const LockGuard guard(mutex_);
  rung_ = false;
  change_wake_event(epfd, EPOLL_CTL_DEL, 0);
}

short SetWakeEvent::without(int epfd, short kernel_says) {
  const KeepErrno keep;
  // No thread may ring between the two calls; one that has disarmed the event has left the kernel's answer out of date.
  const LockGuard guard(mutex_);
  if (std::exchange(rung_, false)) change_wake_event(epfd, EPOLL_CTL_MOD, 0);
  pollfd now{epfd, kernel_says, 0};
  return libc::poll(&now, 1, 0) < 0 ? kernel_says : now.revents;
}

short EpollSet::without_wake_event(int epfd, short kernel_says) {
  const bool others = sleepers_ > 0 || has_raw_sleepers();
  return others || (kernel_says & event_bits::kRead) == 0 ? kernel_says : wake_event_.without(epfd, kernel_says);
}

// ------------------------------------------------------------------ fork
// The locks are held over fork.
bool EpollSet::try_lock_for_fork() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  return std::try_lock(mutex_, outer_mutex_, ready_.mutex(), wake_event_.mutex()) < 0;
}

void EpollSet::unlock_after_fork(bool in_child) VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  if (in_child) {
    sleepers_ = 0;
    raw_sleepers_ = 0;
    wake_event_.forget();  // it may be the parent's
    registrations_.any_of([](Registration& r) VIADUCT_REQUIRES(set_state) {
      r.inherited = true;
      return false;
    });
  }
  wake_event_.mutex().unlock();
  ready_.mutex().unlock();
  outer_mutex_.unlock();
  mutex_.unlock();
}

namespace epoll_sets {

std::vector<EpollSetRef> that_have(const Socket& socket, int fd) {
  std::vector<EpollSetRef> sets;
  socket.for_each_watcher([&](Watcher& watcher) {
    auto& r = static_cast<Registration&>(watcher);
    if (r.fd != fd) return;
    if (EpollSetRef set = r.set->weak_from_this().lock()) sets.push_back(std::move(set));
  });
  return sets;
}

bool any_other() { return g_others > 0; }

bool wait_fast(int epfd, epoll_event* events, int most, int timeout, int& count) {
  Face* const face = face_of(epfd);
  if (face == nullptr || !face->kernel_says_all.load(std::memory_order_relaxed)) return false;
  ++face->sleepers;
  const bool says_all = face->kernel_says_all;
  if (says_all) count = libc::epoll_wait(epfd, events, most, timeout);
  --face->sleepers;
  return says_all;
}

bool kernels_alone(int fd, const Socket* socket) {
  return !RegistrationCounts::may_have(fd) && (socket != nullptr ? socket->stays_kernel_alone() : !knows(fd));
}

bool is_own(const epoll_event& event) { return RegistrationTable::looks_like_token(event.data.u64); }

bool has_own(const epoll_event* events, int count) {
  return std::any_of(events, events + count, is_own);
}

}  // namespace epoll_sets
}  // namespace viaduct::sovia
