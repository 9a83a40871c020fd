#include "kagent/grants.h"

#include <algorithm>
#include <utility>

namespace viaduct {
namespace {

constexpr std::size_t kFarewellsAtOnce = 64;
constexpr std::size_t kBytesPerKb = 1024;

}  // namespace

Grants::Grants(const Config& config, EventLoop& loop, ServiceCounters& counters)
    : config_(config), counters_(counters), workshop_(loop) {}

Grants::~Grants() { finish(); }

void Grants::finish() {
  for (Leaving& each : leaving_) take_down(std::move(each.held), std::move(each.home));
  leaving_.clear();
  workshop_.finish();
}

std::optional<Grants::Refusal> Grants::judge(const Nic& nic, uid_t user,
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
                   "user " + std::to_string(user) + " may not have a port (see [granted])");
  }
  if (ports_ >= policy.ports) {
    return refusal(&ServiceCounters::not_granted_ports,
                   "all " + std::to_string(policy.ports) + " ports are in use");
  }
  const auto of_user = ports_of_user_.find(user);
  if (user != 0 && of_user != ports_of_user_.end() && of_user->second >= policy.ports_per_user) {
    return refusal(&ServiceCounters::not_granted_user_limit,
                   "user " + std::to_string(user) + " has all " +
                       std::to_string(of_user->second) + " ports that one user may have");
  }
  return std::nullopt;
}

void Grants::count(uid_t user, int change) {
  ports_ += static_cast<std::uint32_t>(change);
  std::uint32_t& of_user = ports_of_user_[user];
  of_user += static_cast<std::uint32_t>(change);
  if (of_user == 0) ports_of_user_.erase(user);
}

void Grants::make(Nic& nic, uid_t user, Made made) {
  struct Result {
    std::unique_ptr<GrantedPlace> port;
    std::string why;
  };
  const auto result = std::make_shared<Result>();
  const auto bytes = static_cast<std::uint32_t>(config_.granted.umem_kb * kBytesPerKb);
  Granter* const granter = nic.granter();
  const auto work = [result, granter, bytes] {
    try {
      result->port = granter->make(bytes);
    } catch (const std::exception& error) {
      result->why = error.what();
    }
  };
  workshop_.give(work, [this, result, &nic, user, made = std::move(made)] {
    try {
      if (result->port != nullptr) nic.admit(*result->port);
    } catch (const std::exception& error) {
      result->why = error.what();
    }
    if (result->why.empty()) {
      ++counters_.ports_made;
      return made(Held{&nic, std::move(result->port), user}, "");
    }
    ++counters_.not_granted_failed;
    if (result->port != nullptr) {
      destroy({&nic, std::move(result->port), user}, nullptr);
    } else {
      count(user, -1);
    }
    made(std::nullopt, result->why);
  });
  count(user, 1);
}

void Grants::end(Held held, std::unique_ptr<Home> home, std::uint64_t now) {
  Leaving leaving{std::move(held), std::move(home), {}, 0, 0, now};
  const GrantedLayout& layout = leaving.held.port->layout();
  leaving.farewells = leaving.home->farewells(layout.address, layout.ether_type);
  leaving_.push_back(std::move(leaving));
  tick(now);
}

void Grants::end(Held held) { take_down(std::move(held), nullptr); }

// Never many in one go: nobody else is served meanwhile.
void Grants::say_some(Leaving& leaving) {
  const std::size_t end =
      std::min(leaving.said + kFarewellsAtOnce, leaving.farewells.size());
  for (; leaving.said < end; ++leaving.said) {
    counters_.farewells += leaving.held.port->send(leaving.farewells[leaving.said]);
  }
  if (leaving.said < leaving.farewells.size()) return;
  leaving.said = 0;
  ++leaving.turn;
}

void Grants::tick(std::uint64_t now) {
  for (auto it = leaving_.begin(); it != leaving_.end();) {
    if (now >= it->begin + kFarewellsNs[it->turn]) say_some(*it);
    if (it->turn == std::size(kFarewellsNs) || it->farewells.empty()) {
      take_down(std::move(it->held), std::move(it->home));
      it = leaving_.erase(it);
    } else {
      ++it;
    }
  }
}

std::uint64_t Grants::next_deadline() const {
  std::uint64_t next = ~0ull;
  for (const Leaving& each : leaving_) next = std::min(next, each.begin + kFarewellsNs[each.turn]);
  return next;
}

void Grants::take_down(Held held, std::unique_ptr<Home> home) {
  held.nic->dismiss(*held.port);
  destroy(std::move(held), std::move(home));
}

void Grants::destroy(Held held, std::unique_ptr<Home> home) {
  // A function can be copied, what it has cannot.
  struct Rest {
    std::unique_ptr<GrantedPlace> port;
    std::unique_ptr<Home> home;
  };
  const auto rest = std::make_shared<Rest>(Rest{std::move(held.port), std::move(home)});
  const auto work = [rest] {
    rest->port.reset();
    if (rest->home != nullptr) rest->home->clear();
    rest->home.reset();
  };
  workshop_.give(work, [this, user = held.user] { count(user, -1); });
}

void Grants::leave(const Nic& nic) {
  for (auto it = leaving_.begin(); it != leaving_.end();) {
    if (it->held.nic == &nic) {
      take_down(std::move(it->held), std::move(it->home));
      it = leaving_.erase(it);
    } else {
      ++it;
    }
  }
  workshop_.finish();
}

}  // namespace viaduct
