#include "vipl/session/completion_queue.h"

#include "vipl/process/lock.h"
#include "vipl/session/wait.h"

namespace viaduct::vipl {
namespace {

VIP_VI_HANDLE vi_handle(const Session& session, std::uint32_t vi, std::uint32_t generation) {
  return Handle(Kind::kVi, session.nic_part(), indexed_object(vi, generation)).pointer();
}

layout::WorkQueue& work_queue(const Session& session, std::uint32_t vi, bool receive) {
  layout::Vi& shared = session.view.vi(vi);
  return receive ? shared.receive : shared.send;
}

// 0: none, else 1 + index.
std::uint32_t cq_of(layout::WorkQueue& queue) {
  return std::atomic_ref<std::uint32_t>(queue.cq).load(std::memory_order_relaxed);
}

bool before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

}  // namespace

VIP_RETURN CompletionQueue::take(Entry& entry) {
  for (;;) {
    const bool over = session_.over();
    switch (next(entry)) {
      case Next::kEntry:
        return VIP_SUCCESS;
      case Next::kStale:
        continue;
      case Next::kGone:
        return VIP_INVALID_PARAMETER;
      case Next::kNone:
        break;
    }
    if (!over) return VIP_NOT_DONE;
    return take_flushed(entry) ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
  }
}

// Takes the next entry off the ring, whatever it says.
CompletionQueue::Next CompletionQueue::next(Entry& entry) {
  for (;;) {
    if (!valid()) return Next::kGone;
    const std::uint32_t generation = queue_.generation.load(std::memory_order_relaxed);
    const std::uint32_t head = queue_.consumed.load(std::memory_order_acquire);
    const layout::CqEntry& shown = ring_[head % layout::kCqRingEntries];
    const std::uint64_t tag = layout::cq_tag(head, generation);
    if (shown.tag.load(std::memory_order_acquire) != tag) {
      if (queue_.consumed.load(std::memory_order_relaxed) != head) continue;
      feed();
      return Next::kNone;
    }
    Next found = Next::kStale;
    {
      Lock lock(queue_.lock, session_.member);
      if (!valid() || queue_.consumed.load(std::memory_order_relaxed) != head) continue;
      // Judged under the lock: a thread that took a later entry may take this one's descriptor back
      // as soon as the lock is free, and this entry would then look stale without being so.
      if (current(shown)) {
        found = Next::kEntry;
        entry = {vi_handle(session_, shown.vi, shown.vi_generation), shown.receive != 0};
        work_queue(session_, shown.vi, entry.receive)
            .announced.store(shown.sequence + 1, std::memory_order_relaxed);
      }
      queue_.consumed.store(head + 1, std::memory_order_release);
    }
    feed();
    return found;
  }
}

// Tells the driver that there is room, if it waits for some.
void CompletionQueue::feed() {
  if (queue_.starved.load(std::memory_order_relaxed) == 0) return;
  session_.ring(layout::cq_bit(session_.capacity, index_));
}

// Whether the VI is still there and the descriptor has not been taken back.
bool CompletionQueue::current(const layout::CqEntry& entry) const {
  if (entry.vi >= session_.capacity.vis) return false;
  const layout::WorkQueue& queue = work_queue(session_, entry.vi, entry.receive != 0);
  return queue.generation.load(std::memory_order_acquire) == entry.vi_generation &&
         !before(entry.sequence, queue.dequeued.load(std::memory_order_acquire));
}

// The driver is gone: whatever is still posted counts as completed, once.
bool CompletionQueue::take_flushed(Entry& entry) {
  const std::uint32_t vis = session_.made_vis();
  for (std::uint32_t vi = 0; vi < vis; ++vi) {
    for (const bool receive : {false, true}) {
      layout::WorkQueue& queue = work_queue(session_, vi, receive);
      if (queue.generation.load(std::memory_order_acquire) == 0) continue;
      if (queue.owner.load(std::memory_order_relaxed) != session_.member) continue;
      if (cq_of(queue) != index_ + 1) continue;
      Lock lock(queue.lock, session_.member);
      const std::uint32_t generation = queue.generation.load(std::memory_order_relaxed);
      const std::uint32_t posted = queue.posted.load(std::memory_order_relaxed);
      std::uint32_t next = queue.announced.load(std::memory_order_relaxed);
      const std::uint32_t head = queue.dequeued.load(std::memory_order_relaxed);
      if (before(next, head)) next = head;
      if (generation == 0 || cq_of(queue) != index_ + 1 || !before(next, posted)) continue;
      queue.announced.store(next + 1, std::memory_order_relaxed);
      entry = {vi_handle(session_, vi, generation), receive};
      return true;
    }
  }
  return false;
}

VIP_RETURN CompletionQueue::wait(std::uint64_t timeout_ms, Entry& entry) {
  VIP_RETURN result = VIP_NOT_DONE;
  const bool ended = session_.wait(queue_.sleepers, timeout_ms, [&] {
    result = take(entry);
    return result != VIP_NOT_DONE;
  });
  return ended ? result : VIP_TIMEOUT;
}

bool CompletionQueue::shows_entry() const {
  const std::uint32_t generation = queue_.generation.load(std::memory_order_acquire);
  const std::uint32_t head = queue_.consumed.load(std::memory_order_acquire);
  const layout::CqEntry& shown = ring_[head % layout::kCqRingEntries];
  // An entry must be looked for here: the word `sleepers` tells only of entries that come after it was marked.
  return shown.tag.load(std::memory_order_acquire) == layout::cq_tag(head, generation);
}

void CompletionQueue::begin() {
  Lock lock(queue_.lock, session_.member);
  queue_.owner.store(session_.member, std::memory_order_relaxed);
  queue_.consumed.store(0, std::memory_order_release);
}

bool CompletionQueue::in_use() const {
  for (std::uint32_t vi = 0; vi < session_.capacity.vis; ++vi) {
    for (const bool receive : {false, true}) {
      layout::WorkQueue& queue = work_queue(session_, vi, receive);
      if (queue.generation.load(std::memory_order_acquire) != 0 && cq_of(queue) == index_ + 1) {
        return true;
      }
    }
  }
  return false;
}

void CompletionQueue::end() {
  // If the driver is gone it has not changed the generation, so this call does.
  std::uint32_t mine = queue_.generation.load();
  if (((mine ^ generation_) & kGenerationMask) == 0) {
    queue_.generation.compare_exchange_strong(mine, mine + 1);
  }
  session_.wake(queue_.sleepers);
}

}  // namespace viaduct::vipl
