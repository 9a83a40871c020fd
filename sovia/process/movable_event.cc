#include "sovia/process/movable_event.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <time.h>

#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"

namespace viaduct::sovia {
namespace {

int make(unsigned count) { return own_descriptors::adopt(::eventfd(count, EFD_CLOEXEC | EFD_NONBLOCK)); }

void ring_number(int fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = libc::write(fd, &one, sizeof one);
}

void close_number(int fd) {
  if (fd < 0) return;
  own_descriptors::release(fd);
  libc::close(fd);
}

}  // namespace

// A user whose epoch has ended before it was counted may not have been seen, and counts itself anew.
MovableEvent::Use::Use(MovableEvent* event) : event_(event) {
  if (event_ == nullptr) return;
  for (;;) {
    epoch_ = event_->epoch_.load();
    event_->users_[epoch_].fetch_add(1);
    if (event_->epoch_.load() == epoch_) break;
    event_->users_[epoch_].fetch_sub(1);
  }
  fd_ = event_->fd_.load();
}

MovableEvent::Use::~Use() {
  if (event_ != nullptr) event_->users_[epoch_].fetch_sub(1);
}

bool MovableEvent::open(unsigned count) {
  if (is_open()) return true;
  const int made = make(count);
  int none = -1;
  if (made >= 0 && !fd_.compare_exchange_strong(none, made)) close_number(made);
  return is_open();
}

void MovableEvent::ring() {
  const Use use(this);
  if (use.fd() >= 0) ring_number(use.fd());
}

void MovableEvent::empty() {
  const Use use(this);
  std::uint64_t count;
  if (use.fd() < 0) return;
  [[maybe_unused]] const ssize_t got = libc::read(use.fd(), &count, sizeof count);
}

bool MovableEvent::move_from(int fd, const unsigned* anew) {
  if (fd < 0 || fd_.load() != fd) return false;
  const int other = anew != nullptr ? make(*anew) : own_descriptors::adopt(libc::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (other < 0) return false;
  fd_.store(other);
  const unsigned before = epoch_.load();
  epoch_.store(1 - before);
  constexpr timespec kMoment{0, 50'000};
  while (users_[before].load() != 0) {
    if (anew == nullptr) ring_number(other);
    libc::ppoll(nullptr, 0, &kMoment, nullptr);
  }
  own_descriptors::release(fd);
  return true;
}

void MovableEvent::forget() {
  close_number(fd_.exchange(-1));
  epoch_.store(0);
  for (auto& users : users_) users.store(0);
}

}  // namespace viaduct::sovia
