#include "kagent/agent/control/peer.h"

#include <linux/capability.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace viaduct {
namespace {

constexpr std::uint64_t kAdministers = 1ull << CAP_NET_ADMIN;

std::optional<ino_t> user_namespace(const std::string& process) {
  struct stat status{};
  if (stat(("/proc/" + process + "/ns/user").c_str(), &status) != 0) return std::nullopt;
  return status.st_ino;
}

void read_ids(std::istream& text, ProcessRights::Ids& out) { text >> out.real >> out.effective >> out.saved; }

bool read_rights(const std::string& process, ProcessRights& out) {
  std::ifstream status("/proc/" + process + "/status");
  unsigned seen = 0;
  for (std::string line; std::getline(status, line);) {
    std::istringstream text(line);
    std::string name;
    text >> name;
    if (name == "Uid:") {
      read_ids(text, out.users);
    } else if (name == "Gid:") {
      read_ids(text, out.groups);
    } else if (name == "CapPrm:") {
      text >> std::hex >> out.permitted;
    } else if (name == "CapEff:") {
      text >> std::hex >> out.effective;
    } else {
      continue;
    }
    if (!text) return false;
    ++seen;
  }
  return seen == 4;
}

}  // namespace

std::string text_of_account(uid_t account) {
  return account == Peer::kPowerlessRoot ? "user 0 without root's rights" : "user " + std::to_string(account);
}

bool ProcessRights::may_administer() const { return (effective & kAdministers) != 0; }
bool ProcessRights::may_administer_again() const { return (permitted & kAdministers) != 0; }

std::optional<ProcessRights> rights_of(pid_t process, int pidfd) {
  if (process <= 0) return std::nullopt;  // of a PID namespace that the agent can't see
  const std::string number = std::to_string(process);
  ProcessRights out;
  const bool known = read_rights(number, out);
  const auto its = user_namespace(number), own = user_namespace("self");
  if (!known || !process_lives(pidfd)) return std::nullopt;
  if (!its || !own || *its != *own) out.effective = out.permitted = 0;
  return out;
}

std::optional<Peer> peer_of(int socket) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) return std::nullopt;
  if (credentials.uid != 0) return Peer(credentials);
  const Descriptor process = peer_process(socket, credentials);
  if (!process) return Peer(credentials);
  const auto rights = rights_of(credentials.pid, process.get());
  return Peer(credentials, rights && rights->may_administer());
}

Descriptor peer_process(int socket, const ucred& peer) {
  int fd = -1;
  socklen_t bytes = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &bytes) == 0) return Descriptor(fd);
  if (errno != ENOPROTOOPT) return Descriptor();
  // Before Linux 6.5 there is only a number. It may have passed to another process since the connection was made;
  // ProgramMemory::open() takes that one only if it has the same user and group.
  if (peer.pid <= 0) {
    errno = ESRCH;
    return Descriptor();
  }
  return Descriptor(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
}

bool process_lives(int pidfd) {
  pollfd polled{pidfd, POLLIN, 0};
  return ::poll(&polled, 1, 0) == 0;
}

}  // namespace viaduct
