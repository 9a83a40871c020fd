// Watchers are called on changes of a source without waiting for them: epoll sets watch sockets.
#ifndef VIADUCT_SOVIA_LANE_WATCHERS_H
#define VIADUCT_SOVIA_LANE_WATCHERS_H

#include <atomic>

#include "xdp/mutex.h"

namespace viaduct::sovia {

// The changes of a source, as bits.
//     POLLIN        something to read came: data, the end
//     POLLOUT       there is room again where there was none
//     kRouteChange  a route went up or down, or may_use_lane() has another value now: what there was to tell may be told
//                   by another source, which is no news by itself
inline constexpr short kRouteChange = 0x4000;

class Watcher {
 public:
  Watcher() = default;
  Watcher(const Watcher&) = delete;
  // Called with the lock of the source's watchers. The thread may have a stream locked, as it takes arrivals in.
  virtual void changed(short what) = 0;

  Watcher* next_watcher = nullptr;  // under that lock

 protected:
  ~Watcher() = default;
};

// A source of changes, for watchers and for threads that wait (waiting.h). All sources share a few locks.
class Watched {
 public:
  void add(Watcher& watcher);
  void remove(Watcher& watcher);
  // Calls the watchers. To be called after a change, before waiting threads are woken. Costs a load without watchers.
  void tell(short what) {
    if (first_.load() != nullptr) tell_all(what);
  }
  // Calls visit(watcher) for each, under the lock.
  template <class Visit>
  void for_each_watcher(Visit&& visit) const {
    if (first_.load() == nullptr) return;
    const LockGuard guard(lock());
    for (Watcher* w = first_.load(); w != nullptr; w = w->next_watcher) visit(*w);
  }

  static bool try_lock_for_fork();  // all; false: none
  static void unlock_after_fork();

 private:
  void tell_all(short what);
  Mutex& lock() const;

  std::atomic<Watcher*> first_{nullptr};
};

}  // namespace viaduct::sovia

#endif
