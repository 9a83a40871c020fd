// The registrations of an EpollSet whose lane may have an event, the oldest first.
#ifndef VIADUCT_SOVIA_POLL_READY_LIST_H
#define VIADUCT_SOVIA_POLL_READY_LIST_H

#include <atomic>

#include "sovia/poll/epoll_registration.h"
#include "sovia/process/lock_order.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

class ReadyList {
 public:
  int size() const { return size_.load(); }
  // Adds a registration; `pending`: its changes. False if it is on the list already.
  bool add(Registration& r, short pending);
  // Takes the first registration off the list. nullptr: it is empty.
  Registration* pop(short& pending);
  // Whether a change of routes (kRouteChange) has been added since this was asked last.
  bool take_route_change() { return route_change_.load(std::memory_order_relaxed) && route_change_.exchange(false); }
  void remove(Registration& r);
  // As remove(); returns the registration's changes.
  short take(Registration& r);

  Mutex& mutex() VIADUCT_RETURN_CAPABILITY(mutex_) { return mutex_; }

 private:
  void unlink(Registration& r) VIADUCT_REQUIRES(mutex_);

  std::atomic<int> size_{0};
  std::atomic<bool> route_change_{false};
  // Guards, of the registrations, what belongs to the list.
  Mutex mutex_ SOVIA_LOCK_ORDER(outer_sets, ready);
  Registration* first_ VIADUCT_GUARDED_BY(mutex_) = nullptr;
  Registration* last_ VIADUCT_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace viaduct::sovia

#endif
