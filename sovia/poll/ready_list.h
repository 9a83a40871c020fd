// The registrations of an EpollSet whose lane may have an event, the oldest first.
#ifndef VIADUCT_SOVIA_POLL_READY_LIST_H
#define VIADUCT_SOVIA_POLL_READY_LIST_H

#include <atomic>
#include <mutex>

#include "sovia/poll/epoll_registration.h"

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

  std::mutex& mutex() { return mutex_; }

 private:
  void unlink(Registration& r);

  std::atomic<int> size_{0};
  std::atomic<bool> route_change_{false};
  std::mutex mutex_;  // for what follows
  Registration* first_ = nullptr;
  Registration* last_ = nullptr;
};

}  // namespace viaduct::sovia

#endif
