#include "tests/unit/vipl/shared_segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <stdexcept>

#include "kagent/contract/vip_codes.h"
#include "xdp/descriptor.h"

namespace viaduct::test {
namespace {

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& sleepers) {
  if (layout::take_waiting(sleepers) != 0) futex_wake(sleepers);
}

}  // namespace

SharedSegment::SharedSegment(const char* file) {
  const Descriptor fd(open(file, O_RDWR | O_CLOEXEC));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) throw std::runtime_error("cannot open a segment");
  inode_ = status.st_ino;
  bytes_ = static_cast<std::size_t>(status.st_size);
  base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base_ == MAP_FAILED) throw std::runtime_error("cannot map a segment");
  view_ = layout::View(base_, static_cast<const layout::Header*>(base_)->capacity);
}

SharedSegment::~SharedSegment() { munmap(base_, bytes_); }

std::uint32_t SharedSegment::slots_in_use() const {
  std::uint32_t used = view_.header().fresh_slots.load();
  for (auto link = static_cast<std::uint32_t>(view_.header().free_slots.load()); link != 0;
       link = view_.slot(link - 1).completion.length) {
    --used;
  }
  return used;
}

unsigned SharedSegment::commands_under_way() const {
  unsigned count = 0;
  for (std::uint32_t c = 0; c < layout::kCommands; ++c) {
    count += view_.command(c).state.load() == layout::kSubmitted;
  }
  return count;
}

layout::CommandBody SharedSegment::command() const {
  std::uint32_t c = 0;
  while (c < layout::kCommands && view_.command(c).state.load() != layout::kSubmitted) ++c;
  layout::CommandBody body{};
  if (c < layout::kCommands) std::memcpy(&body, &view_.command(c).body, sizeof body);
  return body;
}

const layout::Slot& SharedSegment::posted(bool receive) const {
  for (std::uint32_t v = 0; v < vis(); ++v) {
    const layout::WorkQueue& queue = receive ? view_.vi(v).receive : view_.vi(v).send;
    const std::uint32_t posted = queue.posted.load();
    if (posted - queue.dequeued.load() != 1) continue;
    const layout::RingEntry* const ring = receive ? view_.receive_ring(v) : view_.send_ring(v);
    return view_.slot(layout::ring_word_slot(ring[(posted - 1) % layout::kRingEntries].word.load()));
  }
  throw std::runtime_error("nothing is posted");
}

unsigned SharedSegment::watched_queues() const {
  unsigned count = 0;
  for (std::uint32_t v = 0; v < vis(); ++v) {
    for (const layout::WorkQueue* const queue : {&view_.vi(v).send, &view_.vi(v).receive}) {
      count += (queue->sleepers.load() & layout::kCallbackThread) != 0;
    }
  }
  return count;
}

unsigned SharedSegment::slept_on() const {
  const layout::Capacity& capacity = view_.header().capacity;
  unsigned count = 0;
  const auto note = [&count](const std::atomic<std::uint32_t>& sleepers) {
    count += (sleepers.load() & layout::kSleeper) != 0;
  };
  for (std::uint32_t v = 0; v < capacity.vis; ++v) {
    note(view_.vi(v).send.sleepers);
    note(view_.vi(v).receive.sleepers);
  }
  for (std::uint32_t c = 0; c < capacity.cqs; ++c) note(view_.cq(c).sleepers);
  return count;
}

void SharedSegment::report_lost_connection() {
  layout::ErrorEvent& event = view_.header().errors.events[0];
  event.vi_generation = view_.vi(0).status.generation.load();
  event.resource = vip::kResourceVi;
  event.code = vip::kConnectionLost;
  event.number.store(1, std::memory_order_release);
  view_.header().alert.store(1);
  futex_wake(view_.header().alert);
}

void SharedSegment::end() {
  view_.header().closed.store(1);
  for (std::uint32_t v = 0; v < vis(); ++v) {
    wake(view_.vi(v).send.sleepers);
    wake(view_.vi(v).receive.sleepers);
  }
}

}  // namespace viaduct::test
