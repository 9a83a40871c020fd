// The library's part of an epoll set, beside the kernel's own.
//
// The program's epoll descriptor is the kernel's, with all registrations in it. Registrations of
// our sockets, and of epoll descriptors with such sockets in them, are kept here too:
//
//     the socket has ...      the kernel's registration is    readiness comes from
//     no lane and no          the program's own, and nothing  the kernel
//     messages, for good      is kept here
//     no lane                 the program's own               the kernel
//     a lane, one or both     ours: what Socket::ask_kernel   the kernel for that, the ready list
//     directions              says, and a token for data      for the rest, both by Socket::answer
//
// The token tells which registration an event of the kernel is for. One-shot registrations have it
// always, as we must know when they have fired. Nothing else in the set is touched.
//
// The ready list has the registrations whose lane may have an event; Registration::changed() puts them there. A look at
// the list takes off registrations whose lane has no event after all.
//
// lock_order.h has the order of locks. Of mutex_ that of an outer set comes first, of outer_mutex_ that of an inner set.
// Nothing here is locked while a thread waits.
#ifndef VIADUCT_SOVIA_POLL_EPOLL_SET_H
#define VIADUCT_SOVIA_POLL_EPOLL_SET_H

#include <signal.h>
#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "sovia/lane/waiting.h"
#include "sovia/poll/ready_list.h"
#include "sovia/poll/registration_table.h"
#include "sovia/socket/socket.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

// A descriptor in each kernel set that can be made readable. It wakes threads that sleep in the kernel.
class SetWakeEvent {
 public:
  void ring(int epfd);
  // The kernel's events of the set's descriptor without those of the wake event, which is disarmed.
  short without(int epfd, short kernel_says);
  void remove(int epfd);
  void forget() VIADUCT_REQUIRES(mutex()) { rung_ = false; }
  Mutex& mutex() VIADUCT_RETURN_CAPABILITY(mutex_) { return mutex_; }

 private:
  Mutex mutex_ SOVIA_LOCK_ORDER(outer_sets, ready);
  bool rung_ VIADUCT_GUARDED_BY(mutex_) = false;  // false: certainly not armed
};

// The state that a harvest of a set's events (epoll_wait.cc) leaves to the next one, and to its own steps.
struct Harvest {
  std::uint64_t call = 0;      // their number
  bool kernel_filled = false;  // the last one had no room for the lanes' events: they come first
  bool asks_anew = false;      // a registration of the kernel's has changed
  int lanes_place = -1;        // of the wake event among the kernel's events; -1: it is not there
};

class EpollSet : public std::enable_shared_from_this<EpollSet> {
 public:
  explicit EpollSet(int epfd);
  ~EpollSet();

  // As epoll_ctl() and epoll_pwait(). `look_only`: don't wait, whatever the deadline.
  int control(int epfd, int op, int fd, epoll_event* event);
  int wait(int epfd, epoll_event* events, int most, bool look_only, std::uint64_t deadline,
           const sigset_t* mask);
  // Goes on with a wait after `count` kernel events have come, some of which are the set's own.
  int go_on_waiting(int epfd, epoll_event* events, int most, int count, bool look_only,
                    std::uint64_t deadline);

  // For waiters on the set itself (a poll(), an outer set): what the lanes add to the kernel's answer.
  bool maybe_ready() const { return ready_.size() != 0; }
  bool yields();  // whether a lane has an event for the program
  // As SetWakeEvent::without(). The event stays armed while another thread sleeps, which has yet to notice it.
  short without_wake_event(int epfd, short kernel_says);
  bool has_lanes();
  void sleeps(int by) { sleepers_ += by; }  // `by`: +1 or -1 thread in wait_for()

  bool has(const Watched& source) const;

  // Ends the registration of a descriptor that is about to be closed. `others`: other descriptors keep the socket open,
  // so the kernel keeps the registration, but the program can't change it any more.
  void closing(int fd, bool others);
  // Erases the dormant registration of `fd`, or all of them (-1). False: there is none.
  bool forget_dormant(int fd);

