#include "vipl/granted/admission.h"

#include <sys/socket.h>

#include <cerrno>

#include "kagent/contract/control.h"
#include "vipl/process/sys.h"
#include "vipl/session/message.h"

namespace viaduct::vipl::admission {
namespace {

using AttachedProcess = AttachedProcesses::AttachedProcess;

void close(Driver& driver, AttachedProcess& attached_process) VIADUCT_REQUIRES(registry::g_lock) {
  // From then on the driver asks nothing of the process.
  if (attached_process.program != 0) driver.leave(attached_process.program);
  attached_process.program = 0;
  for (const int fd : {attached_process.link, attached_process.memory, attached_process.poll_wake}) {
    if (fd >= 0) sys::close(fd);
  }
  attached_process.link = attached_process.memory = attached_process.poll_wake = -1;
}

// The attached process has been told when this returns true. Takes `memory` over.
bool take_in(Driver& driver, AttachedProcess& attached_process, int memory, std::uint32_t parent, std::uint32_t forks)
    VIADUCT_REQUIRES(registry::g_lock) {
  attached_process.memory = sys::out_of_the_way(memory);
  int ends[2];
  if (sys::socketpair(SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, ends) != 0) return false;
  attached_process.poll_wake = sys::out_of_the_way(ends[0]);
  driver.attached_processes().set_any();
  attached_process.program = driver.join(parent, forks);
  control::Joined joined = {};
  joined.head.kind = static_cast<std::uint16_t>(control::Kind::kJoin);
  joined.head.bytes = sizeof joined;
  joined.head.result = attached_process.program != 0 ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
  bool told = false;
  if (attached_process.program != 0) {
    driver.name(attached_process.program, joined.member, joined.program_id);
    int driver_wakes[2];
    driver.driver_wakes(driver_wakes);
    const int fds[control::kJoinedDescriptors] = {driver_wakes[0], driver_wakes[1], ends[1]};
    told = send_message(attached_process.link, &joined, sizeof joined, fds, control::kJoinedDescriptors,
                        MSG_DONTWAIT);
  }
  sys::close(ends[1]);
  return told;
}

}  // namespace

void hear(Driver& driver, std::uint32_t number) {
  AttachedProcess& attached_process = driver.attached_processes().attached_process(number);
  control::Join join;
  int memory = -1;
  unsigned count = 1;
  const long bytes = receive_message(attached_process.link, &join, sizeof join, &memory, count, MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const bool right = bytes == sizeof join && count == 1 && attached_process.program == 0 &&
                     join.head.magic == control::kMagic && join.head.version == control::kVersion &&
                     join.head.kind == static_cast<std::uint16_t>(control::Kind::kJoin);
  if (right && take_in(driver, attached_process, memory, join.parent, join.forks)) return;
  if (!right && memory >= 0) sys::close(memory);
  close(driver, attached_process);
}

void end_all(Driver& driver) {
  AttachedProcesses& attached_processes = driver.attached_processes();
  for (std::uint32_t i = 0; i < attached_processes.end(); ++i) {
    if (attached_processes.link(i) >= 0) close(driver, attached_processes.attached_process(i));
  }
  attached_processes.clear();
}

}  // namespace viaduct::vipl::admission
