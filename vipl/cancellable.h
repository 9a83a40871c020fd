// Programs end threads that sleep in the library. That is allowed around the system call that sleeps,
// while nothing is held, and nowhere else.
#ifndef VIADUCT_VIPL_CANCELLABLE_H
#define VIADUCT_VIPL_CANCELLABLE_H

#include <pthread.h>

namespace viaduct::vipl {

// While it lives the calling thread may be cancelled at any instruction, if `may` is true.
class Cancellable {
 public:
  explicit Cancellable(bool may) : may_(may) {
    if (may_) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before_);
  }
  ~Cancellable() {
    if (may_) pthread_setcanceltype(before_, nullptr);
  }
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;

 private:
  bool may_;
  int before_ = PTHREAD_CANCEL_DEFERRED;
};

}  // namespace viaduct::vipl

#endif
