// One registration of an EpollSet.
#ifndef VIADUCT_SOVIA_POLL_EPOLL_REGISTRATION_H
#define VIADUCT_SOVIA_POLL_EPOLL_REGISTRATION_H

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "sovia/lane/watchers.h"
#include "sovia/poll/event_bits.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

class EpollSet;
using EpollSetRef = std::shared_ptr<EpollSet>;

// Held by who has locked a set, with its registrations (SetGuard). Clang can't follow a registration to its set's lock.
struct VIADUCT_CAPABILITY("lock") SetState {};
inline constexpr SetState set_state;

// The kernel's registration as it is to be: events, and whether its data is a token of the library's.
struct KernelPlan {
  std::uint32_t events;
  bool tokened;
  bool operator==(const KernelPlan&) const = default;
};

// The knowledge of an edge-triggered program about a socket. It is told again of what it knows if there is news, or if a
// call has found no more of it since.
struct Told {
  short events = 0;     // that were told
  short withheld = 0;   // news that could not be told yet, as other bytes come first
  std::uint32_t emptied = 0, filled = 0;  // the socket's counts when they were told
  bool has_end() const { return (events & (POLLRDHUP | POLLHUP)) != 0; }
};

// The events of a registration for which the kernel reports only errors, and those once.
inline constexpr std::uint32_t kSilent = EPOLLET;
// The events of which the kernel may have a part.
inline constexpr std::uint32_t kKernelsPart = EPOLLIN | EPOLLOUT | EPOLLRDHUP;

struct Registration final : Watcher {
  void changed(short what) override;
  void watch() VIADUCT_REQUIRES(set_state);  // watches the socket or the inner set
  void unwatch() VIADUCT_REQUIRES(set_state);
  void make_dormant() VIADUCT_REQUIRES(set_state);

  EpollSet* set;
  int fd;
  std::uint32_t slot;
  std::uint32_t generation;
  SocketRef socket;   // either this
  EpollSetRef inner;  // or this, or neither: its data looks like a token

  epoll_event program VIADUCT_GUARDED_BY(set_state){};  // as the program wants it
  KernelPlan kernel VIADUCT_GUARDED_BY(set_state){};  // as the kernel has it
  bool concerned VIADUCT_GUARDED_BY(set_state) = false;  // the kernel may not know all events, now or soon
  bool laned VIADUCT_GUARDED_BY(set_state) = false;  // the socket has a lane
  bool disabled VIADUCT_GUARDED_BY(set_state) = false;  // one-shot, and has fired
  bool muted VIADUCT_GUARDED_BY(set_state) = false;  // the kernel kept reporting an event that is not for the program
  bool inherited VIADUCT_GUARDED_BY(set_state) = false;  // made before a fork: the parent's kernel registration
  bool spoke VIADUCT_GUARDED_BY(set_state) = false;  // the kernel has reported an event since its last change
  bool dormant VIADUCT_GUARDED_BY(set_state) = false;  // deleted by the program, and kept (EpollSet::remove)
  bool in_kernel VIADUCT_GUARDED_BY(set_state) = false;  // the kernel has this registration, too
  // The kernel's next event may only come of the library's change of its registration.
  bool echoes VIADUCT_GUARDED_BY(set_state) = false;
  Told told VIADUCT_GUARDED_BY(set_state);
  std::uint64_t call VIADUCT_GUARDED_BY(set_state) = 0;  // the last harvest that returned an event of it ...
  int place VIADUCT_GUARDED_BY(set_state) = 0;  // ... and where
  std::atomic<short> interest{0};  // changes of the source that may concern the program

  // With the lock of the set's ready list.
  bool listed = false;
  short pending = 0;  // the changes since it was last looked at
  Registration* previous = nullptr;
  Registration* next = nullptr;

  // With inner's outer_mutex_.
  Registration* next_outer = nullptr;

  short wanted() const VIADUCT_REQUIRES(set_state) { return static_cast<short>(program.events & 0xffff); }
  bool has(std::uint32_t flag) const VIADUCT_REQUIRES(set_state) { return (program.events & flag) != 0; }
  // The lane reports all but errors, and the kernel has reported none: making the same kernel registration again would
  // change nothing.
  bool silent() const VIADUCT_REQUIRES(set_state) {
    return laned && !inherited && !spoke && kernel == KernelPlan{kSilent, true};
  }

  // The set needs this registration no more: the kernel answers for the socket for good, and its registration has the
  // program's own data, so no event with a token is on its way.
  bool is_kernels_alone() const VIADUCT_REQUIRES(set_state) {
    return socket && !kernel.tokened && socket->stays_kernel_alone();
  }

  // The events that the kernel's registration has at the moment.
  short kernels_part() const VIADUCT_REQUIRES(set_state);
  short answer(short kernel_says) const VIADUCT_REQUIRES(set_state) {
    if (!socket || !concerned) return kernel_says;
    return event_bits::dressed(
        socket->answer(event_bits::plain(wanted()), event_bits::plain(kernel_says), fd), wanted());
  }
};

}  // namespace viaduct::sovia

#endif
