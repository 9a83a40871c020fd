#include "kagent/agent/sessions/local_paths.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "kagent/agent/control/control_socket.h"
#include "kagent/agent/programs/granted_segment.h"
#include "kagent/agent/process/log.h"
#include "kagent/contract/control.h"
#include "xdp/local/local_peers.h"

namespace viaduct {
namespace {

// Bytes that went through both rings, as their consumers say. They may say anything: the number is only counted.
std::uint64_t bytes_of(const Descriptor& rings) {
  std::uint64_t all = 0;
  for (const std::size_t at : {std::size_t{0}, sizeof(local::Control)}) {
    std::uint64_t taken = 0;
    static_assert(offsetof(local::Control, taken) == 0);
    if (pread(rings.get(), &taken, sizeof taken, static_cast<off_t>(at)) == sizeof taken) all += taken;
  }
  return all;
}

// Programs get the agent's own descriptor, which can write. Without this mode a descriptor for reading could be
// opened anew for writing.
void keep_from_writers(const Descriptor& rings) { fchmod(rings.get(), 0400); }

// Tells captures that no more frames come.
void mark_ended(const Descriptor& rings) {
  const std::uint32_t ended = 1;
  constexpr std::size_t kAt = local::kTracksAt + offsetof(local::Track, ended);
  for (const std::size_t at : {kAt, kAt + sizeof(local::Track)}) {
    if (pwrite(rings.get(), &ended, sizeof ended, static_cast<off_t>(at)) != sizeof ended) return;
  }
}

}  // namespace

void LocalPaths::enter(std::uint64_t id, const Session& session, int socket) {
  const AgentPort& port = *session.granted()->held.port;
  programs_[id] = {&session.nic(), socket, port.layout().address, port.holder().granted_segment.inode,
                   port.socket() < 0, {}};
}

// Adopted programs may have rings that this agent does not know of.
void LocalPaths::leave(std::uint64_t id, bool ended) {
  const auto gone = programs_.find(id);
  if (gone == programs_.end()) return;
  for (auto& [each, program] : programs_) {
    const auto pair = program.peers.find(id);
    const bool known = pair != program.peers.end();
    if (known) {
      end(std::move(pair->second));
      program.peers.erase(pair);
    }
    const bool maybe = program.adopted && gone->second.adopted && each != id && program.nic == gone->second.nic;
    if (ended && (known || maybe)) tell(program, gone->second, nullptr, 0);
  }
  programs_.erase(gone);
}

void LocalPaths::end(SharedPair pair) {
  ended_bytes_ += bytes_of(pair->rings);
  mark_ended(pair->rings);
  if (monotonic_ns() >= keep_until_) return;
  kept_.push_back(std::move(pair));
  if (kept_.size() > kMostKept) kept_.pop_front();
}

std::vector<LocalPaths::SharedPair> LocalPaths::pairs_from(std::uint64_t number, std::size_t most,
                                                           std::uint64_t now) {
  keep_until_ = now + kKeptNs;
  std::map<std::uint64_t, SharedPair> found;
  const auto add = [&](const SharedPair& pair) {
    if (pair->number >= number) found.emplace(pair->number, pair);
    if (found.size() > most) found.erase(std::prev(found.end()));
  };
  for (const SharedPair& pair : kept_) add(pair);
  for (const auto& [id, program] : programs_) {
    for (const auto& [peer, pair] : program.peers) add(pair);
  }
  std::vector<SharedPair> out;
  for (auto& [each, pair] : found) out.push_back(std::move(pair));
  return out;
}

Descriptor LocalPaths::open_read_only(const Pair& pair) {
  const std::string path = "/proc/self/fd/" + std::to_string(pair.rings.get());
  Descriptor out(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!out) throw std::system_error(errno, std::generic_category(), path);
  return out;
}

void LocalPaths::tick(std::uint64_t now) {
  if (now >= keep_until_) kept_.clear();
}

LocalPaths::Programs::iterator LocalPaths::find(const AgentNic& nic, const MacAddress& port) {
  return std::find_if(programs_.begin(), programs_.end(), [&](const Programs::value_type& each) {
    return each.second.nic == &nic && each.second.port == port;
  });
}

void LocalPaths::connect(AgentNic& nic) {
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

// Programs that have rings from an earlier agent keep those. If a program does not take its end (its socket is full),
// its peer never uses the other end.
void LocalPaths::connect(Programs::value_type& one, Programs::value_type& other) {
  try {
    const auto pair = std::make_shared<const Pair>(
        Pair{next_number_++, one.second.nic, {one.second.port, other.second.port},
             make_sealed_memory("viaduct-local", local::kFileBytes)});
    keep_from_writers(pair->rings);
    const bool told = tell(other.second, one.second, &pair->rings, 1) && tell(one.second, other.second, &pair->rings, 0);
    ++(told ? counters_.local_paths_made : counters_.local_paths_refused);
    one.second.peers[other.first] = other.second.peers[one.first] = pair;
  } catch (const std::exception& error) {
    if (counters_.local_paths_refused++ == 0) log::warn("no local path: {}", error.what());
  }
}

// Tells `whom` of the other program, `of`; without rings: that it has ended.
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
    for (const auto& [peer, pair] : program.peers) {
      if (id < peer) counters_.local_bytes += bytes_of(pair->rings);
    }
  }
}

}  // namespace viaduct
