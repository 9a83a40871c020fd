// The process at the other end of a control socket, and whether it is root.
//
// A process of user 0 need not be root: the root of a container has that number too, without any capability or with
// those of its own user namespace. A process is root if it connected as user 0 and has CAP_NET_ADMIN in the agent's
// user namespace. Both are needed: a user could connect and then start a set-user-ID program, which has the
// capability; a process that is user 0 by then and gains capabilities by exec() could have had them before.
//
// Facts that the kernel gives by process number are believed if the process that the socket names (its pidfd) still
// lives afterwards: then the number was its own all the time. Before Linux 6.5 a socket names only the number, and no
// process.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_PEER_H
#define VIADUCT_KAGENT_AGENT_CONTROL_PEER_H

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "xdp/descriptor.h"

namespace viaduct {

struct Peer : ucred {
  // The user that limits are counted for. User 0 has none if it is root, else it is a user like others, of this number.
  static constexpr uid_t kPowerlessRoot = ~uid_t{0};

  Peer() : ucred{} {}
  Peer(const ucred& credentials, bool root = false) : ucred(credentials), is_root(root) {}

  uid_t account() const { return is_root ? 0 : uid == 0 ? kPowerlessRoot : uid; }

  bool is_root = false;
};

// An account as people read it.
std::string text_of_account(uid_t account);

// The process that has connected. nullopt: the kernel does not say.
std::optional<Peer> peer_of(int socket);

// A descriptor that names the process at the other end of a Unix socket. Invalid, with errno, if
// there is none (any more).
Descriptor peer_process(int socket, const ucred& peer);

// Whether the process of a pidfd is still there.
bool process_lives(int pidfd);

// The users, groups and capabilities of a process, as they are in the agent's user namespace.
struct ProcessRights {
  struct Ids {
    std::uint32_t real = ~0u, effective = ~0u, saved = ~0u;
  };
  Ids users, groups;
  std::uint64_t effective = 0, permitted = 0;  // capabilities; none if it is in another user namespace

  bool may_administer() const;       // now
  bool may_administer_again() const; // it can have that capability when it likes
};

// nullopt: it has ended, or the agent can't look.
std::optional<ProcessRights> rights_of(pid_t process, int pidfd);

}  // namespace viaduct

#endif
