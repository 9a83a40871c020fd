// Finishers of the simulation's programs: there are none, as no program is a process of its own.
#include "vipl/session/finisher.h"

namespace viaduct::vipl {

bool Finisher::start(const void*, Descriptors, Driver*, Step, void*) { return false; }
void Finisher::stop() {}
void Finisher::renew() {}
void Finisher::forget() {}

}  // namespace viaduct::vipl
