// The driver of a granted session: it gives the program's own stack its turns.
//
// Whichever thread of the program calls the library and finds nothing done gives the stack a turn
// (turn()); one at a time, the others go on without waiting. A thread that has looked long enough
// sleeps on the port (watch()): one at a time again, the others sleep on the futex words as in a
// hosted session and are woken by the one that has the next turn.
//
// When no thread of the program has come by for a lease, a thread of the library stands in for
// them: it keeps watch until one comes by again. So peers see acknowledgements, and memory that
// they write to changes, whatever the program is doing.
//
//   the program's threads come by     the progress thread looks every few ms whether they still do
//   one of them sleeps on the port    the progress thread rests
//   none comes by for a lease         the progress thread watches the port
#ifndef VIADUCT_VIPL_GRANTED_DRIVER_H
#define VIADUCT_VIPL_GRANTED_DRIVER_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kagent/contract/idle.h"
#include "vipl/granted/granted_environment.h"
#include "kagent/contract/granted_segment.h"
#include "kagent/contract/session_layout.h"
#include "kagent/contract/spin_time.h"
#include "vipl/granted/granted_stack.h"
#include "vipl/api/api.h"
#include "vipl/granted/library_thread.h"
#include "vipl/granted/port_watch.h"
#include "vipl/granted/turn_lock.h"
#include "vipl/process/attached_processes.h"
#include "vipl/session/post_batching.h"
#include "vipl/session/registry_lock.h"
#include "xdp/grant/granted_port.h"

namespace viaduct::vipl {

struct Hello;
class Pollers;

class Driver {
 public:
  // Maps what the agent granted and starts the progress thread. Takes over the port's descriptors of the
  // hello, also on failure; its agent wake and segment stay the caller's. nullptr on failure, which is
  // explained. `control_session`: the mapped segment of the session with the agent's stack. `pollers`:
  // threads to wake too.
  static Driver* make(Hello& hello, const layout::View& control_session, Pollers& pollers)
      VIADUCT_REQUIRES(registry::g_lock);

  // Frees the driver; no thread may be inside. In a forked child, where `abandoned` is true, the stack is left alone:
  // it belongs to the parent.
  static void destroy(Driver* driver, bool abandoned) VIADUCT_REQUIRES(registry::g_lock);

  // The session's segment, in memory that the agent can look into when the program has died.
  layout::View segment() const { return segment_; }
  layout::Capacity capacity() const { return stack_->capacity(); }

  // Gives the stack a turn unless another thread does. True if the stack had something to do. To be called by threads
  // of the program that have looked for something in vain.
  bool turn();

  // Turns of the program's threads so far, modulo 2^32. Turns of two threads at once may count as one.
  std::uint32_t turns() const { return turns_.load(std::memory_order_relaxed); }

  // Something was posted: rings the doorbell and gives the stack a turn, at once or, as
  // described at PostBatching, later.
  void posted(std::uint32_t vi);

  // Between a call with true and one with false what is posted waits. Any number of threads may hold posts.
  void hold_posts(bool hold);

  // GrantedStack::redirect() and unredirect(). VIP_ERROR_RESOURCE once the session ends.
  VIP_RETURN redirect(std::uint32_t vi, std::uint32_t generation, const layout::Segment& to);
  VIP_RETURN unredirect(std::uint32_t vi, std::uint32_t generation);

  // Sleeps as long as the word `sleepers` is `asleep`, until a frame has come, a timer is due or
  // the time is `until` (CLOCK_MONOTONIC, ns): a futex that also hears the port. False at once if
  // another thread of the program sleeps on the port already. cancellable: the thread may be
  // cancelled while it sleeps.
  bool watch(const std::atomic<std::uint32_t>& sleepers, std::uint32_t asleep, std::uint64_t until,
             bool cancellable);

  // As watch(), for a thread that sleeps in its own way, on more than the port.
  struct Sleep {
    void* self;
    // Whether the thread must not sleep at all; asked when others know that it is about to.
    bool (*woken)(void* self);
    // Sleeps until one of `news` is readable, which their revents say, or the time is `until`. False in a
    // child that was forked by a signal handler meanwhile: there the driver is gone.
    bool (*sleep)(void* self, PortWatch::News& news, std::uint64_t until);
  };
  enum class Watched { kYes, kByAnother, kForked };
  Watched watch(const Sleep& sleep, std::uint64_t until);

  // Whether some thread keeps watch.
  bool is_watched() const { return watch_.holder.load() != 0; }

