// Which agent a program uses that was told of none.
//
// It is the agent at kDefaultSocket. But a path reaches into other network namespaces. So if that agent serves
// another namespace, and root's agent answers at kAbstractSocket, which only the program's own namespace has, it is
// that one. Any process can take an abstract name, so an agent there must be root's.
#ifndef VIADUCT_KAGENT_CONTRACT_DEFAULT_AGENT_H
#define VIADUCT_KAGENT_CONTRACT_DEFAULT_AGENT_H

#include <cstdint>

#include "kagent/contract/control.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71  // Linux 5.14
#endif

namespace viaduct::control {

enum class Answers : std::uint8_t { kNo, kBusy, kYes };

// Way has
//   Answers answers(const char* name)      whether an agent that may be trusted takes connections. Does not wait:
//                                          a stranger's socket may be one that never does (kBusy)
//   bool serves_this_network(const char*)  whether it says so, or does not say
template <class Way>
const char* find_default_agent(Way&& way) {
  const Answers abstract = way.answers(kAbstractSocket);
  if (abstract == Answers::kNo) return kDefaultSocket;
  if (way.answers(kDefaultSocket) == Answers::kNo) return kAbstractSocket;
  const bool path = abstract == Answers::kBusy || way.serves_this_network(kDefaultSocket);
  return path ? kDefaultSocket : kAbstractSocket;
}

// Whether the answer to kNetwork names another network than the program's own, which has the cookie `own`. An agent
// of an earlier version, and a kernel that tells no cookie, count as the own network's.
inline bool is_of_other_network(const Network& answer, long bytes, std::uint64_t own) {
  const bool tells = bytes == static_cast<long>(sizeof answer) && answer.head.magic == kMagic &&
                     answer.head.kind == static_cast<std::uint16_t>(Kind::kNetwork) && answer.head.result == 0;
  return tells && own != 0 && answer.cookie != 0 && answer.cookie != own;
}

}  // namespace viaduct::control

#endif
