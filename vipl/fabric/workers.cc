#include "vipl/fabric/workers.h"

#include <chrono>
#include <thread>
#include <utility>

namespace viaduct::fabric {
namespace {

constexpr unsigned kThreads = 16;
constexpr auto kIdle = std::chrono::milliseconds(200);

}  // namespace

void Workers::run(std::function<void()> task, std::shared_ptr<void> owner) {
  tasks_.push_back(std::move(task));
  if (idle_ >= tasks_.size()) {
    news_.notify_one();
  } else if (threads_ < kThreads) {
    ++threads_;
    std::thread([this, owner = std::move(owner)] { work(); }).detach();
  }
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (tasks_.empty()) {
      ++idle_;
      news_.wait_for(lock, kIdle, [this] { return !tasks_.empty(); });
      --idle_;
      if (tasks_.empty()) break;
    }
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
  --threads_;
}

}  // namespace viaduct::fabric
