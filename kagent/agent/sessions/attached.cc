#include "kagent/agent/sessions/attached.h"

#include <utility>

#include "xdp/clock.h"
#include "kagent/agent/control/control_socket.h"
#include "kagent/agent/sessions/session.h"

namespace viaduct {

// A program must meet the same conditions to share a session as to get one.
Attached::Attached(Session& session, const Peer& peer, ProgramAccess access,
                   const control::Attach& attach)
    : nic_(session.nic()), peer_(peer), process_(std::move(access.process)) {
  if (!access.why.empty()) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_program, access.why};
  }
  PollWakeEnds poll_wake = make_poll_wake();
  poll_wake_ = std::move(poll_wake.ours);
  program_poll_wake_ = std::move(poll_wake.program);
  const auto joined = nic_.stack().join(session.number(), attach.parent, attach.forks);
  if (!joined) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_session_limit,
                  "no more processes can attach to this session"};
  }
  program_ = *joined;
  if (session.granted() == nullptr) {
    nic_.environment().memories().set(program_, std::move(access.memory));
  }
  nic_.environment().set_poll_wake(program_, poll_wake_.get());
}

Attached::~Attached() {
  if (!session_ends_) nic_.stack().leave(program_, monotonic_ns());
  nic_.environment().memories().close(program_);
  nic_.environment().set_poll_wake(program_, -1);
}

void Attached::process_ended() { nic_.environment().memories().close(program_); }

}  // namespace viaduct
