// Threads for what blocks. None of them exists before there is something to do, and they end when
// nothing is left.
#ifndef VIADUCT_VIPL_FABRIC_WORKERS_H
#define VIADUCT_VIPL_FABRIC_WORKERS_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace viaduct::fabric {

class Workers {
 public:
  explicit Workers(std::mutex& mutex) : mutex_(mutex) {}

  // Runs a task, without the mutex, in a thread that keeps `owner` alive, and with it these workers. To be called
  // with the mutex held.
  void run(std::function<void()> task, std::shared_ptr<void> owner);

 private:
  void work();

  std::mutex& mutex_;
  std::deque<std::function<void()>> tasks_;
  std::condition_variable news_;
  unsigned threads_ = 0;
  unsigned idle_ = 0;
};

}  // namespace viaduct::fabric

#endif
