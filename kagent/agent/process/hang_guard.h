// Threads that carry the service's loop, so that a system call that hangs does not hold it.
//
// The loop runs on a stack of its own. For a call that a program can make last (copying its memory) it
// leaves that stack, and the thread makes the call on its native one. If the call is over soon, as
// nearly always, the same thread goes back to the loop. If it hangs, another thread takes the loop over
// exactly there, and the loop hears that the call goes on without it:
//
//   carrier    loop --> call ........................... over: its `done` is called, the thread ends
//   watchdog             |  hangs: carries the loop from here on, where the call is late
//                        +-- a new watchdog
//
// For calls that end soon this costs two changes of stacks and two atomic operations.
#ifndef VIADUCT_KAGENT_AGENT_PROCESS_HANG_GUARD_H
#define VIADUCT_KAGENT_AGENT_PROCESS_HANG_GUARD_H

#include <cstdint>
#include <functional>
#include <memory>

#include "kagent/agent/process/event_loop.h"

namespace viaduct {

class HangGuard {
  struct State;

 public:
  // Permission that a call must ask for between two system calls.
  class Turn {
   public:
    // If the loop has gone on without the call, waits until the loop has called let_go() on what both use.
    void go_on();

   private:
    friend class HangGuard;
    State* state_ = nullptr;
    std::uint64_t number_ = 0;
  };
  class Call {
   public:
    virtual ~Call() = default;
    virtual void run(Turn& turn) = 0;  // must not throw
  };

  explicit HangGuard(EventLoop& loop);  // throws std::system_error
  // Does not wait for calls that hang: these end with the process.
  ~HangGuard();
  HangGuard(const HangGuard&) = delete;
  HangGuard& operator=(const HangGuard&) = delete;

  // Runs `body`, whose calls are watched, to its end. Throws what it throws.
  void run(const std::function<void()>& body);

  // Makes a call. Not to be used within a catch block, as it may return on another thread. True: the call is over.
  // False: the call is late, and goes on after let_go().
  bool make(Call& call);
  // Lets a late call go on without the loop. `done` owns the call, and is called from the loop when the call is over.
  void let_go(std::function<void()> done);

 private:
  static void enter();
  static void carry(const std::shared_ptr<State>& state);
  static void watch(const std::shared_ptr<State>& state);
  static bool take_over(const std::shared_ptr<State>& state, std::uint64_t number);
  void report();

  EventLoop& loop_;
  EventLoop::Token token_;
  std::shared_ptr<State> state_;
};

}  // namespace viaduct

#endif
