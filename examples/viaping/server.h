// The server of viaping: serves each client in a thread of its own.
#ifndef VIADUCT_EXAMPLES_VIAPING_SERVER_H
#define VIADUCT_EXAMPLES_VIAPING_SERVER_H

#include "examples/common/nic.h"
#include "examples/viaping/messages.h"

namespace viaping {

// Returns when the program has been stopped. Throws Failure when no more clients can be had.
void run_server(Nic& nic);

}  // namespace viaping

#endif
