// Objects that are made at their first use, which may be in a signal handler.
#ifndef VIADUCT_SOVIA_PROCESS_ONCE_H
#define VIADUCT_SOVIA_PROCESS_ONCE_H

#include <signal.h>

#include <atomic>
#include <type_traits>

namespace viaduct::sovia {

// The object that the first call of `make` returns a reference to. Signals are blocked meanwhile: a handler that uses the
// object too would wait for its own thread.
template <class Make>
auto& once(Make make) {
  using Made = std::remove_reference_t<decltype(make())>;
  static constinit std::atomic<Made*> known{nullptr};
  if (Made* const made = known.load(std::memory_order_acquire)) [[likely]] return *made;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  static Made& made = make();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  known.store(&made, std::memory_order_release);
  return made;
}

}  // namespace viaduct::sovia

#endif
