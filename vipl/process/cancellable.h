// Programs end threads that sleep in the library. That is allowed around the system call that sleeps,
// while nothing is held, and nowhere else.
#ifndef VIADUCT_VIPL_PROCESS_CANCELLABLE_H
#define VIADUCT_VIPL_PROCESS_CANCELLABLE_H

#include <pthread.h>

namespace viaduct::vipl {

// While this object lives the calling thread may be cancelled at any instruction, if `may` is true.
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

// While this object lives the calling thread is cancelled only where a Cancellable allows it, even if the program
// lets it be cancelled anywhere: it drives the stack in between.
class Uncancellable {
 public:
  Uncancellable() { pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &before_); }
  ~Uncancellable() { pthread_setcanceltype(before_, nullptr); }
  Uncancellable(const Uncancellable&) = delete;
  Uncancellable& operator=(const Uncancellable&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_DEFERRED;
};

}  // namespace viaduct::vipl

#endif
