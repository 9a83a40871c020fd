// A session: one VipOpenNic, from the agent's answer to VipCloseNic.
//
// Sessions lie in a fixed table (session_table.h), by NIC number. The registry makes and unmakes them
// (registry.h); in between a call finds its session by handle, without a lock (session_guard.h):
//
//     free --open--> open --VipCloseNic--> closed --no thread inside--> free
//                      \--agent gone: `lost` is set; still open
//     in a forked child: open --> forked --VipxAttach--> open
//
// A process that has attached is a client of the same driver as the process that opened the session:
// of the agent, or, if the session is granted, of that first process (attached_processes.h).
//
// A granted session whose agent has gone without ending it looks for another agent (reattach.h) until another
// agent takes it over, or for so long that it is lost after all.
#ifndef VIADUCT_VIPL_SESSION_SESSION_H
#define VIADUCT_VIPL_SESSION_SESSION_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kagent/contract/control.h"
#include "kagent/contract/idle.h"
#include "kagent/contract/session_layout.h"
#include "kagent/contract/spin_time.h"
#include "vipl/api/api.h"
#include "vipl/granted/driver.h"
#include "vipl/session/finisher.h"
#include "vipl/session/handle.h"
#include "vipl/session/hello.h"
#include "vipl/session/pollers.h"
#include "vipl/session/region_table.h"
#include "vipl/session/registry_lock.h"

namespace viaduct::vipl {

struct Session;
struct Discovery;
struct ThreadRecord;

// A program's wish to be called once when a queue has completed something: VipSendNotify and the
// like.
struct Notification {
  Handle object;  // VI or CQ
  bool receive;   // VI: which of its queues
  VIP_VI_CALLBACK vi_handler;
  VIP_CQ_CALLBACK cq_handler;
  void* context;

  // The word in which a thread sets a bit to be woken for this queue.
  std::atomic<std::uint32_t>& sleepers(const Session& session) const;
};

// How many descriptors a work queue of the NIC takes.
inline std::uint32_t most_descriptors(const control::NicAttributes& nic) {
  return nic.max_descriptors != 0 && nic.max_descriptors < layout::kRingEntries ? nic.max_descriptors : layout::kRingEntries;
}

struct Session {
  // --- set at open, constant while it is open
  layout::View view;              // what the stack's driver serves
  layout::View control_session;              // what the agent serves; hosted: the same
  Driver* driver;                 // granted: of this process's own stack; else null
  std::uint32_t member;           // this process's number in the family that shares `view`
  std::uint32_t control_member;      // its number in the family that shares `control_session`
  layout::Capacity capacity;
  std::uint32_t max_descriptors;  // on one work queue
  std::uint32_t number;           // NIC number
  std::uint64_t spin_ns;          // how long to spin before sleeping, at most
  idle::SpinTimes spin_times;     // by the word on which a thread sleeps
  idle::Crowd crowd;              // others that want the processors too
  VIP_DESCRIPTOR** descriptors;   // by slot: the descriptor that was posted with it
  VIP_VI_ATTRIBUTES* attributes VIADUCT_PT_GUARDED_BY(lock);  // by VI
  std::atomic<std::uint64_t>* own_vis;  // a bit for each VI that may be this process's
  int agent_wake;                       // wakes the agent
  int poll_wake;                      // the agent wakes those who poll (control.h)
  int granted_segment, umem;                 // granted: files that show that the port belongs to the session; else -1
  int control_socket_fd;                // attached to a granted session: the agent's; `socket` is the link
  int driver_wakes[2];                   // ... and what wakes the first process; else -1
  AgentAddress agent;
  std::uint64_t reattach_ns;        // how long to look for another agent

  // --- changing
  std::atomic<std::uint32_t> key;   // kOpen | nic_key while open, else 0
  std::atomic<bool> lost;           // the agent has gone, or VipCloseNic was called
  std::atomic<bool> control_lost;      // attached to a granted session: the agent has
  LockWord lock VIADUCT_ACQUIRED_AFTER(registry::g_lock);
  RegionTable regions;
  VIP_ERROR_HANDLER error_handler VIADUCT_GUARDED_BY(lock);
  VIP_PVOID error_context VIADUCT_GUARDED_BY(lock);
  struct OwnErrors {  // found by the library, not handed to the program yet
    static constexpr std::uint32_t kMost = 16;  // the last is for the NIC's end
    std::uint32_t count;
    VIP_ERROR_DESCRIPTOR errors[kMost];
  } own_errors VIADUCT_GUARDED_BY(lock);
  // The locks of queues are taken under it.
  LockWord notify_lock VIADUCT_ACQUIRED_AFTER(registry::g_lock);
  std::atomic<bool> has_callback_thread;       // set under notify_lock
  std::atomic<ThreadRecord*> callback_thread;  // the thread that it is, once it has come
  struct Notifications {  // in the order in which they were asked for
    static constexpr std::uint32_t kMost = 1024;
    static constexpr std::size_t kBytes = kMost * sizeof(Notification);
    std::uint32_t count;
    Notification* entries;  // made at the first need
  } notifications VIADUCT_GUARDED_BY(notify_lock);
  Pollers pollers;                        // threads that sleep in VipxPoll
  LockWord discoverer;  // the thread that fills `discovery`; 0: none
  Discovery* discovery VIADUCT_GUARDED_BY(discoverer);  // made at the first need

