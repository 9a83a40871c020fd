#include "kagent/agent/worker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace viaduct {

Workshop::Workshop(EventLoop& loop) : loop_(loop), bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!bell_) throw std::system_error(errno, std::generic_category(), "eventfd");
  token_ = loop_.add(bell_.get(), EPOLLIN, [this](std::uint32_t) { report(); });
}

Workshop::~Workshop() {
  loop_.remove(token_);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  change_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Workshop::give(Work work, Work done) {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  {
    const std::lock_guard lock(mutex_);
    wanted_.push_back({std::move(work), std::move(done)});
  }
  ++busy_;
  change_.notify_all();
}

void Workshop::finish() {
  while (busy_ != 0) {
    {
      std::unique_lock lock(mutex_);
      change_.wait(lock, [this] { return !finished_.empty(); });
    }
    report();
  }
}

void Workshop::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    change_.wait(lock, [this] { return stop_ || !wanted_.empty(); });
    if (wanted_.empty()) return;
    Piece piece = std::move(wanted_.front());
    wanted_.pop_front();
    lock.unlock();
    piece.work();
    lock.lock();
    finished_.push_back(std::move(piece));
    change_.notify_all();
    eventfd_write(bell_.get(), 1);
  }
}

void Workshop::report() {
  eventfd_t count;
  eventfd_read(bell_.get(), &count);
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
