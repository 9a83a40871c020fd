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

// Gives a thread, and threads that it starts from then on, the shortest slice: it means to run for microseconds only.
// 0: the calling thread. A policy that the user has set stays, and so does a slice that is short already.
inline void shorten_slice(int thread) {
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;  // ns; the slice is the runtime
    std::uint32_t least, most;
  } attributes{};
  constexpr std::uint32_t kOther = 0;  // SCHED_OTHER
  constexpr std::uint64_t kShortestNs = 100'000;
  constexpr std::uint64_t kResetOnFork = 1;
  const long had =
      ::syscall(SYS_sched_getattr, thread, &attributes, static_cast<unsigned>(sizeof attributes), 0u);
  if (had != 0 || attributes.policy != kOther || attributes.runtime <= kShortestNs) return;
  attributes.size = sizeof attributes;
  attributes.flags &= kResetOnFork;
  attributes.runtime = kShortestNs;
  ::syscall(SYS_sched_setattr, thread, &attributes, 0u);
}

}  // namespace viaduct

#endif
