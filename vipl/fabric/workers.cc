#include "vipl/fabric/workers.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace viaduct::fabric {
namespace {

constexpr unsigned kThreads = 16;
constexpr auto kIdle = std::chrono::milliseconds(200);

}  // namespace

// The last owner may be a worker.
Workers::~Workers() {
  for (std::thread& thread : threads_) thread.detach();
}

void Workers::run(std::function<void()> task, std::shared_ptr<void> owner) {
  tasks_.push_back(std::move(task));
  if (idle_ >= tasks_.size()) {
    news_.notify_one();
  } else if (threads_.size() < kThreads + ended_.size()) {
    threads_.emplace_back([this, owner = std::move(owner)] { work(); });
  }
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  join_ended(lock);
  for (;;) {
    if (tasks_.empty()) {
      ++idle_;
      news_.wait_for(lock, kIdle, [this] { return !tasks_.empty() || ending_; });
      --idle_;
      left_.notify_all();
      if (tasks_.empty()) break;
    }
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
  ended_.push_back(std::this_thread::get_id());
}

void Workers::join_ended(std::unique_lock<std::mutex>& lock) {
  std::vector<std::thread> ended;
  for (const std::thread::id id : ended_) {
    const auto at = std::find_if(threads_.begin(), threads_.end(),
                                 [id](const std::thread& thread) { return thread.get_id() == id; });
    ended.push_back(std::move(*at));
    threads_.erase(at);
  }
  ended_.clear();
  lock.unlock();
  for (std::thread& thread : ended) thread.join();
  lock.lock();
}

void Workers::end_idle() {
  std::unique_lock lock(mutex_);
  ending_ = true;
  news_.notify_all();
  left_.wait(lock, [this] { return idle_ == 0; });
  ending_ = false;
  join_ended(lock);
}

}  // namespace viaduct::fabric