  // The number of a granted session's control session: odd while there is none. No other control session takes its
  // place while a thread holds `control_lock`.
  std::atomic<std::uint32_t> control_epoch;
  LockWord control_lock VIADUCT_ACQUIRED_AFTER(registry::g_lock);

  Finisher finisher;

  // --- the registry's
  struct Reattach {
    std::uint64_t until;     // 0: the session has its agent
    std::uint64_t next_try;
    int socket;              // on it another agent has been asked; -1: none
  } reattach VIADUCT_GUARDED_BY(registry::g_lock);
  enum class State : std::uint8_t { kFree, kOpen, kClosed, kForked, kAttaching } state
      VIADUCT_GUARDED_BY(registry::g_lock);
  std::uint8_t generation;
  int socket;
  std::size_t control_bytes, view_bytes;  // of a view that is neither the control session nor the driver's: else 0
  control::NicAttributes nic;
  struct Family {
    control::FamilySecret secret;
    std::uint32_t id;        // of this process, once it is part of the session
    std::uint32_t parent;    // forked: the id of the process that this one was forked from
    std::uint32_t forks;     // layout::Header::forks as of the last fork
    // By VI and queue, for VIs that this process had at its last fork: how much had been posted there then. Made at
    // the first fork.
    std::uint32_t (*posted)[2] VIADUCT_GUARDED_BY(registry::g_lock);
    std::uint32_t joined;    // what `id` will be
    std::uint32_t vis;       // VIs that were ever made here lie below this; see made_vis()
  } family;

  static constexpr std::uint32_t kOpen = 1u << 16;

  // Whether no completion will come from the driver any more. A stack of the program's own has to be halted before:
  // `lost` says that.
  bool over() const {
    return lost.load(std::memory_order_acquire) ||
           (driver == nullptr && view.header().closed.load(std::memory_order_acquire) != 0);
  }

  // All VIs that this process has made or can take lie below this.
  std::uint32_t made_vis() { return std::atomic_ref(family.vis).load(std::memory_order_acquire); }
  void note_made(std::uint32_t vi) VIADUCT_REQUIRES(lock) {
    if (vi >= family.vis) std::atomic_ref(family.vis).store(vi + 1, std::memory_order_release);
  }
  std::uint32_t own_vi_words() const { return (capacity.vis + 63) / 64; }
  void own(std::uint32_t vi) { own_vis[vi / 64].fetch_or(1ull << (vi % 64)); }
  void disown(std::uint32_t vi) { own_vis[vi / 64].fetch_and(~(1ull << (vi % 64))); }

  std::uint32_t nic_part() const { return nic_key(number, generation); }
  VIP_NIC_HANDLE handle() const { return Handle(Kind::kNic, nic_part(), 0).pointer(); }

  // The driver's count for a VI's queue or a CQ of which `known` has the low bits. 0: it is not valid any
  // more, or another process's.
  template <class Queue>
  std::uint32_t generation_of(const Queue& queue, std::uint32_t known) const {
    const std::uint32_t now = queue.generation.load(std::memory_order_acquire);
    const bool right = ((now ^ known) & kGenerationMask) == 0 &&
                       queue.owner.load(std::memory_order_relaxed) == member;
    return right ? now : 0;
  }

  // Rings a doorbell of the stack. Its driver is this thread, or the agent, which is woken if it sleeps.
  void ring(std::uint32_t bit) {
    if (driver == nullptr) return ring_at(view, bit);
    view.header().doorbells.ring(bit);
    driver->turn();
  }
  // Rings the doorbell of a VI on which something was posted.
  void posted(std::uint32_t vi) {
    if (driver == nullptr) return ring_at(view, layout::vi_bit(vi));
    driver->posted(vi);
  }

  void ring_control_session(std::uint32_t bit) { ring_at(control_session, bit); }

  // Gives the stack a turn; to be called by a thread that has looked for something in vain. True if another look at
  // once is worth while.
  bool turn() { return driver != nullptr && driver->turn(); }

  // Wakes the threads that wait for this word, as the driver does. The word may meanwhile serve
  // another VI or CQ, so all kinds of sleepers are woken.
  void wake(std::atomic<std::uint32_t>& sleepers);

  // Makes the thread that calls handlers look at the session again.
  void alert();

  // The side that ends a wait. kStack: the driver of the stack. kStackAndAgent: the same, but the agent of this host
  // may have to do something first, and so needs the processor. kAgent: the agent.
  enum class Awaited { kStack, kStackAndAgent, kAgent };

  // Waits until attempt() returns true: spins, then sleeps on `sleepers`. False after timeout_ms.
  // cancellable: a sleeping thread may be cancelled.
  template <class Attempt>
  bool wait(std::atomic<std::uint32_t>& sleepers, std::uint64_t timeout_ms, Attempt&& attempt,
            bool cancellable = true, Awaited awaited = Awaited::kStack);

  // Passes a moment for a poll that has found nothing for the `misses`th time in a row. True if attempt() returns
  // true then.
  template <class Attempt>
  bool missed(std::atomic<std::uint32_t>& sleepers, std::uint32_t& misses, Attempt&& attempt);

 private:
  void ring_at(const layout::View& at, std::uint32_t bit) {
    at.header().doorbells.ring(bit);
    if (at.header().driver_sleeps.load() != 0) wake_driver(at);
  }
  void wake_driver(const layout::View& at);
};

}  // namespace viaduct::vipl

#endif
