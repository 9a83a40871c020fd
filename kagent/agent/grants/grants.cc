#include "kagent/agent/grants/grants.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "kagent/agent/control/peer.h"
#include "kagent/agent/control/user_share.h"

namespace viaduct {
namespace {

constexpr std::size_t kDisconnectsAtOnce = 64;

// Gives the file's memory back to the system, also if the program has a copy of the descriptor.
void give_back_memory(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) return;
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, status.st_size);
}

}  // namespace

Grants::Grants(const Config& config, EventLoop& loop, ServiceCounters& counters)
    : config_(config), counters_(counters), makes_(loop), ends_(loop),
      maker_(config.granted, makes_, ends_, ports_,
             [this](uid_t user, std::uint32_t held_back) { return fits(user, held_back); }) {}

Grants::~Grants() { finish(); }

void Grants::finish() {
  for (Leaving& each : leaving_) withdraw(std::move(each.held), each.program_left);
  leaving_.clear();
  for (Left& each : left_) destroy(std::move(each.held), true);
  left_.clear();
  maker_.leave();
  finish_work();
}

// Judges a user without regard to the ports that are in use, which judge() counts.
std::optional<Grants::Refusal> Grants::judge_user(const AgentNic& nic, uid_t user,
                                                  const std::vector<gid_t>& groups) const {
  const GrantPolicy& policy = config_.granted;
  const auto refusal = [](std::uint64_t ServiceCounters::*cause, std::string reason) {
    return Refusal{cause, std::move(reason)};
  };
  if (config_.placement == control::Placement::kHosted) {
    return refusal(&ServiceCounters::not_granted_policy,
                   "the agent's configuration says placement = \"hosted\"");
  }
  if (nic.granter() == nullptr) {
    return refusal(&ServiceCounters::not_granted_nic, nic.why_not_granted());
  }
  if (!policy.access.allows(user, groups)) {
    return refusal(&ServiceCounters::not_granted_access,
                   text_of_account(user) + " may not have a port (see [granted])");
  }
  return std::nullopt;
}

std::optional<Grants::Refusal> Grants::judge(const AgentNic& nic, uid_t user,
                                             const std::vector<gid_t>& groups) const {
  const GrantPolicy& policy = config_.granted;
  const auto refusal = [](std::uint64_t ServiceCounters::*cause, std::string reason) {
    return Refusal{cause, std::move(reason)};
  };
  if (auto why_not = judge_user(nic, user, groups)) return why_not;
  const std::uint32_t in_use = ports_ - going_;
  if (in_use >= policy.ports) {
    return refusal(&ServiceCounters::not_granted_ports,
                   "all " + std::to_string(policy.ports) + " ports are in use");
  }
  const auto of_user = uses_.find(user);
  const std::uint32_t own = of_user == uses_.end() ? 0 : of_user->second.ports - of_user->second.going;
  if (user != 0 && own >= policy.ports_per_user) {
    return refusal(&ServiceCounters::not_granted_user_limit,
                   text_of_account(user) + " has all " + std::to_string(own) + " ports that one user may have");
  }
  if (user != 0 && !is_within_share(own, in_use, policy.ports)) {
    return refusal(&ServiceCounters::not_granted_ports,
                   "the " + std::to_string(policy.ports - in_use) + " ports that are left are for root and other users");
  }
  return std::nullopt;
}

// A program of user 0 may have given up what makes it root since it got its port.
bool Grants::is_same(uid_t one, uid_t other) {
  const auto number = [](uid_t user) { return user == Peer::kPowerlessRoot ? 0 : user; };
  return number(one) == number(other);
}

// Whether a user who waits for a port, and for `held_back` of them in all, has room for another: ports that are being taken
// down count, or who keeps their sockets could have more than its limit.
bool Grants::fits(uid_t user, std::uint32_t held_back) const {
  if (user == 0) return true;
  const std::uint32_t own = uses_.at(user).ports - held_back;
  return own < config_.granted.ports_per_user && is_within_share(own, ports_ - maker_.held_back(), config_.granted.ports);
}