  // A descriptor of the set, for changes to the kernel's part.
  void use_descriptor(int epfd) { epfd_ = epfd; }
  // Takes over the existing registrations, by a look at /proc.
  void adopt_registrations();

  // Other processes get the set, or it has come from one: the kernel alone serves it from now on, and its sockets leave
  // their lanes for good. With no locks held.
  void pass();

  // The sets that this one is in by its descriptor `fd`, or by any.
  std::vector<EpollSetRef> outer_sets(int fd, bool any);

  bool try_lock_for_fork();  // all its locks; false: none
  void unlock_after_fork(bool in_child);

 private:
  friend struct Registration;
  friend class SetGuard;
  friend void refresh_watchers(Socket& socket);

  // Whether the kernel knows all events for now. The set notices when that changes, and wakes its sleepers.
  bool quiet() const { return lanes_ == 0 && nested_ == 0 && ready_.size() == 0; }
  void let_kernel_wait();
  void need_more_than_kernel();
  bool has_raw_sleepers() const;
  int wait_in_kernel(int epfd, epoll_event* events, int most, std::uint64_t deadline,
                     const sigset_t* mask);
  int harvest(int epfd, epoll_event* events, int most);
  int collect(epoll_event* events, int begin, int most) VIADUCT_REQUIRES(mutex_, set_state);
  short look_again(Registration* r, short pending) VIADUCT_REQUIRES(mutex_, set_state);
  void refresh_changed() VIADUCT_REQUIRES(mutex_, set_state);
  int ask_kernel(int epfd, epoll_event* events, int begin, int most) VIADUCT_REQUIRES(mutex_, set_state);
  int translate(epoll_event* events, int begin, int end) VIADUCT_REQUIRES(mutex_, set_state);
  void emit(Registration& r, short answer, epoll_event* events, int& count)
      VIADUCT_REQUIRES(mutex_, set_state);

  int add(int epfd, int fd, epoll_event& event, Registration* r, SocketRef socket, EpollSetRef inner)
      VIADUCT_REQUIRES(mutex_, set_state);
  int modify(int epfd, int fd, epoll_event& event, Registration* r, SocketRef socket,
             EpollSetRef inner)
      VIADUCT_REQUIRES(mutex_, set_state);
  int remove(int epfd, int fd, epoll_event* event, Registration* r) VIADUCT_REQUIRES(mutex_, set_state);
  int enter(int op, Registration& r) VIADUCT_REQUIRES(mutex_, set_state);
  int arm(Registration& r, int op) VIADUCT_REQUIRES(mutex_, set_state);
  int look_at_once(Registration& r) VIADUCT_REQUIRES(mutex_, set_state);
  KernelPlan plan(Registration& r) VIADUCT_REQUIRES(mutex_, set_state);
  bool refresh(Registration& r, bool anew) VIADUCT_REQUIRES(mutex_, set_state);
  int apply(Registration& r, int op, const KernelPlan& plan) VIADUCT_REQUIRES(mutex_, set_state);
  void mute(Registration& r) VIADUCT_REQUIRES(mutex_, set_state);
  void forget_dormant(Registration& r) VIADUCT_REQUIRES(mutex_, set_state);

  Registration& insert(int fd, SocketRef socket, EpollSetRef inner, const epoll_event& event)
      VIADUCT_REQUIRES(mutex_, set_state);
  void erase(Registration& r) VIADUCT_REQUIRES(mutex_, set_state);

  void push(Registration& r, short changed);
  void list(Registration& r, short pending);
  void wake_sleepers();

  std::atomic<int> epfd_;
  std::atomic<bool> passed_{false};
  std::atomic<int> lanes_{0};        // registrations whose socket has a lane
  std::atomic<int> nested_{0};       // registrations of sets
  std::atomic<int> sleepers_{0};     // threads in wait_for
  std::atomic<int> raw_sleepers_{0};  // threads in the kernel's epoll_wait

  Mutex mutex_ SOVIA_LOCK_ORDER(fork, sets);
  RegistrationTable registrations_ VIADUCT_GUARDED_BY(mutex_);
  Harvest harvest_ VIADUCT_GUARDED_BY(mutex_);

  ReadyList ready_;

