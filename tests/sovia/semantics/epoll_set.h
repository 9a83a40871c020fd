// An epoll set, for the cases.
#ifndef SEMANTICS_EPOLL_SET_H
#define SEMANTICS_EPOLL_SET_H

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "calls.h"

namespace semantics {

// Its events carry small numbers.
class Set {
 public:
  Set() : fd_(must(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {}
  operator int() const { return fd_; }  // NOLINT

  int control(int operation, int fd, std::uint32_t events, std::uint64_t number) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = number;
    return epoll_ctl(fd_, operation, fd, &event);
  }
  void add(int fd, std::uint32_t events, std::uint64_t number = 0) const {
    must(control(EPOLL_CTL_ADD, fd, events, number), "EPOLL_CTL_ADD");
  }
  void modify(int fd, std::uint32_t events, std::uint64_t number = 0) const {
    must(control(EPOLL_CTL_MOD, fd, events, number), "EPOLL_CTL_MOD");
  }

  // The ready events, in the order of the numbers: "0:IN 2:IN|OUT".
  std::string wait(int limit_ms, int most = 64) const {
    std::vector<epoll_event> events(static_cast<std::size_t>(most));
    const int n = epoll_wait(fd_, events.data(), most, limit_ms);
    if (n < 0) return errno_name(errno);
    events.resize(static_cast<std::size_t>(n));
    std::sort(events.begin(), events.end(),
              [](const epoll_event& x, const epoll_event& y) { return x.data.u64 < y.data.u64; });
    std::string text;
    for (const epoll_event& event : events) {
      text += (text.empty() ? "" : " ") + std::to_string(event.data.u64) + ":" +
              epoll_bits(event.events);
    }
    return text.empty() ? "nothing" : text;
  }

 private:
  Fd fd_;
};

}  // namespace semantics

#endif