void Grants::count(uid_t user, int change) {
  ports_ += static_cast<std::uint32_t>(change);
  Use& use = uses_[user];
  use.ports += static_cast<std::uint32_t>(change);
  if (use.ports == 0) uses_.erase(user);
}

void Grants::let_go(Held& held) {
  if (std::exchange(held.is_going, true)) return;
  ++uses_[held.user].going;
  ++going_;
}

void Grants::make(AgentNic& nic, uid_t user, Made made) {
  const auto done = [this, &nic, user, made = std::move(made)](std::unique_ptr<AgentPort> port, std::string why) {
    try {
      if (port != nullptr) nic.admit(*port);
    } catch (const std::exception& error) {
      why = error.what();
    }
    if (why.empty()) {
      ++counters_.ports_made;
      return made(Held{&nic, std::move(port), user}, "");
    }
    ++counters_.not_granted_failed;
    if (port != nullptr) {
      destroy({&nic, std::move(port), user}, true);
    } else {
      count(user, -1);
    }
    made(std::nullopt, why);
  };
  count(user, 1);
  maker_.make(nic, user, done);
}

// ---------------------------------------------------------------------------- of an earlier agent

void Grants::inherit(AgentNic& nic, std::uint64_t now) {
  if (!nic.is_open() || nic.granter() == nullptr) return;
  for (auto& port : nic.granter()->take_left()) {
    const uid_t user = port->holder().user;
    ++counters_.ports_found;
    count(user, 1);
    left_.push_back({{&nic, std::move(port), user}, now + config_.granted.reattach_ms * kNsPerMs});
  }
  look_after_left(now);
}

Grants::Adopted Grants::adopt(AgentNic& nic, uid_t user, const std::vector<gid_t>& groups,
                              const MacAddress& port, const StackLimits& limits,
                              const Find& find) {
  if (auto why_not = judge_user(nic, user, groups)) throw std::move(*why_not);
  const auto left = std::find_if(left_.begin(), left_.end(), [&](const Left& each) {
    return each.held.nic == &nic && is_same(each.held.user, user) &&
           each.held.port->layout().address == port;
  });
  if (left == left_.end()) {
    throw Refusal{&ServiceCounters::refused_adoption,
                  "no such port of user " + std::to_string(user) + " has been left"};
  }
  const AgentPort::Holder holder = left->held.port->holder();
  auto granted_segment = std::make_unique<GrantedSegment>(limits, find(Which::kGrantedSegment, holder.granted_segment));
  Descriptor umem = find(Which::kUmem, holder.umem);
  nic.admit(*left->held.port);  // nothing after this throws
  left->held.port->take_umem(umem.release());
  ++counters_.ports_adopted;
  Adopted out{std::move(left->held), std::move(granted_segment)};
  left_.erase(left);
  return out;
}

void Grants::leave_behind(Held held) {
  held.nic->dismiss(*held.port);
  held.port->leave();
  count(held.user, -1);
}

void Grants::leave_inherited() {
  for (Left& each : left_) {
    each.held.port->leave();
    count(each.held.user, -1);
  }
  left_.clear();
}

// Takes down ports whose program has ended. A program that is only stopped may still adopt its port in time.
void Grants::look_after_left(std::uint64_t now) {
  if (now < next_left_look_) return;
  next_left_look_ = now + kLeftLookNs;
  for (auto it = left_.begin(); it != left_.end();) {
    if (now < it->until && it->held.port->is_kept()) {
      ++it;
      continue;
    }
    ++counters_.ports_given_up;
    destroy(std::move(it->held), true);
    it = left_.erase(it);
  }
}