  Mutex outer_mutex_ SOVIA_LOCK_ORDER(watchers, outer_sets);
  Registration* outer_ VIADUCT_GUARDED_BY(outer_mutex_) = nullptr;  // this set's registrations in other sets

  SetWakeEvent wake_event_;
};

// Locks a set, with its registrations, to the end of the block.
class VIADUCT_SCOPED_CAPABILITY SetGuard {
 public:
  explicit SetGuard(EpollSet& set) VIADUCT_ACQUIRE(set.mutex_, set_state) : mutex_(set.mutex_) { mutex_.lock(); }
  ~SetGuard() VIADUCT_RELEASE() { mutex_.unlock(); }
  SetGuard(const SetGuard&) = delete;
  SetGuard& operator=(const SetGuard&) = delete;

 private:
  Mutex& mutex_;
};

// Brings the kernel's registrations of the socket up to date, without waiting for the threads that use the sets. With
// no locks held.
void refresh_watchers(Socket& socket);

// The epoll descriptors of the process. Every call that opens, copies or closes a descriptor tells these functions.
namespace epoll_sets {

// The set of a descriptor that is known to be one.
EpollSetRef find(int fd);
// Whether the descriptor is a set; takes a few instructions.
bool knows(int fd);

// State of an epoll descriptor that can be read without its set: whether the kernel reports all events, and how many
// threads sleep in the kernel because of that. High descriptors have none.
struct Face {
  std::atomic<int> sleepers{0};
  std::atomic<bool> kernel_says_all{false};
};
inline constexpr int kFaces = 65536;
extern constinit std::array<Face, kFaces> g_faces;
inline Face* face_of(int epfd) {
  const auto place = static_cast<unsigned>(epfd);
  return place < static_cast<unsigned>(kFaces) ? &g_faces[place] : nullptr;
}
// Whether the kernel reports all events now. That is enough for a call that does not wait, and so need not be woken.
inline bool kernel_says_all(int epfd) {
  const Face* const face = face_of(epfd);
  return face != nullptr && face->kernel_says_all.load(std::memory_order_acquire);
}
// As epoll_wait(), for a set whose kernel part reports all events. False: it does not, or not any more. Some of the
// events may be the set's own (has_own()).
bool wait_fast(int epfd, epoll_event* events, int most, int timeout, int& count);
bool has_own(const epoll_event* events, int count);
bool is_own(const epoll_event& event);
// The sets that have a registration of this socket's descriptor `fd`.
std::vector<EpollSetRef> that_have(const Socket& socket, int fd);
// Whether epoll_ctl() for this descriptor is the kernel's business alone: the kernel answers for it for good, and no
// set has a registration of it. `socket`: that of the descriptor, or nullptr for none of ours.
bool kernels_alone(int fd, const Socket* socket);
// Has all sets take in the registrations that only the kernel has: a socket has become one that is not the kernel's
// alone. Does nothing where a seccomp filter is in force.
void adopt_registrations();
// Whether any set has a registration that is neither a socket's nor a set's.
bool any_other();
// As find(), for a descriptor that the program uses as a set, known or not; empty if it is none.
EpollSetRef find_or_look(int epfd);

// epoll_create() has returned `epfd`.
void opened(int epfd);
// `copy` has just been made of `fd` by dup and its kin; closing(copy) has been called before.
void copied(int fd, int copy);
// `fd` has come from another process, or from another descriptor by way of the kernel.
void received(int fd);
// Any descriptor is about to be closed or replaced. `socket` is what table::closing(fd) has given. Call it before
// Socket::release, with no locks held; this function may leave a lane and wait for its end.
void closing(int fd, Socket* socket);
// As closing(), for all sets among these descriptors.
void closing_range(unsigned first, unsigned last);

// Before other processes get to use the sets (fork, exec): removes registrations that the program has deleted from the
// kernel's part of each.
void forget_dormant();

// Around fork, after lanes have been left. In between, no set can be used. False: a thread uses one now.
bool try_before_fork();
void after_fork(bool in_child);

}  // namespace epoll_sets
}  // namespace viaduct::sovia

#endif
