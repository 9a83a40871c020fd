// A thread for what takes too long for the thread that drives the stacks. Work is done in the order
// in which it is given; the thread is there while there is any.
#ifndef VIADUCT_KAGENT_AGENT_PROCESS_WORKER_H
#define VIADUCT_KAGENT_AGENT_PROCESS_WORKER_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "xdp/descriptor.h"
#include "kagent/agent/process/event_loop.h"

namespace viaduct {

class Worker {
 public:
  using Work = std::function<void()>;

  explicit Worker(EventLoop& loop);  // throws std::system_error
  // Finishes all work that was given; `done` is not called any more.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Runs `work` in the thread, then `done` in the loop's. Neither may throw; both are destroyed in
  // the loop's thread. Throws std::system_error when there is no thread to be had.
  void give(Work work, Work done);

  // Pieces of work whose `done` has not been called yet.
  std::size_t busy() const { return busy_; }

  // Waits until there are none; to be called from the loop's thread.
  void finish();

 private:
  struct Piece {
    Work work, done;
  };
  void run();
  void report();

  EventLoop& loop_;
  Descriptor wake_event_;
  EventLoop::Token token_;
  std::size_t busy_ = 0;
  std::mutex mutex_;
  std::condition_variable change_;
  std::deque<Piece> wanted_, finished_;
  bool running_ = false;
  std::thread thread_;
};

}  // namespace viaduct

#endif
