// The process that started the agent and waits until it is ready: a service manager, or the foreground half of
// `viad --daemon`.
#ifndef VIADUCT_KAGENT_AGENT_PROCESS_SUPERVISOR_H
#define VIADUCT_KAGENT_AGENT_PROCESS_SUPERVISOR_H

#include <string>

#include "xdp/descriptor.h"

namespace viaduct {

// Sends a line such as "READY=1" to $NOTIFY_SOCKET, if there is one. Failures are ignored.
void notify_supervisor(const char* line);

// The background half's side of the wait.
class Readiness {
 public:
  Readiness() = default;
  explicit Readiness(Descriptor pipe) : pipe_(std::move(pipe)) {}

  void ready();
  void failed(const std::string& why);

 private:
  Descriptor pipe_;
};

// Becomes a daemon. In the background half it returns; the foreground half waits until that is ready
// or has failed or died, says why it failed on standard error, and exits. Throws std::system_error.
Readiness go_to_background();

}  // namespace viaduct

#endif
