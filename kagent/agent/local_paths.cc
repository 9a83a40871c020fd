#include "kagent/agent/local_paths.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>

#include "kagent/agent/control_socket.h"
#include "kagent/agent/granted_segment.h"
#include "kagent/agent/log.h"
#include "kagent/contract/control.h"
#include "xdp/local/local_peers.h"

namespace viaduct {
namespace {

// Of both rings, as their consumers say. They may say anything: these bytes are counted and no more.
std::uint64_t bytes_of(const Descriptor& rings) {
  std::uint64_t all = 0;
  for (const std::size_t at : {std::size_t{0}, sizeof(local::Control)}) {
    std::uint64_t taken = 0;
    static_assert(offsetof(local::Control, taken) == 0);
    if (pread(rings.get(), &taken, sizeof taken, static_cast<off_t>(at)) == sizeof taken) all += taken;
  }
  return all;
}

}  // namespace

void LocalPaths::enter(std::uint64_t id, const Session& session, int socket) {
  const AgentPort& port = *session.granted()->held.port;
  programs_[id] = {&session.nic(), socket, port.layout().address, port.holder().granted_segment.inode,
                   port.socket() < 0, {}};
}

// Programs that were adopted may have rings that nobody here knows of.
void LocalPaths::leave(std::uint64_t id, bool ended) {
  const auto gone = programs_.find(id);
  if (gone == programs_.end()) return;
  for (auto& [each, program] : programs_) {
    const auto rings = program.peers.find(id);
    const bool known = rings != program.peers.end();
    if (known) {
      ended_bytes_ += bytes_of(*rings->second);
      program.peers.erase(rings);
    }
    const bool maybe = program.adopted && gone->second.adopted && each != id && program.nic == gone->second.nic;
    if (ended && (known || maybe)) tell(program, gone->second, nullptr, 0);
  }
  programs_.erase(gone);
}

LocalPaths::Programs::iterator LocalPaths::find(const Nic& nic, const MacAddress& port) {
  return std::find_if(programs_.begin(), programs_.end(), [&](const Programs::value_type& each) {
    return each.second.nic == &nic && each.second.port == port;
  });
}

void LocalPaths::connect(Nic& nic) {
  for (const auto& [one, other] : nic.environment().take_introductions()) {
    const auto a = find(nic, one), b = find(nic, other);
    if (a == programs_.end() || b == programs_.end() || a->second.peers.contains(b->first)) continue;
    const std::size_t most = std::max(a->second.peers.size(), b->second.peers.size());
    if (most < local::LocalPeers::kMost) {
      connect(*a, *b);
    } else {
      ++counters_.local_paths_refused;
    }
  }
}

// Programs that have rings from an earlier agent keep those; one that does not take its end (its socket is
// full) has a peer that never uses the other one.
void LocalPaths::connect(Programs::value_type& one, Programs::value_type& other) {
  try {
    const auto rings = std::make_shared<Descriptor>(make_sealed_memory("viaduct-local", local::kFileBytes));
    const bool told = tell(other.second, one.second, rings.get(), 1) && tell(one.second, other.second, rings.get(), 0);
    ++(told ? counters_.local_paths_made : counters_.local_paths_refused);
    one.second.peers[other.first] = other.second.peers[one.first] = rings;
  } catch (const std::exception& error) {
    if (counters_.local_paths_refused++ == 0) log::warn("no local path: {}", error.what());
  }
}

// `of`: the other program; without rings, it has ended.
bool LocalPaths::tell(const Program& whom, const Program& of, const Descriptor* rings, unsigned end) {
  using control::Kind;
  control::LocalPeer message{};
  message.head.kind = static_cast<std::uint16_t>(rings != nullptr ? Kind::kLocalPeer : Kind::kLocalEnd);
  message.head.bytes = sizeof message;
  std::memcpy(message.address, of.port.data(), of.port.size());
  message.end = static_cast<std::uint16_t>(end);
  message.program = of.number;
  if (rings == nullptr) return send_message(whom.socket, &message, sizeof message);
  const int fd = rings->get();
  return send_message(whom.socket, &message, sizeof message, {&fd, 1});
}

void LocalPaths::count_bytes() {
  counters_.local_bytes = ended_bytes_;
  for (const auto& [id, program] : programs_) {
    for (const auto& [peer, rings] : program.peers) {
      if (id < peer) counters_.local_bytes += bytes_of(*rings);
    }
  }
}

}  // namespace viaduct
