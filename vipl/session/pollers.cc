#include "vipl/session/pollers.h"

#include "kagent/contract/session_layout.h"
#include "vipl/process/lock.h"
#include "vipl/process/sys.h"

namespace viaduct::vipl {

namespace {

// Event descriptors of threads that sleep no more, kept for the next threads: a process needs only as many as threads
// sleep at a time. Each is 1 + its number, 0: none.
constexpr int kSpares = 4;
std::atomic<int> g_spares[kSpares];

int take_spare() {
  for (std::atomic<int>& spare : g_spares) {
    if (const int fd = spare.exchange(0) - 1; fd >= 0) return fd;
  }
  return sys::eventfd();
}

void give_spare(int fd) {
  for (std::atomic<int>& spare : g_spares) {
    int none = 0;
    if (spare.compare_exchange_strong(none, fd + 1)) return;
  }
  sys::close(fd);
}

}  // namespace

bool Poller::prepare() {
  if (wake_event.load() < 0) wake_event.store(take_spare());
  return wake_event.load() >= 0;
}

void Pollers::forget_spares() {
  for (std::atomic<int>& spare : g_spares) {
    if (const int fd = spare.exchange(0) - 1; fd >= 0) sys::close(fd);
  }
}

int Pollers::spares(int* fds, int most) {
  int count = 0;
  for (const std::atomic<int>& spare : g_spares) {
    const int fd = spare.load() - 1;
    if (fd < 0) continue;
    if (count < most) fds[count] = fd;
    ++count;
  }
  return count;
}

void Poller::forget() {
  in = nullptr;
  woken = false;
  const int fd = wake_event.exchange(-1);
  if (fd >= 0) sys::close(fd);
}

bool Poller::was_taken() const { return layout::was_taken(word->load(), before); }

void Pollers::clear() {
  lock_.store(0);
  const Lock lock(lock_);
  first_ = nullptr;
}

void Pollers::enter(Poller& poller) {
  Lock lock(lock_);
  poller.in = this;
  poller.previous = nullptr;
  poller.next = first_;
  if (first_ != nullptr) first_->previous = &poller;
  first_ = &poller;
}

void Pollers::leave(Poller& poller) {
  Lock lock(lock_);
  (poller.previous != nullptr ? poller.previous->next : first_) = poller.next;
  if (poller.next != nullptr) poller.next->previous = poller.previous;
  poller.in = nullptr;
  empty(poller);
  if (const int fd = poller.wake_event.exchange(-1); fd >= 0) give_spare(fd);
}

void Pollers::wake(const Poller* self) {
  Lock lock(lock_);
  for (Poller* poller = first_; poller != nullptr; poller = poller->next) {
    if (poller != self && poller->was_taken()) wake(*poller);
  }
}

void Pollers::wake_one() {
  Lock lock(lock_);
  if (first_ != nullptr) wake(*first_);
}

void Pollers::hear(Poller& poller) {
  Lock lock(lock_);
  empty(poller);
}

void Pollers::wake(Poller& poller) {
  if (poller.woken) return;
  poller.woken = true;
  const std::uint64_t one = 1;
  sys::write(poller.wake_event, &one, sizeof one);
}

void Pollers::empty(Poller& poller) {
  if (!poller.woken) return;
  poller.woken = false;
  std::uint64_t wakes;
  sys::read(poller.wake_event, &wakes, sizeof wakes);
}

}  // namespace viaduct::vipl
