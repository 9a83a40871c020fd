// The timer of the thread that sleeps on a granted port.
//
// A stack that has sent something has a timer due within milliseconds, so nearly every sleep has an end.
// A timeout of the sleep's own is set when it begins and taken back when a frame ends it, and as it is
// mostly the processor's earliest one each of the two programs the hardware: in a virtual machine that
// leaves the guest, and together costs more than the rest of the sleep. So this timer is left where it
// is: it never goes off later than the sleeper wants, but may earlier, about once in the time that the
// stack's timers have.
//
// One thread at a time may use it.
#ifndef VIADUCT_VIPL_GRANTED_SLEEP_TIMER_H
#define VIADUCT_VIPL_GRANTED_SLEEP_TIMER_H

#include <cstdint>

#include "vipl/process/idle.h"

namespace viaduct::vipl {

class SleepTimer {
 public:
  // Without a descriptor for it sleeps have timeouts.
  void open();
  void close();

  // Readable when the timer has gone off, until the next prepare(). -1: there is none.
  int descriptor() const { return fd_; }

  // Before a sleep that is to end at `due`, or never (kNever). Returns what its own timeout has to be:
  // kNever if the timer sees to that.
  std::uint64_t prepare(std::uint64_t now, std::uint64_t due);

 private:
  int fd_ = -1;
  std::uint64_t at_ = kNever;  // when it goes off, or has done so; kNever: it does not
};

}  // namespace viaduct::vipl

#endif
