#include "tests/sim/world/rings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "tests/sim/world/failure.h"
#include "tests/sim/world/world.h"
#include "xdp/local/local_ring.h"

namespace viaduct::sim {
namespace {

constexpr std::uint64_t kLongest = 5 * kMsec;  // that a message of the agent is under way

Descriptor make_file() {
  Descriptor file(memfd_create("rings", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ftruncate(file.get(), local::kFileBytes) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    fail("no memory for rings");
  }
  return file;
}

}  // namespace

bool Rings::step() {
  bool any = false;
  for (unsigned h = 0; h < world_.agents.size(); ++h) {
    for (const auto& [one, other] : world_.agents[h]->take_introductions()) {
      if (!world_.plan.rings || one == other) continue;
      make(h, std::min(one, other), std::max(one, other));
    }
  }
  for (std::size_t i = 0; i < due_.size();) {
    if (due_[i].at > world_.now()) {
      ++i;
      continue;
    }
    Due due = std::move(due_[i]);
    due_.erase(due_.begin() + static_cast<std::ptrdiff_t>(i));
    // The program may have ended meanwhile, and another one may have its port.
    const auto known = programs_.find(due.to);
    if (known == programs_.end() || known->second != due.to_program) continue;
    any = true;
    if (world_.tell_of_rings(due.to, std::move(due.message))) ++handed_out_;
  }
  return any;
}

std::uint64_t Rings::next() const {
  std::uint64_t next = SimNetwork::kNever;
  for (const Due& due : due_) next = std::min(next, due.at);
  return next;
}

void Rings::make(unsigned host, const MacAddress& one, const MacAddress& other) {
  if (!pairs_.emplace(one, other).second) return;
  for (const MacAddress& port : {one, other}) {
    if (programs_.emplace(port, numbers_ + 1).second) ++numbers_;
  }
  tell("host %u has rings for %02x and %02x", host, one[4], other[4]);
  Descriptor file = make_file();
  Descriptor second(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  send(host, other, {one, programs_[one], std::move(second), 1});
  send(host, one, {other, programs_[other], std::move(file), 0});
}

void Rings::send(unsigned host, const MacAddress& to, RingMessage message) {
  // Messages to one program arrive in order.
  std::uint64_t at = world_.now();
  if (world_.random.chance(0.5)) at += world_.random.magnitude(kUs, kLongest);
  for (const Due& due : due_) {
    if (due.to == to) at = std::max(at, due.at);
  }
  due_.push_back({at, host, to, programs_[to], std::move(message)});
}

void Rings::ended(unsigned host, const MacAddress& port) {
  const auto gone = programs_.find(port);
  if (gone == programs_.end()) return;
  const bool maybe = before_.erase(port) != 0;
  for (const auto& [other, number] : programs_) {
    if (other == port) continue;
    const bool known = pairs_.contains({std::min(port, other), std::max(port, other)});
    if (known || (maybe && before_.contains(other))) send(host, other, {port, gone->second, {}, 0});
  }
  std::erase_if(pairs_, [&](const auto& pair) { return pair.first == port || pair.second == port; });
  programs_.erase(gone);
}

void Rings::agent_died(unsigned host) {
  std::erase_if(due_, [host](const Due& due) { return due.host == host; });
  const auto is_there = [host](const MacAddress& port) { return port.back() == host + 1; };
  for (const auto& [port, number] : programs_) {
    if (is_there(port)) before_.insert(port);
  }
  std::erase_if(pairs_, [&](const auto& pair) { return is_there(pair.first); });
}

}  // namespace viaduct::sim
