// A session's segment (session_layout.h) as its agent has it: what tests of libvipl look up there.
#ifndef VIADUCT_TESTS_UNIT_VIPL_SHARED_SEGMENT_H
#define VIADUCT_TESTS_UNIT_VIPL_SHARED_SEGMENT_H

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "kagent/contract/session_layout.h"

namespace viaduct::test {

class SharedSegment {
 public:
  // Maps what another process has open. Throws std::runtime_error.
  explicit SharedSegment(const char* file);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  ino_t inode() const { return inode_; }

  // Slots that the program holds: not free, not untouched. Call when it is quiet.
  std::uint32_t slots_in_use() const;

  // Commands that are not answered yet.
  unsigned commands_under_way() const;
  // The first of them. Call while the agent is held.
  layout::CommandBody command() const;

  // Of a queue on which one descriptor is posted and not taken back: that descriptor's slot.
  const layout::Slot& posted(bool receive) const;

  // Work queues of VIs whose completions the thread that calls handlers wants to hear of.
  unsigned watched_queues() const;

  // Whether the program has said that more follows what it has posted on its first VI.
  bool more_follows() const {
    const layout::Vi& vi = view_.vi(0);
    return vi.send.more.load() != 0 && vi.send.more.load() == vi.status.generation.load();
  }

  // Whether the program has said that it waits for no completion of its first VI.
  bool is_patient() const {
    const layout::Vi& vi = view_.vi(0);
    return vi.send.patient.load() != 0 && vi.send.patient.load() == vi.status.generation.load();
  }

  // Work queues and CQs that a thread sleeps on.
  unsigned slept_on() const;

  // The agent wants to be woken when it has something to do.
  bool driver_sleeps() const { return view_.header().driver_sleeps.load() != 0; }

  std::uint32_t errors_taken() const { return view_.header().errors.taken.load(); }

  // Says that the connection of the first VI is lost, as the first asynchronous error of the session.
  // For a moment at which the agent does not work.
  void report_lost_connection();

  // Says that the session has ended, and leaves its socket open.
  void end();

 private:
  std::uint32_t vis() const { return view_.header().capacity.vis; }

  ino_t inode_ = 0;
  std::size_t bytes_ = 0;
  void* base_ = nullptr;
  layout::View view_;
};

}  // namespace viaduct::test

#endif
