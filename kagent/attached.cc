#include "kagent/attached.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "kagent/clock.h"
#include "kagent/session.h"

namespace viaduct {

// What a program must be like to get a session it must be like to share one.
Attached::Attached(Session& session, const ucred& peer, int socket, const control::Attach& attach)
    : nic_(session.nic()), peer_(peer), process_(peer_process(socket, peer)) {
  std::string why;
  ProgramMemory memory;
  if (!process_) {
    why = "the process can't be found (another PID namespace?)";
  } else if (memory.open(peer, process_.get(), why)) {
    why.clear();
  }
  if (!why.empty()) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_program, why};
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_resources,
                  std::string("the agent's socketpair failed: ") + std::strerror(errno)};
  }
  chime_ = Descriptor(ends[0]);
  program_chime_ = Descriptor(ends[1]);
  const auto joined = nic_.stack().join(session.number(), attach.parent, attach.forks);
  if (!joined) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_session_limit,
                  "no more processes can attach to this session"};
  }
  program_ = *joined;
  nic_.environment().memory(program_) = std::move(memory);
  nic_.environment().set_chime(program_, chime_.get());
}

Attached::~Attached() {
  if (!session_ends_) nic_.stack().leave(program_, monotonic_ns());
  nic_.environment().memory(program_).close();
  nic_.environment().set_chime(program_, -1);
}

void Attached::process_ended() { nic_.environment().memory(program_).close(); }

}  // namespace viaduct
