// How long a thread runs before others of its kind may, as it asks the scheduler (sched_setattr(2);
// Linux 6.12 and later, no privilege needed). It gets no more and no less of the processor for it, but
// a thread with a short slice goes before one with a long slice when it is woken.
//
// libvipl includes this too: nothing here throws, allocates or needs more than the C library.
#ifndef VIADUCT_KAGENT_CONTRACT_SLICE_H
#define VIADUCT_KAGENT_CONTRACT_SLICE_H

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace viaduct {

inline constexpr std::uint64_t kShortestSliceNs = 100'000;

// The slice in ns of a thread with the usual policy; 0: it has another policy, or the kernel does not tell. `to`: the
// slice that it is to have, 0: the same. `thread` 0: the calling one.
inline std::uint64_t slice(int thread, std::uint64_t to = 0) {
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;  // ns; the slice is the runtime
    std::uint32_t least, most;
  } attributes{};
  constexpr std::uint32_t kOther = 0;  // SCHED_OTHER
  constexpr std::uint64_t kResetOnFork = 1;
  const long got =
      ::syscall(SYS_sched_getattr, thread, &attributes, static_cast<unsigned>(sizeof attributes), 0u);
  if (got != 0 || attributes.policy != kOther) return 0;
  const std::uint64_t had = attributes.runtime;
  if (to == 0 || had == 0) return had;
  attributes.size = sizeof attributes;
  attributes.flags &= kResetOnFork;
  attributes.runtime = to;
  ::syscall(SYS_sched_setattr, thread, &attributes, 0u);
  return had;
}

// Gives a thread, and threads that it starts from then on, the shortest slice: it means to run for microseconds only.
// A policy that the user has set stays, and so does a slice that is short already. Returns the slice that the thread had
// in ns; 0: it is as it was.
inline std::uint64_t shorten_slice(int thread) {
  return slice(thread) > kShortestSliceNs ? slice(thread, kShortestSliceNs) : 0;
}

// Gives a thread back what shorten_slice() returned, unless its slice is another one by now.
inline void restore_slice(int thread, std::uint64_t had) {
  if (had != 0 && slice(thread) == kShortestSliceNs) slice(thread, had);
}

}  // namespace viaduct

#endif
