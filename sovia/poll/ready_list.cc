#include "sovia/poll/ready_list.h"

#include <utility>

#include "xdp/mutex.h"

namespace viaduct::sovia {

bool ReadyList::add(Registration& r, short pending) {
  const LockGuard guard(mutex_);
  if ((pending & kRouteChange) != 0) route_change_ = true;
  r.pending |= pending;
  if (r.listed) return false;
  r.listed = true;
  r.next = nullptr;
  r.previous = last_;
  (last_ != nullptr ? last_->next : first_) = &r;
  last_ = &r;
  ++size_;
  return true;
}

Registration* ReadyList::pop(short& pending) {
  const LockGuard guard(mutex_);
  Registration* r = first_;
  if (r == nullptr) return nullptr;
  unlink(*r);
  pending = std::exchange(r->pending, short{0});
  return r;
}

void ReadyList::remove(Registration& r) {
  const LockGuard guard(mutex_);
  if (r.listed) unlink(r);
}

short ReadyList::take(Registration& r) {
  const LockGuard guard(mutex_);
  if (r.listed) unlink(r);
  return std::exchange(r.pending, short{0});
}

void ReadyList::unlink(Registration& r) {
  (r.previous != nullptr ? r.previous->next : first_) = r.next;
  (r.next != nullptr ? r.next->previous : last_) = r.previous;
  r.listed = false;
  --size_;
}

}  // namespace viaduct::sovia
