// A process that has attached to a session of its family: its memory and its poll wake.
#ifndef VIADUCT_KAGENT_AGENT_SESSIONS_ATTACHED_H
#define VIADUCT_KAGENT_AGENT_SESSIONS_ATTACHED_H

#include <sys/socket.h>

#include <cstdint>

#include "kagent/contract/control.h"
#include "xdp/descriptor.h"
#include "kagent/agent/nic/agent_nic.h"

namespace viaduct {

class Session;

class Attached {
 public:
  // Throws Refused, std::system_error.
  Attached(Session& session, const Peer& peer, ProgramAccess access,
           const control::Attach& attach);
  // The process has left the session.
  ~Attached();
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

  const Peer& peer() const { return peer_; }
  int process() const { return process_.get(); }
  int poll_wake() const { return program_poll_wake_.get(); }  // the process's end
  std::uint32_t program() const { return program_; }

  void descriptors_passed() { program_poll_wake_.close(); }

  // The process has ended; its memory is not used any more.
  void process_ended();

  // The session is about to end: what the process had goes with it.
  void session_ends() { session_ends_ = true; }

 private:
  AgentNic& nic_;
  Peer peer_;
  Descriptor process_;
  Descriptor poll_wake_, program_poll_wake_;
  std::uint32_t program_ = 0;
  bool session_ends_ = false;
};

}  // namespace viaduct

#endif
