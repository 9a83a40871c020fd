// Descriptors that a thread sleeps on, with a handler each.
//
// Handlers may add and remove descriptors, their own included; a handler that was removed is not
// called any more, not even for an event that had already been fetched. One thread.
#ifndef VIADUCT_KAGENT_AGENT_PROCESS_EVENT_LOOP_H
#define VIADUCT_KAGENT_AGENT_PROCESS_EVENT_LOOP_H

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "xdp/descriptor.h"

struct epoll_event;

namespace viaduct {

class EventLoop {
 public:
  static constexpr std::uint64_t kForever = ~0ull;
  using Handler = std::function<void(std::uint32_t events)>;
  using Token = std::uint64_t;  // 0: none

  EventLoop();  // throws std::system_error

  // Calls `handler` with the EPOLL* events of `fd`. Throws std::system_error. Remove it before the
  // descriptor is closed.
  Token add(int fd, std::uint32_t events, Handler handler);
  void remove(Token token);

  // Makes sure that `fd` is the descriptor that is watched: its owner may have closed the former one and opened
  // another, perhaps under the same number.
  void renew(Token token, int fd);

  // Waits at most `timeout_ns` for events and calls their handlers. Returns how many there were.
  unsigned poll(std::uint64_t timeout_ns);

  // When the last poll() that might wait had waited: its handlers were called then.
  std::uint64_t woken() const { return woken_; }

 private:
  struct Entry {
    int fd;
    std::uint32_t events;
    Handler handler;
  };

  int wait(epoll_event* events, int most, std::uint64_t timeout_ns);

  Descriptor epoll_;
  std::uint64_t woken_ = 0;
  Token next_ = 1;
  bool precise_ = true;  // epoll_pwait2 is there
  std::unordered_map<Token, std::shared_ptr<Entry>> entries_;
};

}  // namespace viaduct

#endif
