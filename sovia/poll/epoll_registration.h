// One registration of an EpollSet.
#ifndef VIADUCT_SOVIA_POLL_EPOLL_REGISTRATION_H
#define VIADUCT_SOVIA_POLL_EPOLL_REGISTRATION_H

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>

#include "sovia/poll/epoll_set.h"
#include "sovia/poll/event_bits.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

struct Registration {
  EpollSet* set;
  int fd;
  std::uint32_t slot;
  std::uint32_t generation;
  SocketRef socket;   // either this
  EpollSetRef inner;  // or this, or neither: it is here as its data looks like a token

  // Changed with the set's mutex_ held.
  epoll_event program{};         // as the program wants it
  EpollSet::Plan kernel{};       // as the kernel has it
  bool concerned = false;        // the kernel may not be able to tell, now or soon
  bool laned = false;            // the socket has a lane
  bool disabled = false;         // one-shot, and has fired
  bool muted = false;            // the kernel insisted on something that the program is not to see
  bool inherited = false;        // made before a fork: the parent's kernel registration
  std::uint64_t call = 0;        // the last harvest that told of it ...
  int place = 0;                 // ... and where
  std::atomic<short> interest{0};  // the changes that matter

  // With the set's ready_mutex_.
  bool listed = false;
  short pending = 0;  // what has changed since it was last told
  Registration* previous = nullptr;
  Registration* next = nullptr;

  // With the lock of the socket's watchers, or inner's ready_mutex_.
  Registration* next_watcher = nullptr;

  short wanted() const { return static_cast<short>(program.events & 0xffff); }
  bool has(std::uint32_t flag) const { return (program.events & flag) != 0; }

  // What a lane has to say without the kernel, or with it.
  short lane_answer() const {
    if (inner) return inner->yields() ? static_cast<short>(event_bits::kRead & wanted()) : short{0};
    return answer(0);
  }
  short answer(short kernel_says) const {
    if (!socket || !concerned) return kernel_says;
    return event_bits::dressed(
        socket->answer(event_bits::plain(wanted()), event_bits::plain(kernel_says), fd), wanted());
  }
};

}  // namespace viaduct::sovia

#endif
