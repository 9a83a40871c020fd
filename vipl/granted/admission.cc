#include "vipl/granted/admission.h"

#include <sys/socket.h>

#include <cerrno>

#include "kagent/contract/control.h"
#include "vipl/process/sys.h"
#include "vipl/session/message.h"

namespace viaduct::vipl::admission {
namespace {

using Guest = Company::Guest;

void close(Driver& driver, Guest& guest) {
  // From then on the driver does not ask for it.
  if (guest.program != 0) driver.leave(guest.program);
  guest.program = 0;
  for (const int fd : {guest.link, guest.memory, guest.chime}) {
    if (fd >= 0) sys::close(fd);
  }
  guest.link = guest.memory = guest.chime = -1;
}

// The guest has been told when this returns true. Takes `memory` over.
bool take_in(Driver& driver, Guest& guest, int memory, std::uint32_t parent, std::uint32_t forks) {
  guest.memory = sys::out_of_the_way(memory);
  int ends[2];
  if (sys::socketpair(SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, ends) != 0) return false;
  guest.chime = sys::out_of_the_way(ends[0]);
  driver.company().set_any();
  guest.program = driver.join(parent, forks);
  control::Joined joined = {};
  joined.head.kind = static_cast<std::uint16_t>(control::Kind::kJoin);
  joined.head.bytes = sizeof joined;
  joined.head.result = guest.program != 0 ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
  bool told = false;
  if (guest.program != 0) {
    driver.name(guest.program, joined.member, joined.program_id);
    int pokes[2];
    driver.pokes(pokes);
    const int fds[control::kJoinedDescriptors] = {pokes[0], pokes[1], ends[1]};
    told = send_message(guest.link, &joined, sizeof joined, fds, control::kJoinedDescriptors,
                        MSG_DONTWAIT);
  }
  sys::close(ends[1]);
  return told;
}

}  // namespace

void hear(Driver& driver, std::uint32_t number) {
  Guest& guest = driver.company().guest(number);
  control::Join join;
  int memory = -1;
  unsigned count = 1;
  const long bytes = receive_message(guest.link, &join, sizeof join, &memory, count, MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const bool right = bytes == sizeof join && count == 1 && guest.program == 0 &&
                     join.head.magic == control::kMagic && join.head.version == control::kVersion &&
                     join.head.kind == static_cast<std::uint16_t>(control::Kind::kJoin);
  if (right && take_in(driver, guest, memory, join.parent, join.forks)) return;
  if (!right && memory >= 0) sys::close(memory);
  close(driver, guest);
}

void end_all(Driver& driver) {
  Company& company = driver.company();
  for (std::uint32_t i = 0; i < company.end(); ++i) {
    if (company.link(i) >= 0) close(driver, company.guest(i));
  }
  company.clear();
}

}  // namespace viaduct::vipl::admission
