// The work queues of a VI: posting descriptors and taking them back. session_layout.h names the
// owner of each word.
#ifndef VIADUCT_VIPL_SESSION_WORK_QUEUE_H
#define VIADUCT_VIPL_SESSION_WORK_QUEUE_H

#include "vipl/session/session.h"

namespace viaduct::vipl {

class WorkQueue {
 public:
  enum class Side : bool { kSend = false, kReceive = true };

  // The queue of a VI that a handle names; index and session have been checked (SessionGuard).
  WorkQueue(Session& session, Handle vi, Side side)
      : session_(session),
        queue_(side == Side::kSend ? session.view.vi(vi.index()).send
                                   : session.view.vi(vi.index()).receive),
        ring_(side == Side::kSend ? session.view.send_ring(vi.index())
                                  : session.view.receive_ring(vi.index())),
        vi_(vi.index()),
        generation_(vi.generation()),
        side_(side) {}

  // Whether the VI is still the one that the handle names, and this process's.
  bool valid() const { return generation() != 0; }

  // Names the VI in a command, so that the driver can tell it from one made later at its place.
  // False if it is not valid any more.
  bool name(layout::CommandBody& body) const {
    body.vi = vi_;
    body.generation = generation();
    return body.generation != 0;
  }

  // Whether also the driver has not destroyed the VI, which it does before valid() changes. To be called under the
  // session's lock: what is then written about the VI is overwritten when another VI takes its place.
  bool current() const {
    const auto& status = session_.view.vi(vi_).status;
    const std::uint32_t now = status.generation.load(std::memory_order_acquire);
    return valid() && ((now ^ generation_) & kGenerationMask) == 0;
  }

  bool empty() const {
    const std::uint32_t head = queue_.dequeued.load(std::memory_order_acquire);
    return queue_.posted.load(std::memory_order_acquire) == head;
  }

  // As VipxSetMore. False if the VI is not valid any more.
  bool set_more(bool more) const {
    const std::uint32_t now = generation();
    queue_.more.store(more ? now : 0, std::memory_order_release);
    return now != 0;
  }

  // As VipxSetPatient. False if the VI is not valid any more.
  bool set_patient(bool patient) const {
    const std::uint32_t now = generation();
    queue_.patient.store(patient ? now : 0, std::memory_order_release);
    return now != 0;
  }

  // Returns as VipPostSend. Sets `overrun` when the queue is full and was not at the last post.
  VIP_RETURN post(VIP_DESCRIPTOR* descriptor, VIP_MEM_HANDLE memory, bool& overrun);

  // Returns as VipSendDone. `descriptor` is NULL unless one was taken.
  VIP_RETURN take(VIP_DESCRIPTOR*& descriptor);

  // Returns as VipSendWait.
  VIP_RETURN wait(std::uint64_t timeout_ms, VIP_DESCRIPTOR*& descriptor);

  // For a VI just made: empties the queue, which then belongs to that VI. cq: 0 or 1 + index.
  void begin(std::uint32_t generation, std::uint32_t cq);

  // For a VI just destroyed: gives the slots back, wakes waiting threads.
  void end();

  std::atomic<std::uint32_t>& sleepers() const { return queue_.sleepers; }

 private:
  // The generation as the driver counts it; 0 if the VI is not valid, or belongs to another process.
  std::uint32_t generation() const { return session_.generation_of(queue_, generation_); }

  void fill(layout::Slot& slot, const VIP_DESCRIPTOR& descriptor, VIP_MEM_HANDLE memory) const;
  bool gather(layout::SlotRequest& request, const VIP_DESCRIPTOR& descriptor) const;
  VIP_RETURN nothing_posted() const VIADUCT_EXCLUDES(queue_.lock);
  void complete(const layout::Slot& slot, VIP_DESCRIPTOR& descriptor) const;
  std::uint32_t flushed_status(const layout::Slot& slot) const;
  void clear() VIADUCT_REQUIRES(queue_.lock);

  std::uint32_t take_slot() VIADUCT_REQUIRES(queue_.lock);
  void give_slot(std::uint32_t slot) VIADUCT_REQUIRES(queue_.lock);
  std::uint32_t slot_at(std::uint32_t position) const {
    const std::uint64_t word =
        ring_[position % layout::kRingEntries].word.load(std::memory_order_relaxed);
    const std::uint32_t slot = layout::ring_word_slot(word);
    return slot < session_.capacity.slots ? slot : 0;
  }

  Session& session_;
  layout::WorkQueue& queue_;
  layout::RingEntry* ring_;
  std::uint32_t vi_;
  std::uint32_t generation_;
  Side side_;
};

}  // namespace viaduct::vipl

#endif
