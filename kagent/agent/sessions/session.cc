#include "kagent/agent/sessions/session.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "xdp/clock.h"
#include "kagent/agent/control/control_socket.h"

namespace viaduct {
namespace {

[[noreturn]] void no_resources(const char* what) {
  throw Refused{vip::kErrorResource, &ServiceCounters::refused_resources,
                std::string("the agent's ") + what + " failed: " + std::strerror(errno)};
}

}  // namespace

Session::Session(AgentNic& nic, const Peer& peer, ProgramAccess access)
    : nic_(nic), peer_(peer), process_(std::move(access.process)) {
  if (!access.why.empty()) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_program, access.why};
  }
  agent_wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!agent_wake_) no_resources("eventfd");
  PollWakeEnds poll_wake = make_poll_wake();
  poll_wake_ = std::move(poll_wake.ours);
  program_poll_wake_ = std::move(poll_wake.program);
  make_segment();
  const auto number = nic.stack().open_session(base_);
  if (!number) {
    munmap(base_, bytes_);
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_session_limit,
                  "all " + std::to_string(nic.stack().limits().sessions) + " sessions of " +
                      nic.interface() + " are in use"};
  }
  number_ = *number;
  nic.environment().memories().set(number_, std::move(access.memory));
  nic.environment().users().set(number_, access.user, access.account);
  nic.environment().set_poll_wake(number_, poll_wake_.get());
  for (std::size_t at = 0; at < sizeof family_.bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t drawn = nic.environment().random();
    std::memcpy(family_.bytes + at, &drawn, sizeof drawn);
  }
}

void Session::make_segment() {
  bytes_ = layout::Offsets(nic_.stack().capacity()).total;
  segment_ = make_sealed_memory("viaduct", bytes_);
  base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
               segment_.get(), 0);
  if (base_ == MAP_FAILED) no_resources("mmap");
}

// A program that is still there keeps the segment as it is. The session ends in a private copy, where the stack finds
// what was posted and not sent.
Descriptor Session::take_segment() {
  if (!left_behind_) layout::View(base_, nic_.stack().capacity()).header().closed.store(1);
  mmap(base_, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, segment_.get(), 0);
  return std::move(segment_);
}

Session::~Session() {
  if (segment_.get() >= 0) take_segment();
  if (program_left_) {
    // The program's last posts may have come behind the stack's last turn. Of a program that goes on none is sent, as
    // the same turn would acknowledge frames whose receives complete in a copy of its segment.
    nic_.stack().progress(monotonic_ns());
  }
  nic_.stack().close_session(number_, monotonic_ns());
  nic_.environment().memories().close(number_);
  nic_.environment().set_poll_wake(number_, -1);
  nic_.environment().set_granted_segment(number_, nullptr);
  munmap(base_, bytes_);
}

// The program's stack reaches the memory itself; the control session asks for nothing of it.
void Session::grant(Granted granted) {
  nic_.environment().memories().close(number_);
  nic_.stack().delegate(number_, granted.held.port->layout().address);
  granted_ = std::move(granted);
  nic_.environment().set_granted_segment(number_, granted_->granted_segment.get());
}

std::optional<Session::Granted> Session::take_granted() {
  nic_.environment().set_granted_segment(number_, nullptr);
  return std::exchange(granted_, std::nullopt);
}

std::uint64_t Session::segment_used() const {
  constexpr std::uint64_t kBlock = 512;
  struct stat status {};
  return fstat(segment_.get(), &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * kBlock
                                             : 0;
}

void Session::first_left() {
  nic_.stack().progress(monotonic_ns());
  nic_.stack().leave(number_, monotonic_ns());
  nic_.environment().memories().close(number_);
  nic_.environment().set_poll_wake(number_, -1);
  poll_wake_.close();
  process_.close();
}

}  // namespace viaduct
