// Which thread sleeps on a granted port: one of the program's, or else the library's progress thread
// for them.
#ifndef VIADUCT_VIPL_GRANTED_PORT_WATCH_H
#define VIADUCT_VIPL_GRANTED_PORT_WATCH_H

#include <poll.h>

#include <atomic>
#include <cstdint>

#include "vipl/granted/granted_environment.h"
#include "vipl/granted/sleep_timer.h"

namespace viaduct::vipl {

struct PortWatch {
  using Sleeper = GrantedEnvironment::Watch;

  // Descriptors that the watching thread polls: the port, its trains, the Sleeper's event descriptor, and the
  // timer. One that is not readable when the sleep ends costs no system call then.
  enum { kPort, kTrains, kDriverWake, kTimer, kNews };
  using News = pollfd[kNews];

  Sleeper program, progress_thread;
  SleepTimer timer;  // of the program's thread that keeps watch
  alignas(64) std::atomic<std::uint32_t> holder{0};  // thread that keeps watch; 0: none

  // False: no descriptors are left.
  bool open();
  void close();

  static void wake_driver(const Sleeper& sleeper);

  bool anyone_sleeps() const {
    return program.asleep_until.load() != 0 || progress_thread.asleep_until.load() != 0;
  }
  // Wakes the threads that would otherwise sleep beyond this time.
  void wake_for(std::uint64_t deadline);

  // `helper`: the progress thread. False: another thread keeps watch.
  bool take(std::uint32_t self, std::uint32_t helper);
  void leave(std::uint32_t self);
};

}  // namespace viaduct::vipl

#endif