void Grants::end(Held held, std::unique_ptr<GrantedSegment> granted_segment, bool program_left, std::uint64_t now) {
  let_go(held);
  Leaving leaving{std::move(held), program_left, {}, 0, 0, now};
  const GrantedLayout& layout = leaving.held.port->layout();
  leaving.farewells = granted_segment->last_frames(layout.address, layout.ether_type);
  // Closing the file may free all of its memory, so the worker does it.
  ends_.give([file = std::shared_ptr<GrantedSegment>(std::move(granted_segment))]() mutable { file.reset(); }, {});
  leaving_.push_back(std::move(leaving));
  tick(now);
}

void Grants::end(Held held) { withdraw(std::move(held), true); }

// Sends a few last disconnects at a time: the loop serves nothing else meanwhile.
void Grants::say_some(Leaving& leaving) {
  const std::size_t end = std::min(leaving.said + kDisconnectsAtOnce, leaving.farewells.size());
  for (; leaving.said < end; ++leaving.said) {
    counters_.farewells += leaving.held.port->send(leaving.farewells[leaving.said]);
  }
  if (leaving.said < leaving.farewells.size()) return;
  leaving.said = 0;
  ++leaving.turn;
}

void Grants::tick(std::uint64_t now) {
  maker_.tick(now);
  if (!kept_.empty()) look_after_kept(now);
  if (!left_.empty()) look_after_left(now);
  for (auto it = leaving_.begin(); it != leaving_.end();) {
    if (now >= it->begin + kDisconnectTimesNs[it->turn]) say_some(*it);
    if (it->turn == std::size(kDisconnectTimesNs) || it->farewells.empty()) {
      withdraw(std::move(it->held), it->program_left);
      it = leaving_.erase(it);
    } else {
      ++it;
    }
  }
}

std::uint64_t Grants::next_deadline() const {
  std::uint64_t next = maker_.next_deadline();
  if (!kept_.empty()) next = std::min(next, next_look_);
  if (!left_.empty()) next = std::min(next, next_left_look_);
  for (const Leaving& each : leaving_) next = std::min(next, each.begin + kDisconnectTimesNs[each.turn]);
  return next;
}

void Grants::withdraw(Held held, bool program_left) {
  held.nic->dismiss(*held.port);
  destroy(std::move(held), program_left);
}

void Grants::destroy(Held held, bool program_left) {
  let_go(held);
  // A function must be copyable, and a port is not.
  const auto ending = std::make_shared<Held>(std::move(held));
  const auto work = [ending, program_left] {
    AgentPort& port = *ending->port;
    if (program_left) give_back_memory(port.umem());
    port.end();
  };
  ends_.give(work, [this, ending] {
    --uses_[ending->user].going;
    --going_;
    if (ending->port->is_kept()) {
      ++counters_.ports_kept;
      return kept_.push_back(std::move(*ending));
    }
    count(ending->user, -1);
    maker_.go_on();
  });
}

// The end of a port makes room for another, and a port whose program has gone ends.
void Grants::finish_work() {
  while (!idle()) {
    makes_.finish();
    ends_.finish();
  }
}

void Grants::look_after_kept(std::uint64_t now) {
  if (now < next_look_) return;
  next_look_ = now + kKeptLookNs;
  kept_.remove_if([this](const Held& held) {
    if (held.port->is_kept()) return false;
    count(held.user, -1);
    return true;
  });
  maker_.go_on();
}

void Grants::leave(const AgentNic& nic) {
  for (auto it = leaving_.begin(); it != leaving_.end();) {
    if (it->held.nic == &nic) {
      withdraw(std::move(it->held), it->program_left);
      it = leaving_.erase(it);
    } else {
      ++it;
    }
  }
  for (auto it = left_.begin(); it != left_.end();) {
    if (it->held.nic == &nic) {
      destroy(std::move(it->held), true);
      it = left_.erase(it);
    } else {
      ++it;
    }
  }
  maker_.leave(nic);
  finish_work();
}

}  // namespace viaduct
