// Completion queues: taking entries off. session_layout.h names the owner of each word.
#ifndef VIADUCT_VIPL_SESSION_COMPLETION_QUEUE_H
#define VIADUCT_VIPL_SESSION_COMPLETION_QUEUE_H

#include "vipl/session/session.h"

namespace viaduct::vipl {

class CompletionQueue {
 public:
  // Whose descriptor has completed.
  struct Entry {
    VIP_VI_HANDLE vi;
    bool receive;
  };

  // The queue that a handle names; index and session have been checked (SessionGuard).
  CompletionQueue(Session& session, Handle cq)
      : session_(session),
        queue_(session.view.cq(cq.index())),
        ring_(session.view.cq_ring(cq.index())),
        index_(cq.index()),
        generation_(cq.generation()) {}

  // Whether the CQ is still the one that the handle names, and this process's.
  bool valid() const { return generation() != 0; }

  // Names the CQ in a command, so that the driver can tell it from one made later at its place.
  // False if it is not valid any more.
  bool name(layout::CommandBody& body) const {
    body.handle = index_;
    body.generation = generation();
    return body.generation != 0;
  }

  // Returns as VipCQDone.
  VIP_RETURN take(Entry& entry);

  // Returns as VipCQWait.
  VIP_RETURN wait(std::uint64_t timeout_ms, Entry& entry);

  // Whether take() would find an entry, which may turn out to be stale.
  bool shows_entry() const;

  // The word in which a thread sets a bit to be woken for this queue.
  std::atomic<std::uint32_t>& sleepers() const { return queue_.sleepers; }

  // Whether completions of some VI are announced on this CQ, as far as the library knows.
  bool in_use() const;

  // To be called when the CQ has just been made.
  void begin();

  // To be called when the CQ has just been destroyed: makes sure that it is not valid, wakes waiting threads.
  void end();

 private:
  // The generation as the driver counts it; 0 if the CQ is not valid, or belongs to another process.
  std::uint32_t generation() const { return session_.generation_of(queue_, generation_); }

  enum class Next { kEntry, kStale, kNone, kGone };
  Next next(Entry& entry);
  bool current(const layout::CqEntry& entry) const VIADUCT_REQUIRES(queue_.lock);
  void feed() VIADUCT_EXCLUDES(queue_.lock);
  bool take_flushed(Entry& entry);

  Session& session_;
  layout::Cq& queue_;
  layout::CqEntry* ring_;
  std::uint32_t index_;
  std::uint32_t generation_;
};

}  // namespace viaduct::vipl

#endif
