// Threads for what blocks. None of them exists before there is something to do, and they end when
// nothing is left.
#ifndef VIADUCT_VIPL_FABRIC_WORKERS_H
#define VIADUCT_VIPL_FABRIC_WORKERS_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace viaduct::fabric {

class Workers {
 public:
  explicit Workers(std::mutex& mutex) : mutex_(mutex) {}
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs a task, without the mutex, in a thread that keeps `owner` alive, and with it these workers. To be called
  // with the mutex held.
  void run(std::function<void()> task, std::shared_ptr<void> owner);

  // Ends the threads that have nothing to do, and waits until they are gone. To be called without the mutex.
  void end_idle();

 private:
  void work();
  // Joins the threads that have ended or are about to. Called with the mutex held, which is let go of meanwhile.
  void join_ended(std::unique_lock<std::mutex>& lock);

  std::mutex& mutex_;
  std::deque<std::function<void()>> tasks_;
  std::condition_variable news_;
  std::condition_variable left_;  // a thread is no longer idle
  std::vector<std::thread> threads_;
  std::vector<std::thread::id> ended_;
  unsigned idle_ = 0;
  bool ending_ = false;  // idle threads are to end
};

}  // namespace viaduct::fabric

#endif
