// Threads that sleep in VipxPoll, one list for each session.
//
// A kernel descriptor that wakes several threads wakes all of them only if none takes the news away
// before the others have looked. So each thread sleeps on an event descriptor of its own, its wake
// event, and the thread that learns that a word was taken (kPoller, session_layout.h) wakes every
// thread that had set its bit there:
//
//   granted   the driver takes the word and wakes the list itself
//   hosted    the agent takes the word and wakes the poller, on which all the list sleeps too. The
//             first thread that it wakes reads it empty, and then wakes the list: a word that is
//             taken later makes it ring again.
//
// A thread enters the list before it looks for the last time whether its word was taken.
#ifndef VIADUCT_VIPL_SESSION_POLLERS_H
#define VIADUCT_VIPL_SESSION_POLLERS_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kagent/contract/lock_word.h"

struct pollfd;

namespace viaduct::vipl {

class Pollers;

// A thread's state for VipxPoll; kept with the thread's record.
struct Poller {
  Pollers* in;  // the list; null: in none
  Poller *previous, *next;
  const std::atomic<std::uint32_t>* word;
  std::uint32_t before;  // value of the word when the bit was set
  bool woken;            // something is in `wake_event`; under the list's lock
  std::atomic<int> wake_event;  // event descriptor while it sleeps; -1: none
  // Memory for calls with many descriptors, kept for the next call.
  pollfd* room;
  std::size_t room_bytes;

  // False when there are no descriptors left.
  bool prepare();
  bool was_taken() const;
  // To be called in a forked child: the list and the descriptor are the parent's.
  void forget();
};

class Pollers {
 public:
  // Makes the list empty; to be called when no thread is in it.
  void clear();

  void enter(Poller& poller);
  void leave(Poller& poller);

  // Wakes the threads whose word was taken, but not the caller, which looks by itself.
  void wake(const Poller* self = nullptr);
  // Wakes one thread, if there is one.
  void wake_one();

  // Event descriptors that no thread has at the moment: up to `most` of them; how many there are.
  static int spares(int* fds, int most);
  // To be called in a forked child: the spare descriptors are the parent's.
  static void forget_spares();

  // To be called by a thread that was woken.
  void hear(Poller& poller);

 private:
  void wake(Poller& poller) VIADUCT_REQUIRES(lock_);
  void empty(Poller& poller) VIADUCT_REQUIRES(lock_);

  LockWord lock_;
  Poller* first_ VIADUCT_GUARDED_BY(lock_) = nullptr;
};

}  // namespace viaduct::vipl

#endif
