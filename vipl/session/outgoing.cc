#include "vipl/session/outgoing.h"

#include <bit>

#include "vipl/process/idle.h"
#include "vipl/session/wait.h"
#include "xdp/clock.h"

namespace viaduct::vipl::outgoing {
namespace {

bool before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

// The send queue of a VI. Other threads may post, take back, disconnect and destroy meanwhile: that
// only changes for how long we wait.
class Queue {
 public:
  Queue(Session& session, std::uint32_t vi)
      : session_(session),
        shared_(session.view.vi(vi)),
        ring_(session.view.send_ring(vi)),
        generation_(shared_.send.generation.load(std::memory_order_acquire)),
        posted_(shared_.send.posted.load(std::memory_order_acquire)),
        seen_(shared_.send.dequeued.load(std::memory_order_acquire)) {}

  std::uint32_t posted() const { return posted_; }

  // Whether no send of the queue is under way, or none will go out any more.
  bool is_idle() const {
    return generation_ == 0 || generation_ != shared_.send.generation.load() ||
           shared_.send.owner.load(std::memory_order_relaxed) != session_.member ||
           shared_.status.state.load() != VIP_STATE_CONNECTED || session_.over();
  }

  // Whether the descriptor at a position has completed. Descriptors complete in order.
  bool has_completed(std::uint32_t position) const {
    if (before(position, shared_.send.dequeued.load(std::memory_order_acquire))) return true;
    return session_.view.slot(slot_at(position)).completion.status.load() != 0;
  }

  // Waits until all below `end` have completed.
  void wait_until(std::uint32_t end, Patience& patience) {
    const auto is_out = [&] { return is_idle() || !before(seen_, end) || has_completed(end - 1); };
    while (!is_out()) {
      const std::uint64_t left = patience.left_ms();
      if (left == 0) return;
      const std::uint32_t seen = seen_;
      const auto moved = [&] {
        while (before(seen_, end) && has_completed(seen_)) ++seen_;
        return seen_ != seen || is_out();
      };
      if (session_.wait(shared_.send.sleepers, left, moved, false)) patience.progress();
    }
  }

  // The position behind the last posted send that uses this memory; if none does, where nothing is left to wait for.
  std::uint32_t end_of_use(VIP_MEM_HANDLE memory) const {
    std::uint32_t position = posted_;
    while (before(seen_, position) && !has_completed(position - 1)) {
      if (uses(session_.view.slot(slot_at(position - 1)).request, memory)) return position;
      --position;
    }
    return seen_;
  }

 private:
  // The thread of the VI writes the request anew if the descriptor completes meanwhile. Then the answer does not matter,
  // as has_completed() ends the wait.
  __attribute__((no_sanitize("thread"))) static bool uses(const layout::SlotRequest& request, VIP_MEM_HANDLE memory) {
    if (request.descriptor_handle == memory) return true;
    const unsigned count = request.segment_count;
    if (count > layout::kMaxSegments) return false;
    // The first segment of an RDMA operation is the peer's.
    for (unsigned s = request.op == layout::kOpSend ? 0 : 1; s < count; ++s) {
      if (request.payload.segments[s].handle == memory) return true;
    }
    return false;
  }

  std::uint32_t slot_at(std::uint32_t position) const {
    const std::uint64_t word =
        ring_[position % layout::kRingEntries].word.load(std::memory_order_relaxed);
    const std::uint32_t slot = layout::ring_word_slot(word);
    return slot < session_.capacity.slots ? slot : 0;
  }

  Session& session_;
  layout::Vi& shared_;
  const layout::RingEntry* ring_;
  std::uint32_t generation_;
  std::uint32_t posted_;
  std::uint32_t seen_;  // all sends below have completed
};

template <class Visit>
void for_each_vi(const Session& session, Visit&& visit) {
  for (std::uint32_t word = 0; word < session.own_vi_words(); ++word) {
    std::uint64_t bits = session.own_vis[word].load(std::memory_order_relaxed);
    for (; bits != 0; bits &= bits - 1) {
      visit(word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
  }
}

}  // namespace

std::uint64_t Patience::left_ms() {
  const std::uint64_t now = now_ns();
  if (until_ == 0) {
    quiet_until_ = now + kQuietMs * kNsPerMs;
    until_ = now + kLongestMs * kNsPerMs;
  }
  const std::uint64_t end = quiet_until_ < until_ ? quiet_until_ : until_;
  return now >= end ? 0 : (end - now) / kNsPerMs + 1;
}

void Patience::progress() { quiet_until_ = now_ns() + kQuietMs * kNsPerMs; }

void wait_for_vi(Session& session, std::uint32_t vi, Patience& patience) {
  Queue queue(session, vi);
  queue.wait_until(queue.posted(), patience);
}

void wait_for_all(Session& session, Patience& patience) {
  for_each_vi(session, [&](std::uint32_t vi) { wait_for_vi(session, vi, patience); });
}

void wait_for_memory(Session& session, VIP_MEM_HANDLE memory, Patience& patience) {
  for_each_vi(session, [&](std::uint32_t vi) {
    Queue queue(session, vi);
    if (!queue.is_idle()) queue.wait_until(queue.end_of_use(memory), patience);
  });
}

}  // namespace viaduct::vipl::outgoing
