#include "kagent/agent/programs/program_environment.h"

#include <linux/futex.h>
#include <net/if.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <utility>

#include "xdp/clock.h"

namespace viaduct {

ProgramEnvironment::ProgramEnvironment(std::uint32_t programs, const std::string& name,
                                       const std::map<std::string, MacAddress>& hosts,
                                       HostNames::Addresses addresses)
    : memories_(programs, *this, interface_),
      names_(name, hosts, std::move(addresses)),
      users_(programs),
      poll_wakes_(programs, -1),
      granted_segments_(programs, nullptr) {}

void ProgramEnvironment::wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// If there is no room for the message, the program has others to read, which wake it as well.
void ProgramEnvironment::poll_wake(std::uint32_t program) {
  const std::byte anything{};
  send(poll_wakes_[program], &anything, sizeof anything, MSG_DONTWAIT | MSG_NOSIGNAL);
}

std::uint64_t ProgramEnvironment::random() {
  return numbers_.draw([](void* data, std::size_t bytes) { return getrandom(data, bytes, 0); });
}

std::optional<Environment::Connection> ProgramEnvironment::stopped(std::uint32_t session,
                                                                   std::uint32_t vi,
                                                                   std::uint64_t key) {
  if (granted_segments_[session] == nullptr) return std::nullopt;
  const auto found = granted_segments_[session]->stopped(vi, key, monotonic_ns());
  if (!found) return std::nullopt;
  return Connection{found->vi, found->key};
}

Owns ProgramEnvironment::owns(std::uint32_t session, const Flow& flow) {
  const SocketOwners::Answer answer = owners_.ask(flow, if_nametoindex(interface_.c_str()));
  if (!answer.known) return Owns::kUnknown;
  if (!answer.owner) return Owns::kNo;
  return users_.may_claim(session, *answer.owner) ? Owns::kYes : Owns::kNo;
}

// If there is no room, the next connection of these ports introduces them again.
void ProgramEnvironment::introduce(const MacAddress& one, const MacAddress& other) {
  constexpr std::size_t kMost = 64;
  if (one != other && introductions_.size() < kMost) introductions_.emplace_back(one, other);
}

}  // namespace viaduct
