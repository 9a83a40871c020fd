// Signal handlers of the program: they may leave by longjmp, use sockets, end the process, and are to
// interrupt calls that wait. So none of them runs while the library has locks or lists in hand.
//
// The kernel calls the library's handler in place of the program's. Outside of the library that calls
// the program's at once. Inside() it holds the signal back: blocked for the thread, and sent to the
// thread again, until the call ends or waits at a place where nothing is in the way.
//
// Exceptions are faults, and handlers that the program sets without the C library or had set before this library was
// loaded: they run at once.
#ifndef VIADUCT_SOVIA_PROCESS_SIGNALS_H
#define VIADUCT_SOVIA_PROCESS_SIGNALS_H

#include <signal.h>

#include <atomic>

namespace viaduct::sovia::signals {

// How deep this thread is inside the library; whether a signal is held back. The variables use the initial-exec model,
// as signal handlers use them and must not cause an allocation.
#define SOVIA_THREAD_LOCAL extern constinit thread_local __attribute__((tls_model("initial-exec")))
SOVIA_THREAD_LOCAL volatile int t_inside;
SOVIA_THREAD_LOCAL volatile bool t_held_back;
#undef SOVIA_THREAD_LOCAL

inline bool held_back() { return t_held_back; }

// Runs the handlers of signals that are held back, as if the thread were outside; they may not return. To be called
// with nothing locked and nothing of the thread in any list. `asked`: the mask that the program has given for the time
// of the call, as to ppoll. True: a call that was interrupted goes on, as all handlers that ran have SA_RESTART.
bool run_held_back(const sigset_t* asked = nullptr);

// While it lives, handlers of the program wait.
class Inside {
 public:
  Inside() { enter(); }
  ~Inside() { leave(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  static void enter() {
    t_inside = t_inside + 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  static void leave() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t_inside = t_inside - 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (t_held_back && t_inside == 0) [[unlikely]] run_held_back_at_end();
  }

 private:
  static void run_held_back_at_end();
};

void after_fork_in_child();

// Lives during a kernel call that may wait, inside a call of the library: handlers run.
class Outside {
 public:
  Outside();
  ~Outside();
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  const int depth_;
};

// While it lives, a signal that is held back sets `left`, the time for which the thread is about to sleep, to zero, and
// makes `eventfd` readable. nullptr, -1: there is none.
class Alarm {
 public:
  Alarm(timespec* left, int eventfd);
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
};

}  // namespace viaduct::sovia::signals

#endif
