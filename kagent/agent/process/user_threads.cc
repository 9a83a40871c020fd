#include "kagent/agent/process/user_threads.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "xdp/descriptor.h"

namespace viaduct {
namespace {

constexpr std::chrono::seconds kIdle{10};  // after which a thread ends

}  // namespace

struct UserThreads::Piece {
  uid_t user;
  Work work, done;
};

struct UserThreads::Worker {
  std::condition_variable change;
  std::deque<Piece> wanted;
  bool ended = false;
};

// Lives as long as any of the threads.
struct UserThreads::Shared {
  std::mutex mutex;
  std::deque<Piece> finished;
  Descriptor wake_event{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  bool stop = false;
};

UserThreads::UserThreads(EventLoop& loop) : loop_(loop), shared_(std::make_shared<Shared>()) {
  if (!shared_->wake_event) throw std::system_error(errno, std::generic_category(), "eventfd");
  token_ = loop_.add(shared_->wake_event.get(), EPOLLIN, [this](std::uint32_t) { report(); });
}

UserThreads::~UserThreads() {
  loop_.remove(token_);
  const std::lock_guard lock(shared_->mutex);
  shared_->stop = true;
  for (const auto& [user, worker] : workers_) worker->change.notify_all();
}

std::size_t UserThreads::busy(uid_t user) const {
  const auto it = busy_of_user_.find(user);
  return it == busy_of_user_.end() ? 0 : it->second;
}

// To be called with the mutex locked.
std::shared_ptr<UserThreads::Worker> UserThreads::worker_of(uid_t user) {
  std::erase_if(workers_, [](const auto& each) { return each.second->ended; });
  const auto known = workers_.find(user);
  if (known != workers_.end()) return known->second;
  if (workers_.size() >= kMostThreads) {
    return std::next(workers_.begin(), static_cast<std::ptrdiff_t>(user % kMostThreads))->second;
  }
  const auto worker = std::make_shared<Worker>();
  std::thread([shared = shared_, worker] { run(shared, worker); }).detach();
  workers_.emplace(user, worker);
  return worker;
}

void UserThreads::give(uid_t user, Work work, Work done) {
  const std::lock_guard lock(shared_->mutex);
  const std::shared_ptr<Worker> worker = worker_of(user);
  worker->wanted.push_back({user, std::move(work), std::move(done)});
  ++busy_;
  ++busy_of_user_[user];
  worker->change.notify_one();
}

void UserThreads::abandon(uid_t user) {
  const std::lock_guard lock(shared_->mutex);
  const auto known = workers_.find(user);
  if (known == workers_.end() || known->second->ended) return;
  Worker& hangs = *known->second;
  hangs.ended = true;
  std::deque<Piece> wanted = std::exchange(hangs.wanted, {});
  const std::shared_ptr<Worker> other = worker_of(user);
  other->wanted = std::move(wanted);
  other->change.notify_one();
}

void UserThreads::run(const std::shared_ptr<Shared>& shared,
                      const std::shared_ptr<Worker>& worker) {
  std::unique_lock lock(shared->mutex);
  const auto called = [&] { return shared->stop || !worker->wanted.empty(); };
  for (;;) {
    worker->change.wait_for(lock, kIdle, called);
    if (worker->wanted.empty()) break;
    Piece piece = std::move(worker->wanted.front());
    worker->wanted.pop_front();
    lock.unlock();
    piece.work();
    lock.lock();
    shared->finished.push_back(std::move(piece));
    eventfd_write(shared->wake_event.get(), 1);
    if (worker->ended) return;  // it was abandoned
  }
  worker->ended = true;
}

void UserThreads::report() {
  eventfd_t count;
  eventfd_read(shared_->wake_event.get(), &count);
  std::deque<Piece> finished;
  {
    const std::lock_guard lock(shared_->mutex);
    finished.swap(shared_->finished);
  }
  for (Piece& piece : finished) {
    --busy_;
    const auto of_user = busy_of_user_.find(piece.user);
    if (--of_user->second == 0) busy_of_user_.erase(of_user);
    if (piece.done) piece.done();
  }
}

}  // namespace viaduct
