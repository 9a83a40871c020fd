// Threads of simulated programs: fibers of the one thread, which give way where a thread would make
// a system call that waits, and at a few places more (see kernel.h).
//
// A fiber belongs to an owner, a program of the world, or to none: then it serves all of them.
#ifndef VIADUCT_TESTS_SIM_WORLD_FIBERS_H
#define VIADUCT_TESTS_SIM_WORLD_FIBERS_H

#include <poll.h>
#include <setjmp.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace viaduct::vipl {
struct ThreadRecord;
}

namespace viaduct::sim {

class Fibers;

struct Fiber {
  enum class State : std::uint8_t {
    kReady,      // runs at the next step
    kYields,     // runs at `deadline`, looks again and again
    kPreempted,  // runs at `deadline`, may hold locks
    kOnWord,     // sleeps until it is woken, or `deadline`
    kPolls,      // until one of `polled` is ready, or `deadline`
    kEnded,
  };

  int id;
  const void* owner;
  const char* name;
  State state = State::kReady;
  std::uint64_t deadline = ~0ull;
  const void* word = nullptr;
  std::span<pollfd> polled;
  bool woken = false;
  unsigned yields = 0;  // in a row
  unsigned calls = 0;   // of the kernel, since it last gave way

  // The library's data of each thread.
  vipl::ThreadRecord* record = nullptr;
  void (*at_end)(void*) = nullptr;
  void* at_end_argument = nullptr;

 private:
  friend class Fibers;
  std::function<void()> work_;
  // Where it begins, and where it goes on: the former takes two system calls.
  ucontext_t context_{};
  jmp_buf jump_;
  bool begun_ = false;
  std::byte* stack_ = nullptr;
};

class Fibers {
 public:
  using State = Fiber::State;

  Fiber& start(const void* owner, const char* name, std::function<void()> work);

  // Lets every fiber go on that may, once; `may_run` says of which owners. True if any has.
  bool run(std::uint64_t now, const std::function<bool(const void* owner)>& may_run,
           const std::function<bool(const pollfd&)>& is_ready);
  // When a fiber must go on if nothing happens before.
  std::uint64_t next(std::uint64_t now,
                     const std::function<bool(const void* owner)>& may_run) const;

  // Those that sleep on this word, at most `count` of them.
  void wake(const void* word, int count);

  // The one that runs; null: none, this is the world itself.
  Fiber* current() const { return current_; }
  bool lives(int id) const;
  unsigned count(const void* owner) const;
  std::string text() const;

  // Of the current fiber: gives way until it is woken, ready, or the deadline is past.
  void suspend(State state, std::uint64_t deadline);

  // Ends those of `owner` that `which` names, where they are: nothing of theirs runs any more. Those
  // that may hold a lock go on until they don't. Returns what is left of their threads.
  struct Remains {
    vipl::ThreadRecord* record;
    void (*at_end)(void*);
    void* at_end_argument;
  };
  std::vector<Remains> end(const std::function<bool(const Fiber&)>& which);
  // Does the library's work at the end of such a thread. In a fiber.
  void retire(const Remains& thread);
  // They have no owner from now on.
  void disown(const void* owner);

 private:
  static void enter(unsigned high, unsigned low);
  void resume(Fiber& fiber);
  void go_to(Fiber& fiber);
  void go_back(Fiber& fiber);

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::byte*> stacks_;  // free ones
  Fiber* current_ = nullptr;
  ucontext_t world_{};
  jmp_buf world_jump_;
  int last_id_ = 1000;
};

}  // namespace viaduct::sim

#endif
