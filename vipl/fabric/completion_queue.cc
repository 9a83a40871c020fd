#include "vipl/fabric/completion_queue.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

#include "vipl/fabric/domain.h"

namespace viaduct::fabric {
namespace {

constexpr std::size_t kFirstEntries = 64;
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr long kStarvingNapNs = 500'000;

using Clock = std::chrono::steady_clock;

}  // namespace

fi_ops CompletionQueue::ops = ops_of(&CompletionQueue::close, &CompletionQueue::control);

fi_ops_cq CompletionQueue::cq_ops = {
    .size = sizeof(fi_ops_cq),
    .read = &CompletionQueue::read,
    .readfrom = &CompletionQueue::readfrom,
    .readerr = &CompletionQueue::readerr,
    .sread = &CompletionQueue::sread,
    .sreadfrom = &CompletionQueue::sreadfrom,
    .signal = &CompletionQueue::signal,
    .strerror = &CompletionQueue::strerror,
};

int CompletionQueue::open(fid_domain* domain, fi_cq_attr* attr, fid_cq** cq, void* context) {
  if (!WaitObject::is_known(attr->wait_obj)) return -FI_ENOSYS;
  if (attr->format > FI_CQ_FORMAT_TAGGED) return -FI_ENOSYS;
  if ((attr->flags & ~FI_AFFINITY) != 0) return -FI_EBADFLAGS;
  auto* queue = new (std::nothrow) CompletionQueue(object<Domain>(domain), *attr);
  if (queue == nullptr) return -FI_ENOMEM;
  queue->fid.context = context;
  if (!queue->wait_.open()) {
    delete queue;
    return -FI_EMFILE;
  }
  {
    const std::lock_guard lock(queue->nic_->mutex());
    queue->settle();
  }
  *cq = queue;
  return 0;
}

CompletionQueue::CompletionQueue(Domain& domain, const fi_cq_attr& attr)
    : fid_cq{{FI_CLASS_CQ, nullptr, &ops}, &cq_ops},
      domain_(domain),
      nic_(domain.nic()),
      format_(attr.format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr.format),
      wait_(attr.wait_obj),
      counts_(attr.wait_cond == FI_CQ_COND_THRESHOLD) {
  ring_.resize(kFirstEntries);
  domain_.acquire();
}

CompletionQueue::~CompletionQueue() { domain_.release(); }

int CompletionQueue::close(struct fid* fid) {
  auto& queue = object_of<CompletionQueue, fid_cq>(fid);
  {
    const std::lock_guard lock(queue.nic_->mutex());
    if (queue.users_ != 0) return -FI_EBUSY;
    queue.nic_->unwatch(queue);
  }
  delete &queue;
  return 0;
}

int CompletionQueue::control(struct fid* fid, int command, void* argument) {
  return object_of<CompletionQueue, fid_cq>(fid).wait_.control(command, argument);
}

// ------------------------------------------------------------------------------------ entries

void CompletionQueue::add(const Completion& completion) {
  if (pending() == ring_.size()) {
    std::vector<Completion> larger(ring_.size() * 2);
    for (std::size_t i = first_; i != last_; ++i) {
      larger[i & (larger.size() - 1)] = ring_[i & (ring_.size() - 1)];
    }
    ring_.swap(larger);
  }
  ring_[last_++ & (ring_.size() - 1)] = completion;
  if (sleepers_ != 0 || watched_) wait_.signal.raise();
}

void CompletionQueue::interrupt() {
  interrupted_ = true;
  wait_.signal.raise();
}

// Whether a wait must end without a completion: interrupt() asks for it, or an operation that was refused can be
// tried again.
bool CompletionQueue::disturbed() const { return interrupted_ || room_ != nic_->room(); }

void CompletionQueue::settle() {
  interrupted_ = false;
  room_ = nic_->room();
}

bool CompletionQueue::tell_watched() {
  if (empty() && !disturbed()) return false;
  wait_.signal.raise();
  watched_ = false;
  return true;
}

int CompletionQueue::try_wait() {
  nic_->progress();
  if (!empty() || disturbed()) {
    settle();
    return -FI_EAGAIN;
  }
  if (wait_.kind != FI_WAIT_FD) return -FI_EINVAL;
  wait_.signal.lower();
  watched_ = true;
  nic_->watch(*this);
  return 0;
}

void* CompletionQueue::copy(void* to, const Completion& c) const {
  switch (format_) {
    case FI_CQ_FORMAT_MSG: {
      auto* entry = static_cast<fi_cq_msg_entry*>(to);
      *entry = {c.context, c.flags, c.length};
      return entry + 1;
    }
    case FI_CQ_FORMAT_DATA: {
      auto* entry = static_cast<fi_cq_data_entry*>(to);
      *entry = {c.context, c.flags, c.length, c.buffer, c.data};
      return entry + 1;
    }
    case FI_CQ_FORMAT_TAGGED: {
      auto* entry = static_cast<fi_cq_tagged_entry*>(to);
      *entry = {c.context, c.flags, c.length, c.buffer, c.data, 0};
      return entry + 1;
    }
    default: {
      auto* entry = static_cast<fi_cq_entry*>(to);
      *entry = {c.context};
      return entry + 1;
    }
  }
}

// ------------------------------------------------------------------------------------ reading

ssize_t CompletionQueue::take(void* buffer, std::size_t count) {
  if (empty()) {
    nic_->progress();
    // ofi_rxm passes this error of a queue on to all its users, but no other error that would end their wait.
    if (empty()) return nic_->lost() ? -FI_ENETDOWN : -FI_EAGAIN;
  }
  std::size_t taken = 0;
  for (; taken != count && !empty(); ++taken) {
    const Completion& completion = ring_[first_ & (ring_.size() - 1)];
    if (completion.error != 0) break;
    buffer = copy(buffer, completion);
    ++first_;
  }
  if (taken != 0 || count == 0) return static_cast<ssize_t>(taken);
  return -FI_EAVAIL;
}

ssize_t CompletionQueue::read(fid_cq* cq, void* buffer, std::size_t count) {
  auto& queue = object<CompletionQueue>(cq);
  const std::lock_guard lock(queue.nic_->mutex());
  return queue.take(buffer, count);
}

ssize_t CompletionQueue::readfrom(fid_cq* cq, void* buffer, std::size_t count, fi_addr_t* from) {
  const ssize_t taken = read(cq, buffer, count);
  for (ssize_t i = 0; i < taken && from != nullptr; ++i) from[i] = FI_ADDR_NOTAVAIL;
  return taken;
}

ssize_t CompletionQueue::readerr(fid_cq* cq, fi_cq_err_entry* entry, std::uint64_t) {
  auto& queue = object<CompletionQueue>(cq);
  const std::lock_guard lock(queue.nic_->mutex());
  if (queue.empty()) return -FI_EAGAIN;
  const Completion& c = queue.ring_[queue.first_ & (queue.ring_.size() - 1)];
  if (c.error == 0) return -FI_EAGAIN;
  entry->op_context = c.context;
  entry->flags = c.flags;
  entry->len = c.length;
  entry->buf = c.buffer;
  entry->data = c.data;
  entry->tag = 0;
  entry->olen = c.overflow;
  entry->err = c.error;
  entry->prov_errno = c.status;
  // There are no error data; room that the program has given for them stays the program's.
  if (entry->err_data_size == 0) entry->err_data = nullptr;
  entry->err_data_size = 0;
  ++queue.first_;
  return 1;
}

// Waits until there are `least` entries, or an error.
ssize_t CompletionQueue::wait(void* buffer, std::size_t count, std::size_t least, int timeout) {
  const auto start = Clock::now();
  const auto end = start + std::chrono::milliseconds(timeout);
  auto spin = start + kSpin;
  if (timeout >= 0 && end < spin) spin = end;
  std::unique_lock lock(nic_->mutex());
  if (wait_.kind != FI_WAIT_YIELD && wait_.signal.open() < 0) return -FI_EMFILE;
  for (;;) {
    if (pending() < least) nic_->progress();
    const bool enough = pending() >= least || (!empty() && failed());
    if (enough || nic_->lost()) {
      if (const ssize_t taken = take(buffer, count); taken != -FI_EAGAIN) return taken;
    }
    if (disturbed()) {
      settle();
      return -FI_EAGAIN;
    }
    const auto now = Clock::now();
    if (timeout >= 0 && now >= end) return take(buffer, count);
    if (now < spin || wait_.kind == FI_WAIT_YIELD) {
      lock.unlock();
      if (now >= spin) std::this_thread::yield();
      lock.lock();
      continue;
    }
    auto left = std::chrono::nanoseconds(kStarvingNapNs);
    bool limited = nic_->starving();
    if (timeout >= 0 && (!limited || end - now < left)) {
      left = end - now;
      limited = true;
    }
    const timespec limit{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    pollfd news{wait_.signal.descriptor(), POLLIN, 0};
    wait_.signal.lower();
    ++sleepers_;
    lock.unlock();
    const int result = VipxPoll(nic_->queue(), &news, 1, limited ? &limit : nullptr, nullptr);
    const int reason = errno;
    lock.lock();
    --sleepers_;
    if (result < 0 && reason == EINTR) {
      const ssize_t taken = take(buffer, count);
      return taken == -FI_EAGAIN ? -FI_EINTR : taken;
    }
    if (result < 0) {
      const ssize_t taken = take(buffer, count);
      return taken == -FI_EAGAIN ? -FI_ENETDOWN : taken;
    }
  }
}

ssize_t CompletionQueue::sread(fid_cq* cq, void* buffer, std::size_t count, const void* condition,
                               int timeout) {
  auto& queue = object<CompletionQueue>(cq);
  if (queue.wait_.kind == FI_WAIT_NONE) return -FI_ENOSYS;
  const auto least = queue.counts_ ? reinterpret_cast<std::uintptr_t>(condition) : 1;
  return queue.wait(buffer, count, std::clamp<std::size_t>(least, 1, std::max<std::size_t>(count, 1)), timeout);
}

ssize_t CompletionQueue::sreadfrom(fid_cq* cq, void* buffer, std::size_t count, fi_addr_t* from,
                                   const void* condition, int timeout) {
  const ssize_t taken = sread(cq, buffer, count, condition, timeout);
  for (ssize_t i = 0; i < taken && from != nullptr; ++i) from[i] = FI_ADDR_NOTAVAIL;
  return taken;
}

int CompletionQueue::signal(fid_cq* cq) {
  auto& queue = object<CompletionQueue>(cq);
  const std::lock_guard lock(queue.nic_->mutex());
  queue.interrupt();
  return 0;
}

const char* CompletionQueue::strerror(fid_cq*, int status, const void*, char* buffer,
                                      std::size_t length) {
  const auto bits = static_cast<unsigned>(status);
  const char* text = "no error of the connection";
  if ((bits & VIP_STATUS_FORMAT_ERROR) != 0) text = "bad descriptor";
  if ((bits & VIP_STATUS_LENGTH_ERROR) != 0) text = "the message is longer than the receive";
  if ((bits & VIP_STATUS_DESC_FLUSHED_ERROR) != 0) text = "the connection has ended";
  if ((bits & VIP_STATUS_TRANSPORT_ERROR) != 0) text = "the connection is lost";
  if ((bits & VIP_STATUS_PROTECTION_ERROR) != 0) text = "memory that is not registered";
  if ((bits & VIP_STATUS_RDMA_PROT_ERROR) != 0) text = "the peer's memory may not be used";
  if ((bits & VIP_STATUS_REMOTE_DESC_ERROR) != 0) text = "the peer's receive could not take it";
  if (buffer != nullptr && length != 0) std::snprintf(buffer, length, "%s", text);
  return text;
}

}  // namespace viaduct::fabric
