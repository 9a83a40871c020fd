#include "vipl/fabric/counter.h"

#include <chrono>
#include <new>

#include "vipl/fabric/domain.h"

namespace viaduct::fabric {
namespace {

constexpr auto kSpin = std::chrono::microseconds(50);
constexpr timespec kNap{0, 1'000'000};

}  // namespace

fi_ops Counter::ops = ops_of(&Counter::close);

fi_ops_cntr Counter::counter_ops = {
    .size = sizeof(fi_ops_cntr),
    .read = &Counter::read,
    .readerr = &Counter::readerr,
    .add = &Counter::add,
    .set = &Counter::set,
    .wait = &Counter::wait,
    .adderr = &Counter::adderr,
    .seterr = &Counter::seterr,
};

int Counter::open(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** counter, void* context) {
  if (attr->events != FI_CNTR_EVENTS_COMP) return -FI_ENOSYS;
  if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC && attr->wait_obj != FI_WAIT_YIELD) {
    return -FI_ENOSYS;
  }
  if (attr->flags != 0) return -FI_EBADFLAGS;
  auto* made = new (std::nothrow) Counter(object<Domain>(domain));
  if (made == nullptr) return -FI_ENOMEM;
  made->fid.context = context;
  *counter = made;
  return 0;
}

Counter::Counter(Domain& domain)
    : fid_cntr{{FI_CLASS_CNTR, nullptr, &ops}, &counter_ops}, domain_(domain), nic_(domain.nic()) {
  domain_.acquire();
}

int Counter::close(struct fid* fid) {
  auto& counter = object_of<Counter, fid_cntr>(fid);
  {
    const std::lock_guard lock(counter.nic_->mutex());
    if (counter.users_ != 0) return -FI_EBUSY;
  }
  Domain& domain = counter.domain_;
  delete &counter;
  domain.release();
  return 0;
}

std::uint64_t Counter::read(fid_cntr* fid) {
  auto& counter = object<Counter>(fid);
  const std::lock_guard lock(counter.nic_->mutex());
  counter.nic_->progress();
  return counter.value_;
}

std::uint64_t Counter::readerr(fid_cntr* fid) {
  auto& counter = object<Counter>(fid);
  const std::lock_guard lock(counter.nic_->mutex());
  counter.nic_->progress();
  return counter.errors_;
}

int Counter::add(fid_cntr* fid, std::uint64_t value) {
  auto& counter = object<Counter>(fid);
  const std::lock_guard lock(counter.nic_->mutex());
  counter.value_ += value;
  return 0;
}

int Counter::set(fid_cntr* fid, std::uint64_t value) {
  auto& counter = object<Counter>(fid);
  const std::lock_guard lock(counter.nic_->mutex());
  counter.value_ = value;
  return 0;
}

int Counter::adderr(fid_cntr* fid, std::uint64_t value) {
  auto& counter = object<Counter>(fid);
  const std::lock_guard lock(counter.nic_->mutex());
  counter.errors_ += value;
  return 0;
}

int Counter::seterr(fid_cntr* fid, std::uint64_t value) {
  auto& counter = object<Counter>(fid);
  const std::lock_guard lock(counter.nic_->mutex());
  counter.errors_ = value;
  return 0;
}

// Waits until the counter has the threshold. An error that comes meanwhile ends the wait.
int Counter::wait(fid_cntr* fid, std::uint64_t threshold, int timeout) {
  auto& counter = object<Counter>(fid);
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  std::unique_lock lock(counter.nic_->mutex());
  const std::uint64_t errors = counter.errors_;
  for (;;) {
    counter.nic_->progress();
    if (counter.value_ >= threshold) return 0;
    if (counter.errors_ != errors) return -FI_EAVAIL;
    const auto waited = Clock::now() - start;
    if (timeout >= 0 && waited >= std::chrono::milliseconds(timeout)) return -FI_ETIMEDOUT;
    lock.unlock();
    // Another thread may take the completions and count, which wakes no sleeper: so sleeps are short.
    if (waited > kSpin) VipxPoll(counter.nic_->queue(), nullptr, 0, &kNap, nullptr);
    lock.lock();
  }
}

}  // namespace viaduct::fabric