  // The driver's descriptors, as VipxDescriptors tells them.
  static constexpr int kDescriptors = GrantedPort::kDescriptors + 3;
  void descriptors(int (&fds)[kDescriptors]) const {
    int its[GrantedPort::kDescriptors];
    port_.descriptors(its);
    for (int i = 0; i < GrantedPort::kDescriptors; ++i) fds[i] = its[i];
    fds[kDescriptors - 3] = watch_.timer.descriptor();
    fds[kDescriptors - 2] = watch_.program.driver_wake;
    fds[kDescriptors - 1] = watch_.progress_thread.driver_wake;
  }

  // Makes the thread in watch() look again at its word.
  void wake_port_watcher() { PortWatch::wake_driver(watch_.program); }

  // The port may be changed between hold() and go_on() only.
  GrantedPort& port() { return port_; }

  // Between hold() and go_on() the stack neither reads nor changes the control session. hold() returns false if the
  // session ends. `control_session`: the address by which this host's agent is reached from now on; null: as before.
  bool hold() VIADUCT_TRY_ACQUIRE(true, lock_);
  void go_on(const MacAddress* control_session) VIADUCT_RELEASE(lock_);

  // For another program of this host: GrantedPort::add_local() and end_local(). Takes the file over.
  void add_local(const MacAddress& peer, std::uint64_t program, int file, unsigned end);
  void end_local(const MacAddress& peer);

  // For processes that attach: GrantedStack::join() and leave(). 0: there are too many, or the session ends.
  std::uint32_t join(std::uint32_t parent, std::uint32_t forks);
  void leave(std::uint32_t program);
  void name(std::uint32_t program, std::uint32_t& member, std::uint32_t& id) const {
    member = stack_->member_of(program), id = stack_->id_of(program);
  }
  std::uint32_t program_id() const { return stack_->id_of(0); }
  // The event descriptors that wake the threads that sleep on the port.
  void driver_wakes(int (&fds)[2]) const { fds[0] = watch_.program.driver_wake, fds[1] = watch_.progress_thread.driver_wake; }
  AttachedProcesses& attached_processes() { return attached_; }

  // The session is about to be lost: once this has returned the stack touches the program's memory no
  // more, so that what is posted can be given back. May be called again.
  void halt();

  // The session is lost. To be called once, after halt(). If its port is left, peers are told, as far as
  // they answer within some milliseconds; finish() tells none any more.
  void lose(bool port_is_left);

  // To be called when all other threads were killed. False: one of them was in the middle of a turn, so there can't be
  // another one.
  bool outlive();

  // Ends the session: peers are told. To be called once, after halt().
  void finish();

 private:
  Driver() = default;
  // Why the stack gets a turn: the program looks for completions, it has posted something, or
  // neither has happened for a while.
  enum class Cause { kLook, kPost, kProgressThread };

  template <class Work>
  VIP_RETURN between_rounds(Work&& work);
  unsigned round(Cause cause) VIADUCT_REQUIRES(lock_);
  bool serve(Cause cause);
  bool more() const { return segment_.header().doorbells.any(); }

  template <class Unless, class Asleep>
  bool sleep_on_port(PortWatch::Sleeper& watch, std::uint64_t until, Unless&& unless, Asleep&& asleep);
  static bool sleep_alone(PortWatch::News& news, std::uint64_t until, bool cancellable);
  void sleep_as_progress_thread();

  // progress_thread.cc
  bool start_progress_thread();
  void dismiss_progress_thread();
  void stop_progress_thread();
  void progress_thread();
  void keep_watch(std::uint32_t before);

  // --- set at make()
  layout::View segment_;
  struct {
    void* at = nullptr;
    std::size_t bytes = 0;
  } granted_segment_;
  std::uint64_t spin_ns_ = 0;
  idle::Crowd progress_crowd_;
  idle::SpinTime progress_spin_time_;
  GrantedPort port_;
  GrantedEnvironment environment_;
  AttachedProcesses attached_;
  alignas(GrantedStack) std::byte stack_room_[sizeof(GrantedStack)];
  GrantedStack* stack_ = nullptr;

  struct {
    std::uint32_t idle = 0;    // rounds in a row in which nothing was to be seen
    std::uint64_t now = 0;     // of the last round that read the clock
  } rounds_ VIADUCT_GUARDED_BY(lock_);
  PostBatching post_batching_ VIADUCT_GUARDED_BY(lock_);
  bool halted_ VIADUCT_GUARDED_BY(lock_) = false;  // no more rounds

  // --- changing
  alignas(64) TurnLock lock_;
  std::atomic<std::uint32_t> turns_{0};      // of the program's threads; only their change matters
  alignas(64) PortWatch watch_;
  LibraryThread progress_thread_;
  std::atomic<std::uint32_t> holders_{0};  // threads that hold posts
  bool silent_ = false;
};

}  // namespace viaduct::vipl

#endif
