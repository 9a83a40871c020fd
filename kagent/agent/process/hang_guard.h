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
// For calls that end soon this costs two changes of stacks and two atomic operations. A thread that hangs is left alone
// with its table of descriptors (descriptor_table.h).
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
    virtual int descriptor() const { return -1; }  // that it uses; -1: none
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

  // So many calls are late that the loop can't leave another: none is to be made.
  bool is_full() const;
  // The loop shares its descriptors with a thread that hangs. empty_table() ends that; no other thread may use the
  // agent's descriptors then or later, but for those that are begun afterwards.
  bool shares_table() const;
  void empty_table();

 private:
  static void enter();
  static void carry(const std::shared_ptr<State>& state);
  static void watch(const std::shared_ptr<State>& state, std::uint64_t table);
  static bool take_over(const std::shared_ptr<State>& state, std::uint64_t table, std::uint64_t number);
  static bool start_watchdog(const std::shared_ptr<State>& state, std::uint64_t table);
  void report();

  EventLoop& loop_;
  EventLoop::Token token_;
  std::shared_ptr<State> state_;
};

}  // namespace viaduct

#endif
