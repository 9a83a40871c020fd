#include "kagent/session.h"

#include <sys/eventfd.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "kagent/clock.h"

namespace viaduct {
namespace {

[[noreturn]] void no_resources(const char* what) {
  throw Refused{vip::kErrorResource, &ServiceCounters::refused_resources,
                std::string("the agent's ") + what + " failed: " + std::strerror(errno)};
}

}  // namespace

Session::Session(Nic& nic, const ucred& peer, int socket)
    : nic_(nic), peer_(peer), process_(peer_process(socket, peer)) {
  std::string why;
  ProgramMemory memory;
  const uid_t user = owning_user(peer);
  if (!process_) {
    why = "the program's process can't be found (another PID namespace?)";
  } else if (memory.open(peer, process_.get(), why)) {
    why.clear();
  }
  if (!why.empty()) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_program, why};
  }
  bell_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_) no_resources("eventfd");
  make_chime();
  make_segment();
  const auto number = nic.stack().open_session(base_);
  if (!number) {
    munmap(base_, bytes_);
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_session_limit,
                  "all " + std::to_string(nic.stack().limits().sessions) + " sessions of " +
                      nic.interface() + " are in use"};
  }
  number_ = *number;
  nic.environment().memory(number_) = std::move(memory);
  nic.environment().set_user(number_, user);
  nic.environment().set_chime(number_, chime_.get());
  for (std::size_t at = 0; at < sizeof family_.bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t drawn = nic.environment().random();
    std::memcpy(family_.bytes + at, &drawn, sizeof drawn);
  }
}

void Session::make_chime() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    no_resources("socketpair");
  }
  chime_ = Descriptor(ends[0]);
  program_chime_ = Descriptor(ends[1]);
}

void Session::make_segment() {
  bytes_ = layout::Offsets(nic_.stack().capacity()).total;
  segment_ = make_sealed_memory("viaduct", bytes_);
  base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
               segment_.get(), 0);
  if (base_ == MAP_FAILED) no_resources("mmap");
}

// A program that is still there keeps what it has been told: tidying up happens in a copy of
// nothing, not in its segment.
Session::~Session() {
  if (!left_behind_) layout::View(base_, nic_.stack().capacity()).header().closed.store(1);
  mmap(base_, bytes_, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  nic_.stack().close_session(number_, monotonic_ns());
  nic_.environment().memory(number_).close();
  nic_.environment().set_chime(number_, -1);
  nic_.environment().set_home(number_, nullptr);
  munmap(base_, bytes_);
}

void Session::grant(Granted granted) {
  nic_.stack().delegate(number_, granted.held.port->layout().address);
  granted_ = std::move(granted);
  nic_.environment().set_home(number_, granted_->home.get());
}

std::optional<Session::Granted> Session::take_granted() {
  nic_.environment().set_home(number_, nullptr);
  return std::exchange(granted_, std::nullopt);
}

void Session::first_left() {
  nic_.stack().leave(number_, monotonic_ns());
  process_ended();
  nic_.environment().set_chime(number_, -1);
  chime_.close();
  process_.close();
}

void Session::process_ended() { nic_.environment().memory(number_).close(); }

}  // namespace viaduct
