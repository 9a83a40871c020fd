#include "vipl/session/work_queue.h"

#include <cstring>

#include "vipl/process/lock.h"
#include "vipl/session/slot_pool.h"
#include "vipl/session/wait.h"

namespace viaduct::vipl {
namespace {

// The descriptor's segments and the slot's are the same bytes.
static_assert(sizeof(layout::Segment) == sizeof(VIP_DATA_SEGMENT));
static_assert(offsetof(layout::Segment, handle) == offsetof(VIP_DATA_SEGMENT, Handle));
static_assert(offsetof(layout::Segment, length) == offsetof(VIP_DATA_SEGMENT, Length));

constexpr std::uint16_t kReservedBit14 = 0x4000;

// Copies so that the last word becomes visible after the rest: programs watch it.
void copy_last_word_last(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t tail = bytes < sizeof(std::uint64_t) ? bytes : sizeof(std::uint64_t);
  std::memcpy(to, from, bytes - tail);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(to + bytes - tail, from + bytes - tail, tail);
}

// Copies data that came in the slot to where the receive says.
void scatter(const layout::Slot& slot, VIP_DESCRIPTOR& descriptor) {
  std::size_t left = slot.completion.inline_length;
  if (left > layout::kMaxInlineRecv) left = layout::kMaxInlineRecv;
  const std::byte* from =
      reinterpret_cast<const std::byte*>(&slot) + sizeof(layout::SlotCompletion);
  const VIP_DATA_SEGMENT* segment = &descriptor.DS[0].Local;
  const unsigned count = descriptor.CS.SegCount;
  for (unsigned i = 0; i < count && i < layout::kMaxSegments && left != 0; ++i, ++segment) {
    auto* const to = static_cast<std::byte*>(segment->Data.Address);
    const std::size_t here = segment->Length < left ? segment->Length : left;
    left -= here;
    if (left == 0) {
      copy_last_word_last(to, from, here);
    } else {
      std::memcpy(to, from, here);
    }
    from += here;
  }
}

}  // namespace

// ---------------------------------------------------------------------------- posting

VIP_RETURN WorkQueue::post(VIP_DESCRIPTOR* descriptor, VIP_MEM_HANDLE memory, bool& overrun) {
  if (descriptor == nullptr ||
      reinterpret_cast<std::uintptr_t>(descriptor) % alignof(VIP_DESCRIPTOR) != 0) {
    return VIP_INVALID_PARAMETER;
  }
  {
    Lock lock(queue_.lock, session_.member);
    if (!valid()) return VIP_INVALID_PARAMETER;
    const std::uint32_t position = queue_.posted.load(std::memory_order_relaxed);
    const std::uint32_t queued = position - queue_.dequeued.load(std::memory_order_relaxed);
    const std::uint32_t slot =
        queued < session_.max_descriptors ? take_slot() : layout::kNoSlot;
    if (slot == layout::kNoSlot) {
      overrun = queue_.overrun == 0;
      queue_.overrun = 1;
      return VIP_ERROR_RESOURCE;
    }
    queue_.overrun = 0;

    descriptor->CS.Status = 0;
    descriptor->CS.Next.AddressBits = 0;
    if (queued != 0) {
      VIP_DESCRIPTOR* const before = session_.descriptors[slot_at(position - 1)];
      before->CS.Next.Address = descriptor;
      before->CS.NextHandle = memory;
    }
    session_.descriptors[slot] = descriptor;
    fill(session_.view.slot(slot), *descriptor, memory);
    const std::uint32_t generation = queue_.generation.load(std::memory_order_relaxed);
    ring_[position % layout::kRingEntries].word.store(layout::ring_word(slot, position, generation),
                                                      std::memory_order_release);
    queue_.posted.store(position + 1, std::memory_order_release);
  }
  if (side_ == Side::kSend) {
    session_.posted(vi_);
  } else {
    // The driver looks for receives when it needs them. But in the error state it must be told to flush receives that
    // are posted after it has looked.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const layout::ViStatus& status = session_.view.vi(vi_).status;
    if (status.state.load(std::memory_order_relaxed) == VIP_STATE_ERROR) {
      session_.ring(layout::vi_bit(vi_));
    }
  }
  return VIP_SUCCESS;
}

void WorkQueue::fill(layout::Slot& slot, const VIP_DESCRIPTOR& descriptor,
                     VIP_MEM_HANDLE memory) const {
  const VIP_CONTROL_SEGMENT& control = descriptor.CS;
  layout::SlotRequest& request = slot.request;
  std::uint16_t flags = control.Control;
  if ((flags & layout::kSlotInline) != 0) {
    flags = static_cast<std::uint16_t>((flags & ~layout::kSlotInline) | kReservedBit14);
  }
  if (side_ == Side::kSend) {
    request.op = control.Control & VIP_CONTROL_OP_MASK;
    flags = static_cast<std::uint16_t>(flags & ~VIP_CONTROL_OP_MASK);
  } else {
    request.op = layout::kOpReceive;
  }
  request.segment_count = control.SegCount;
  request.length = control.Length;
  request.immediate = control.ImmediateData;
  request.descriptor = reinterpret_cast<std::uintptr_t>(&descriptor);
  request.descriptor_handle = memory;
  // A descriptor with too many segments is posted without them: the driver completes it with an error.
  if (control.SegCount <= layout::kMaxSegments) {
    std::memcpy(request.payload.segments, &descriptor.DS[0],
                control.SegCount * sizeof(layout::Segment));
    if (side_ == Side::kSend && gather(request, descriptor)) flags |= layout::kSlotInline;
  }
  request.flags = flags;
  slot.completion.status.store(0, std::memory_order_relaxed);
}

// Copies the data of a small send behind its segments. False: the driver has to fetch it, or to
// find out what is wrong.
bool WorkQueue::gather(layout::SlotRequest& request, const VIP_DESCRIPTOR& descriptor) const {
  const std::size_t before = request.segment_count * sizeof(layout::Segment);
  const std::size_t length = descriptor.CS.Length;
  if (length == 0 || before + length > layout::kMaxInlineSend) return false;
  if (request.op != layout::kOpSend) return false;
  std::byte* to = request.payload.inline_data + before;
  std::byte* const end = to + length;
  const VIP_DATA_SEGMENT* segment = &descriptor.DS[0].Local;
  for (unsigned i = 0; i < request.segment_count; ++i, ++segment) {
    const std::size_t here = segment->Length;
    if (here == 0) continue;
    if (here > static_cast<std::size_t>(end - to) ||
        !session_.regions.covers(segment->Handle, segment->Data.AddressBits, here)) {
      return false;
    }
    std::memcpy(to, segment->Data.Address, here);
    to += here;
  }
  return to == end;
}

// ---------------------------------------------------------------------------- taking back

VIP_RETURN WorkQueue::take(VIP_DESCRIPTOR*& descriptor) {
  descriptor = nullptr;
  for (;;) {
    if (!valid()) return VIP_INVALID_PARAMETER;
    const std::uint32_t head = queue_.dequeued.load(std::memory_order_acquire);
    if (queue_.posted.load(std::memory_order_acquire) == head) return nothing_posted();
    const bool over = session_.over();
    const std::uint32_t at = slot_at(head);
    layout::Slot& slot = session_.view.slot(at);
    if (slot.completion.status.load(std::memory_order_acquire) == 0 && !over) {
      // Another thread may have taken that descriptor meanwhile.
      if (queue_.dequeued.load(std::memory_order_acquire) == head) return VIP_NOT_DONE;
      continue;
    }
    Lock lock(queue_.lock, session_.member);
    if (!valid() || queue_.dequeued.load(std::memory_order_relaxed) != head) continue;
    VIP_DESCRIPTOR* const taken = session_.descriptors[at];
    if (slot.completion.status.load(std::memory_order_acquire) != 0) {
      complete(slot, *taken);
    } else {
      taken->CS.Status = flushed_status(slot);
      if (side_ == Side::kReceive) taken->CS.Length = 0;
    }
    // The queue advances before the slot is freed. A process that is killed in between leaks a slot, which is better
    // than a slot both free and posted: the family shares the slots.
    queue_.dequeued.store(head + 1, std::memory_order_release);
    descriptor = taken;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    give_slot(at);
    const bool failed = (taken->CS.Status & VIP_STATUS_ERROR_MASK) != 0;
    return failed ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS;
  }
}

// A queue that is being cleared looks empty before its VI is gone, so this waits for the lock.
VIP_RETURN WorkQueue::nothing_posted() const {
  if (queue_.lock.load(std::memory_order_acquire) != 0) Lock cleared(queue_.lock, session_.member);
  return valid() ? VIP_DESCRIPTOR_ERROR : VIP_INVALID_PARAMETER;
}

void WorkQueue::complete(const layout::Slot& slot, VIP_DESCRIPTOR& descriptor) const {
  const std::uint32_t status = slot.completion.status.load(std::memory_order_relaxed);
  if (side_ == Side::kReceive) {
    if (slot.completion.inline_length != 0) scatter(slot, descriptor);
    descriptor.CS.Length = slot.completion.length;
    if ((status & VIP_STATUS_IMMEDIATE) != 0) {
      descriptor.CS.ImmediateData = slot.completion.immediate;
    }
  }
  descriptor.CS.Status = status | VIP_STATUS_DONE;
}

// The status of a descriptor that the driver has not completed and never will.
std::uint32_t WorkQueue::flushed_status(const layout::Slot& slot) const {
  std::uint32_t op = VIP_STATUS_OP_RECEIVE;
  if (side_ == Side::kSend) {
    op = slot.request.op == layout::kOpRdmaWrite  ? VIP_STATUS_OP_RDMA_WRITE
         : slot.request.op == layout::kOpRdmaRead ? VIP_STATUS_OP_RDMA_READ
                                                  : VIP_STATUS_OP_SEND;
  }
  return VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_TRANSPORT_ERROR | op;
}

VIP_RETURN WorkQueue::wait(std::uint64_t timeout_ms, VIP_DESCRIPTOR*& descriptor) {
  VIP_RETURN result = VIP_NOT_DONE;
  const bool ended = session_.wait(queue_.sleepers, timeout_ms, [&] {
    result = take(descriptor);
    return result != VIP_NOT_DONE;
  });
  return ended ? result : VIP_TIMEOUT;
}

// ---------------------------------------------------------------------------- slots, life

std::uint32_t WorkQueue::take_slot() {
  const std::uint32_t spare = queue_.spare;
  if (spare != layout::kNoSlot) {
    queue_.spare = layout::kNoSlot;
    return spare;
  }
  return SlotPool(session_.view, session_.capacity.slots).take();
}

void WorkQueue::give_slot(std::uint32_t slot) {
  if (queue_.spare == layout::kNoSlot) {
    queue_.spare = slot;
  } else {
    SlotPool(session_.view, session_.capacity.slots).give(slot);
  }
}

void WorkQueue::clear() {
  if (queue_.generation.load(std::memory_order_relaxed) != 0) {
    const SlotPool pool(session_.view, session_.capacity.slots);
    const std::uint32_t end = queue_.posted.load(std::memory_order_relaxed);
    // Advance first, as in take(): a process that is killed meanwhile leaks a slot and never frees it twice.
    for (std::uint32_t p = queue_.dequeued.load(std::memory_order_relaxed); p != end; ++p) {
      queue_.dequeued.store(p + 1, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      pool.give(slot_at(p));
    }
    const std::uint32_t spare = queue_.spare;
    queue_.spare = layout::kNoSlot;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (spare != layout::kNoSlot) pool.give(spare);
  }
  queue_.generation.store(0, std::memory_order_release);
  queue_.spare = layout::kNoSlot;
  queue_.overrun = 0;
  queue_.posted.store(0, std::memory_order_relaxed);
  queue_.dequeued.store(0, std::memory_order_relaxed);
  queue_.announced.store(0, std::memory_order_relaxed);
}

// The driver may have given the index of a destroyed VI to a new one before the thread that
// destroyed it gets to end(), so both begin() and end() clear, each only what it must.
void WorkQueue::begin(std::uint32_t generation, std::uint32_t cq) {
  Lock lock(queue_.lock, session_.member);
  clear();
  std::atomic_ref<std::uint32_t>(queue_.cq).store(cq, std::memory_order_relaxed);
  queue_.owner.store(session_.member, std::memory_order_relaxed);
  queue_.generation.store(generation, std::memory_order_release);
}

void WorkQueue::end() {
  {
    Lock lock(queue_.lock, session_.member);
    if (valid()) clear();
  }
  session_.wake(queue_.sleepers);
}

}  // namespace viaduct::vipl
