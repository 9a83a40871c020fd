#include "kagent/agent/process/worker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "xdp/table_use.h"

namespace viaduct {

Worker::Worker(EventLoop& loop) : loop_(loop), wake_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_event_) throw std::system_error(errno, std::generic_category(), "eventfd");
  token_ = loop_.add(wake_event_.get(), EPOLLIN, [this](std::uint32_t) { report(); });
}

Worker::~Worker() {
  loop_.remove(token_);
  if (thread_.joinable()) thread_.join();
}

void Worker::give(Work work, Work done) {
  std::unique_lock lock(mutex_);
  if (!running_) {
    if (thread_.joinable()) thread_.join();
    thread_ = std::thread([this, use = TableUse()] { run(); });
    running_ = true;
  }
  wanted_.push_back({std::move(work), std::move(done)});
  ++busy_;
}

void Worker::finish() {
  while (busy_ != 0) {
    {
      std::unique_lock lock(mutex_);
      change_.wait(lock, [this] { return !finished_.empty(); });
    }
    report();
  }
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  while (!wanted_.empty()) {
    Piece piece = std::move(wanted_.front());
    wanted_.pop_front();
    lock.unlock();
    piece.work();
    lock.lock();
    finished_.push_back(std::move(piece));
    change_.notify_all();
    eventfd_write(wake_event_.get(), 1);
  }
  running_ = false;
}

void Worker::report() {
  eventfd_t count;
  eventfd_read(wake_event_.get(), &count);
  std::deque<Piece> finished;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(finished_);
  }
  for (Piece& piece : finished) {
    --busy_;
    if (piece.done) piece.done();
  }
}

}  // namespace viaduct
