// Threads for work that a program can make last as long as it likes: opening and copying its memory,
// closing descriptors that it has sent. Each user has a thread from the first piece of work until
// there has been none for a while. Work of one user is done in order, and does not hold another's.
#ifndef VIADUCT_KAGENT_AGENT_PROCESS_USER_THREADS_H
#define VIADUCT_KAGENT_AGENT_PROCESS_USER_THREADS_H

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_map>

#include "kagent/agent/process/event_loop.h"

namespace viaduct {

class UserThreads {
 public:
  using Work = std::function<void()>;
  static constexpr std::size_t kMostThreads = 64;  // users that come later share these

  explicit UserThreads(EventLoop& loop);  // throws std::system_error
  // Doesn't wait: a thread that hangs ends with the process. No `done` is called any more.
  ~UserThreads();
  UserThreads(const UserThreads&) = delete;
  UserThreads& operator=(const UserThreads&) = delete;

  // Runs `work` in the user's thread, then `done` in the loop's. Neither may throw, and `work` must
  // own all that it uses. Throws std::system_error when there is no thread to be had.
  void give(uid_t user, Work work, Work done = nullptr);

  // The user's thread hangs: another thread does the work that it has not begun.
  void abandon(uid_t user);

  // Pieces of work whose `done` has not been called yet: all, and of one user.
  std::size_t busy() const { return busy_; }
  std::size_t busy(uid_t user) const;

 private:
  struct Piece;
  struct Worker;
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared, const std::shared_ptr<Worker>& worker);
  std::shared_ptr<Worker> worker_of(uid_t user);
  void report();

  EventLoop& loop_;
  std::shared_ptr<Shared> shared_;
  EventLoop::Token token_;
  std::unordered_map<uid_t, std::shared_ptr<Worker>> workers_;
  std::size_t busy_ = 0;
  std::unordered_map<uid_t, std::size_t> busy_of_user_;
};

}  // namespace viaduct

#endif
