#include "sovia/signals.h"

#include "sovia/api.h"
#include "sovia/guard.h"

using namespace viaduct::sovia;

namespace viaduct::sovia::signals {

constinit std::atomic<bool> g_interrupt{false};

}  // namespace viaduct::sovia::signals

int sovia_sigaction(int signal, const struct sigaction* action, struct sigaction* before) {
  kernel::prepare();
  const int result = kernel::sigaction(signal, action, before);
  if (result == 0 && action != nullptr && (action->sa_flags & SA_RESTART) == 0 &&
      action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN) {
    signals::g_interrupt.store(true);
  }
  return result;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // but programs use it
int sovia_siginterrupt(int signal, int interrupts) {
  if (interrupts != 0) signals::g_interrupt.store(true);
  return SOVIA_LATE(siginterrupt)(signal, interrupts);
}
