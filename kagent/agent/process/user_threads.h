// Threads for work that a program can make last as long as it likes: opening and copying its memory, closing
// descriptors that it has sent.
//
// Each account has a thread from its first piece of work until there has been none for a while. Work of one owner is
// done in order, and does not hold another's. Work that takes too long is given up: its thread is left to hang, and
// another does what follows. An account has few threads that hang; then it gets no other until one of them returns.
//
// A thread that hangs in a page fault outlives even kill -9 of the agent. So it has none of the agent's descriptors:
// each thread has a table of its own, and gets and returns descriptors as messages.
#ifndef VIADUCT_KAGENT_AGENT_PROCESS_USER_THREADS_H
#define VIADUCT_KAGENT_AGENT_PROCESS_USER_THREADS_H

#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "kagent/agent/process/event_loop.h"
#include "xdp/clock.h"
#include "xdp/descriptor.h"

namespace viaduct {

class UserThreads {
 public:
  using Files = std::vector<Descriptor>;
  struct Piece {
    std::function<Files(Files files)> work;  // in the thread; must own all that it uses
    std::function<void(Files files)> done;   // in the loop, with what `work` has returned
    std::function<void()> late;              // in the loop, in place of `done`: given up; null: never is
    Files files = {};                        // for `work`; kMostFiles at most
  };
  // An account has more than one thread if it gives other parts.
  struct Owner {
    uid_t account;
    std::uint32_t part = 0;
    auto operator<=>(const Owner&) const = default;
  };
  static constexpr std::size_t kMostFiles = 4;
  static constexpr std::uint64_t kPatienceNs = 5 * kNsPerSecond;  // then work is given up
  static constexpr unsigned kMostHung = 4, kMostHungOfRoot = 32;  // of an account
  static constexpr std::size_t kMostThreads = 512;                // of all accounts but root

  explicit UserThreads(EventLoop& loop);
  // Doesn't wait: a thread that hangs ends with the process. Neither `done` nor `late` is called any more.
  ~UserThreads();
  UserThreads(const UserThreads&) = delete;
  UserThreads& operator=(const UserThreads&) = delete;

  // None of the piece's functions may throw. Throws std::system_error when there is no thread to be had; nothing of
  // the piece is called then.
  void give(Owner owner, Piece piece);

  // Gives up what has lasted too long. To be called at next_look() at the latest.
  void look(std::uint64_t now);
  std::uint64_t next_look() const;  // ~0: never

  // Calls of an account that hang elsewhere (HangGuard) count as its threads that hang.
  void note_hung(uid_t account) { ++hung_[account]; }
  void note_over(uid_t account);
  unsigned hung(uid_t account) const;
  bool any_hung() const { return !hung_.empty(); }
  bool may_have(uid_t account) const { return hung(account) < most_hung(account); }

  // Pieces of work of which neither `done` nor `late` has been called yet: all, and of one account.
  std::size_t busy() const { return busy_; }
  std::size_t busy(uid_t account) const;

 private:
  struct Job;
  struct Worker;
  using Workers = std::list<Worker>;
  static unsigned most_hung(uid_t account) { return account == 0 ? kMostHungOfRoot : kMostHung; }
  static void run(Descriptor channel, std::shared_ptr<Job> job);
  Workers::iterator worker_of(Owner owner);
  void begin(Worker& worker);
  void report(Workers::iterator worker);
  void end(Workers::iterator worker);
  void give_up(Workers::iterator worker, std::vector<std::function<void()>>& late);
  void count(uid_t account, int change);

  EventLoop& loop_;
  Workers workers_;                                // those that hang included
  std::map<Owner, Workers::iterator> by_owner_;    // those that take work
  std::size_t busy_ = 0;
  std::map<uid_t, std::size_t> busy_of_account_;
  std::map<uid_t, unsigned> hung_;
};

}  // namespace viaduct

#endif
