#include "kagent/agent/process/event_loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <system_error>

#include "xdp/clock.h"

namespace viaduct {
namespace {

constexpr int kBurst = 64;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

EventLoop::EventLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) fail("epoll_create1");
}

EventLoop::Token EventLoop::add(int fd, std::uint32_t events, Handler handler) {
  const Token token = next_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
  entries_.emplace(token, std::make_shared<Entry>(Entry{fd, events, std::move(handler)}));
  return token;
}

void EventLoop::remove(Token token) {
  const auto it = entries_.find(token);
  if (it == entries_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second->fd, nullptr);
  entries_.erase(it);
}

void EventLoop::renew(Token token, int fd) {
  const auto it = entries_.find(token);
  if (it == entries_.end()) return;
  Entry& entry = *it->second;
  entry.fd = fd;
  epoll_event event{};
  event.events = entry.events;
  event.data.u64 = token;
  // The kernel forgets a descriptor when it is closed. A descriptor that it still knows can't be added again.
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno != EEXIST) fail("epoll_ctl");
}

int EventLoop::wait(epoll_event* events, int most, std::uint64_t timeout_ns) {
  if (precise_ && timeout_ns != 0 && timeout_ns != kForever) {
    const timespec timeout{static_cast<std::time_t>(timeout_ns / kNsPerSecond),
                           static_cast<long>(timeout_ns % kNsPerSecond)};
    const int count = epoll_pwait2(epoll_.get(), events, most, &timeout, nullptr);
    if (count >= 0 || errno != ENOSYS) return count;
    precise_ = false;
  }
  int timeout_ms = -1;
  if (timeout_ns != kForever) {
    const std::uint64_t ms = timeout_ns / kNsPerMs + (timeout_ns % kNsPerMs != 0);
    timeout_ms = static_cast<int>(std::min<std::uint64_t>(ms, INT_MAX));
  }
  return epoll_wait(epoll_.get(), events, most, timeout_ms);
}

unsigned EventLoop::poll(std::uint64_t timeout_ns) {
  epoll_event events[kBurst];
  const int count = wait(events, kBurst, timeout_ns);
  if (timeout_ns != 0) woken_ = monotonic_ns();
  for (int i = 0; i < count; ++i) {
    const Token token = events[i].data.u64;  // a copy: the structure is packed
    const auto it = entries_.find(token);
    if (it == entries_.end()) continue;
    const std::shared_ptr<Entry> entry = it->second;
    entry->handler(events[i].events);
  }
  return count > 0 ? static_cast<unsigned>(count) : 0;
}

}  // namespace viaduct
