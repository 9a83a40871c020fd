// The timer of the thread that sleeps on a granted port.
//
// A stack that has sent something has a timer due within milliseconds, so nearly every sleep has an end. A timeout of
// the sleep itself would be set at its beginning and cancelled when a frame ends it. It is mostly the processor's
// earliest timer, so both steps program the hardware. In a virtual machine each of them leaves the guest; together
// they cost more than the rest of the sleep. So this timer is not cancelled. It never goes off later than the sleeper
// wants. It may go off too early, about once in the length of one stack timer.
//
// One thread at a time may use it.
#ifndef VIADUCT_VIPL_GRANTED_SLEEP_TIMER_H
#define VIADUCT_VIPL_GRANTED_SLEEP_TIMER_H

#include <cstdint>

#include "vipl/process/idle.h"

namespace viaduct::vipl {

class SleepTimer {
 public:
  // If there is no descriptor for the timer, sleeps have timeouts instead.
  void open();
  void close();

  // Readable when the timer has gone off, until the next prepare(). -1: there is none.
  int descriptor() const { return fd_; }

  // To be called before a sleep that is to end at `due`, or never (kNever). Returns the timeout that the sleep itself
  // must have: kNever if the timer ends it.
  std::uint64_t prepare(std::uint64_t now, std::uint64_t due);

 private:
  int fd_ = -1;
  std::uint64_t at_ = kNever;  // when the timer goes off, or has gone off; kNever: it does not
};

}  // namespace viaduct::vipl

#endif
