// Whether signals of the program interrupt its calls: whether it has ever set a handler without
// SA_RESTART. A call that spins while such a handler runs would not hear of it, so signals then wait
// until it sleeps.
#ifndef VIADUCT_SOVIA_SIGNALS_H
#define VIADUCT_SOVIA_SIGNALS_H

#include <signal.h>

#include <atomic>

namespace viaduct::sovia::signals {

extern std::atomic<bool> g_interrupt;

inline bool interrupt() { return g_interrupt.load(std::memory_order_relaxed); }

// Keeps the thread's signals back as long as it lives, if they may interrupt.
class Held {
 public:
  Held() : holds_(interrupt()) {
    if (!holds_) return;
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~Held() {
    if (holds_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  // The mask to sleep with: `asked`, or the thread's own.
  const sigset_t* mask(const sigset_t* asked) const {
    return asked != nullptr || !holds_ ? asked : &before_;
  }

 private:
  const bool holds_;
  sigset_t before_;
};

}  // namespace viaduct::sovia::signals

#endif
