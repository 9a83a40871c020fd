// One program's use of one NIC: the shared segment, the agent wake, and the program's memory.
//
// The session holds descriptors: the segment (a memfd), the agent wake (an
// eventfd that the program writes to), the poll wake (see control.h) and the program's process. The
// agent wake's blocking mode and value are in the program's hands too, so the agent never reads it:
// it waits for edges.
//
// A granted session is all of that (the control session) and besides a port and the granted segment
// of the program's own stack.
#ifndef VIADUCT_KAGENT_AGENT_SESSIONS_SESSION_H
#define VIADUCT_KAGENT_AGENT_SESSIONS_SESSION_H

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "xdp/descriptor.h"
#include "kagent/agent/grants/grants.h"
#include "kagent/agent/programs/granted_segment.h"
#include "kagent/agent/nic/agent_nic.h"
#include "kagent/agent/control/refused.h"

namespace viaduct {

class Session {
 public:
  // Throws Refused. `nic` must be open and stay so until the session has ended.
  Session(AgentNic& nic, const Peer& peer, ProgramAccess access);
  // The program is told: its connections are ended and the segment says that it is closed, unless
  // it is to look for another agent.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  AgentNic& nic() const { return nic_; }
  const Peer& peer() const { return peer_; }
  std::uint32_t number() const { return number_; }
  const control::FamilySecret& family() const { return family_; }
  void set_family(const control::FamilySecret& family) { family_ = family; }
  std::size_t segment_bytes() const { return bytes_; }
  int segment() const { return segment_.get(); }
  int agent_wake() const { return agent_wake_.get(); }
  int poll_wake() const { return program_poll_wake_.get(); }  // the program's end
  int process() const { return process_.get(); }

  struct Granted {
    Grants::Held held;
    std::unique_ptr<GrantedSegment> granted_segment;
  };
  // Makes the session a granted one: requests that the program waits for are sent to its port.
  void grant(Granted granted);
  const Granted* granted() const { return granted_ ? &*granted_ : nullptr; }
  std::optional<Granted> take_granted();

  // The program has what it was sent; this descriptor is not needed any more.
  void descriptors_passed() { program_poll_wake_.close(); }

  // The segment's file, to be closed after the session has ended: that may free all of its memory. From here on the
  // session ends in a copy of the segment.
  Descriptor take_segment();

  // A granted program goes on without this agent.
  void leave_behind() { left_behind_ = true; }

  // Memory that the segment takes by now. It is charged to the process that touches it first, the agent included.
  std::uint64_t segment_used() const;

  // The program is gone, or has closed the session.
  void program_left() { program_left_ = true; }

  // The first process has left the session, in which others are (Attached).
  void first_left();

 private:
  void make_segment();

  AgentNic& nic_;
  Peer peer_;
  Descriptor process_;
  Descriptor segment_;
  Descriptor agent_wake_;
  Descriptor poll_wake_, program_poll_wake_;
  void* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t number_ = 0;
  control::FamilySecret family_{};
  std::optional<Granted> granted_;
  bool left_behind_ = false, program_left_ = false;
};

}  // namespace viaduct

#endif
