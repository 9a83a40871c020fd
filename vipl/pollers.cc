#include "vipl/pollers.h"

#include "kagent/session_layout.h"
#include "vipl/lock.h"
#include "vipl/sys.h"

namespace viaduct::vipl {

bool Poller::prepare() {
  if (poke.load() < 0) poke.store(sys::eventfd());
  return poke.load() >= 0;
}

void Poller::forget() {
  in = nullptr;
  poked = false;
  const int fd = poke.exchange(-1);
  if (fd >= 0) sys::close(fd);
}

bool Poller::was_taken() const { return layout::was_taken(word->load(), before); }

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
}

void Pollers::wake(const Poller* self) {
  Lock lock(lock_);
  for (Poller* poller = first_; poller != nullptr; poller = poller->next) {
    if (poller != self && poller->was_taken()) poke(*poller);
  }
}

void Pollers::wake_one() {
  Lock lock(lock_);
  if (first_ != nullptr) poke(*first_);
}

void Pollers::hear(Poller& poller) {
  Lock lock(lock_);
  empty(poller);
}

void Pollers::poke(Poller& poller) {
  if (poller.poked) return;
  poller.poked = true;
  const std::uint64_t one = 1;
  sys::write(poller.poke, &one, sizeof one);
}

void Pollers::empty(Poller& poller) {
  if (!poller.poked) return;
  poller.poked = false;
  std::uint64_t pokes;
  sys::read(poller.poke, &pokes, sizeof pokes);
}

}  // namespace viaduct::vipl
