// Faults of a world, and their repair.
#include <algorithm>
#include <cstring>

#include "kagent/contract/wire.h"
#include "tests/sim/world/failure.h"
#include "tests/sim/world/world.h"

namespace viaduct::sim {
namespace {

constexpr std::size_t kRemembered = 96;
constexpr std::size_t kKeyOffset = wire::kEthernetBytes + 8;

}  // namespace

void Simulation::trouble(const Event& event) {
  const std::uint64_t until = now() + event.duration;
  SimPort& a = agents[event.a % plan.hosts]->port;
  SimPort& b = agents[event.b % plan.hosts]->port;
  if (event.duration >= kSec) {
    tally_.outages += event.trouble == Trouble::kCut || event.trouble == Trouble::kPart;
    tally_.stops += event.trouble == Trouble::kPauseHost || event.trouble == Trouble::kPauseProgram;
  }
  switch (event.trouble) {
    case Trouble::kFaults:
      tell(
          "faults: loss %.3f, duplication %.3f, reordering %.3f by %.3f ms, jitter %.3f ms, "
          "corruption %.3f, for %.3f ms",
          event.faults.loss, event.faults.duplication, event.faults.reordering,
          static_cast<double>(event.faults.reorder_ns) / 1e6,
          static_cast<double>(event.faults.jitter_ns) / 1e6, event.faults.corruption,
          static_cast<double>(event.duration) / 1e6);
      network.set_faults(event.faults);
      break;
    case Trouble::kBurst: {
      tell("a burst of losses for %.3f ms", static_cast<double>(event.duration) / 1e6);
      SimFaults all;
      all.loss = 1;
      network.set_faults(all);
      network.set_train_faults(all);
      break;
    }
    case Trouble::kTrains:
      tell("faults of trains: loss %.3f, for %.3f ms", event.faults.loss, static_cast<double>(event.duration) / 1e6);
      network.set_train_faults(event.faults);
      break;
    case Trouble::kCut:
      tell("host %u does not reach host %u", event.a, event.b);
      network.cut(a, b);
      break;
    case Trouble::kPart:
      tell("hosts %u and %u do not reach each other", event.a, event.b);
      network.part(a, b);
      break;
    case Trouble::kPauseHost:
      tell("host %u pauses for %.3f ms", event.a, static_cast<double>(event.duration) / 1e6);
      for (Driver& driver : drivers) {
        if (driver.host->port.address()[5] == a.address()[5]) driver.paused_until = until;
      }
      return;
    case Trouble::kPauseProgram: {
      if (library != nullptr) return library->pause(event.a, until);
      Process& process = *processes[event.a % processes.size()];
      tell("program %u pauses for %.3f ms", process.number,
           static_cast<double>(event.duration) / 1e6);
      process.paused_until = until;
      if (process.granted && process.driver != nullptr) process.driver->paused_until = until;
      return;
    }
    case Trouble::kKillProgram: {
      ++tally_.programs_died;
      if (library != nullptr) return library->kill(event.a, event.duration, random.chance(0.5));
      Process& process = *processes[event.a % processes.size()];
      kill(process, event.duration, random.chance(0.5));
      return;
    }
    case Trouble::kKillAgent:
      kill_agent(event.a % plan.hosts, event.duration);
      return;
    case Trouble::kReplay:
      replay();
      return;
    case Trouble::kForge:
      forge();
      return;
  }
  healing_.push_back({until, event});
}

// Temporary faults are over; also the deaths.
bool Simulation::come_back() {
  bool any = false;
  for (std::size_t i = 0; i < healing_.size();) {
    if (healing_[i].at > now()) {
      ++i;
      continue;
    }
    const Event event = healing_[i].event;
    healing_.erase(healing_.begin() + static_cast<std::ptrdiff_t>(i));
    const bool of_trains = event.trouble == Trouble::kTrains, burst = event.trouble == Trouble::kBurst;
    if (of_trains || burst) network.set_train_faults(plan.network.train_faults);
    if (event.trouble == Trouble::kFaults || burst) {
      network.set_faults(plan.network.faults);
    } else if (!of_trains) {
      SimPort& a = agents[event.a]->port;
      SimPort& b = agents[event.b]->port;
      network.join(a, b);
    }
  }
  for (Driver& driver : drivers) {
    if (driver.down_until == 0 || now() < driver.down_until) continue;
    driver.down_until = 0;
    driver.dead = driver.asleep = false;
    static_cast<AgentHost*>(driver.host)->restart_agent();
    tell("the agent of host %u is back", driver.host->port.address()[5] - 1u);
    any = true;
    for (const auto& host : granted) {
      if (&host->agent == driver.host && host->is_detached()) adoptions_.push_back({adoption_time(), host.get()});
    }
  }
  any |= adopt();
  for (const auto& process : processes) {
    if (process->dead_until == 0) continue;
    if (process->client != nullptr && now() >= process->unnoticed_until) {
      process->client.reset();
      process->memory.reset();
      any = true;
    }
    if (now() < process->dead_until || drivers[process->host].dead) continue;
    if (process->client != nullptr) continue;
    process->born();
    any = true;
  }
  return any;
}

// Programs look for a new agent every 50 ms.
std::uint64_t Simulation::adoption_time() { return ending_ ? now() : now() + random.below(50 * kMsec); }

bool Simulation::adopt() {
  bool any = false;
  std::erase_if(adoptions_, [&](const Adoption& adoption) {
    if (adoption.at > now()) return false;
    if (adoption.whom->dead || !adoption.whom->is_detached()) return true;
    if (drivers[adoption.whom->agent.number - 1u].dead) return true;  // once more; the next one will
    adoption.whom->adopt();
    ++tally_.adoptions;
    tell("a program of host %u is adopted", adoption.whom->agent.number - 1u);
    return any = true;
  });
  return any;
}

// Frames that are under way stay as late as they are.
void Simulation::end_of_troubles() {
  next_event_ = plan.events.size();
  for (Healing& healing : healing_) healing.at = now();
  for (Adoption& adoption : adoptions_) adoption.at = now();
  for (Driver& driver : drivers) {
    driver.paused_until = std::min(driver.paused_until, now());
    if (driver.down_until != 0) driver.down_until = now();
  }
  for (const auto& process : processes) {
    process->paused_until = std::min(process->paused_until, now());
    process->unnoticed_until = std::min(process->unnoticed_until, now());
    if (process->dead_until != 0) process->dead_until = now();
  }
  if (library != nullptr) library->end_of_troubles();
  come_back();
}

void Simulation::kill(Process& process, std::uint64_t back_after, bool unnoticed) {
  if (process.dead_until != 0 || process.client == nullptr || process.driver->dead) return;
  tell("program %u dies%s", process.number,
       unnoticed ? ", which its agent does not see at once" : "");
  process.killed();
  process.dead_until = now() + std::max<std::uint64_t>(back_after, 1);
  process.unnoticed_until = now();
  if (process.granted) {
    // Its memory and its stack die in one moment.
    auto& host = static_cast<GrantedHost&>(*process.driver->host);
    host.die();
    if (!host.is_detached()) rings_.ended(process.host, host.port.address());
    process.driver->dead = true;
    drivers[process.host].kicked = true;
    process.client->lose();
    process.client.reset();
    process.memory.reset();
  } else if (unnoticed) {
    process.client->memory_gone = true;
    process.unnoticed_until = now() + random.magnitude(10 * kUs, 20 * kMsec);
  } else {
    process.client.reset();
    process.memory.reset();
  }
}

void Simulation::kill_agent(unsigned host, std::uint64_t back_after) {
  Driver& driver = drivers[host];
  if (driver.dead) return;
  for (const auto& process : processes) {
    if (process->host != host || !process->granted) continue;
    if (!plan.adopts) {
      kill(*process, back_after, false);
    } else if (process->client != nullptr) {
      static_cast<GrantedHost*>(process->driver->host)->detach();
    }
  }
  tell("the agent of host %u dies", host);
  ++tally_.agents_died;
  rings_.agent_died(host);
  if (library != nullptr) library->kill_agent(host);
  for (const auto& process : processes) {
    if (process->host != host || process->client == nullptr || process->granted) continue;
    if (process->dead_until == 0) process->killed();
    process->client->lose();
    process->client.reset();
    process->memory.reset();
    process->dead_until = std::max(process->dead_until, now() + 1);
  }
  agents[host]->crash_agent();
  if (agents[host]->port.outstanding() != 0) fail("a dead agent has frames");
  driver.dead = true;
  driver.asleep = false;
  driver.down_until = now() + std::max<std::uint64_t>(back_after, 1);
}

// ---------------------------------------------------------------------------- foreign frames

void Simulation::remember(std::span<const std::byte> frame) {
  if (remembered_.size() < kRemembered) {
    remembered_.emplace_back(frame.begin(), frame.end());
  } else if (random.chance(0.1)) {
    remembered_[random.below(kRemembered)].assign(frame.begin(), frame.end());
  }
}

namespace {

SimPort* port_of(const Simulation& world, const std::byte* address) {
  const auto is = [address](const SimPort& port) {
    return std::memcmp(port.address().data(), address, 6) == 0;
  };
  for (const auto& agent : world.agents) {
    if (is(agent->port)) return &agent->port;
    if (is(agent->control_session)) return &agent->control_session;
  }
  for (const auto& own : world.granted) {
    if (is(own->port) && !own->dead) return &own->port;
  }
  return world.library != nullptr ? world.library->port_of(address) : nullptr;
}

}  // namespace

void Simulation::replay() {
  for (std::uint64_t n = 1 + random.below(64); n > 0 && !remembered_.empty(); --n) {
    const std::vector<std::byte>& frame = remembered_[random.below(remembered_.size())];
    if (SimPort* const to = port_of(*this, frame.data())) network.inject(*to, frame);
  }
}

// A forger of a frame does not know the connection's key; or it does, but not the address it would have to send from.
// (With the key of a request it could answer from anywhere: stacks of programs do.)
void Simulation::forge() {
  for (std::uint64_t n = 1 + random.below(64); n > 0 && !remembered_.empty(); --n) {
    std::vector<std::byte> frame = remembered_[random.below(remembered_.size())];
    const auto spoil = [&](std::size_t from, std::size_t bytes) {
      for (std::size_t i = from; i < from + bytes && i < frame.size(); ++i) {
        frame[i] = static_cast<std::byte>(random.below(256));
      }
    };
    const bool answer =
        frame[wire::kEthernetBytes + 1] == static_cast<std::byte>(wire::Type::kConnectAccept);
    switch (answer ? 0 : random.below(5)) {
      case 0:
        spoil(kKeyOffset, 8);
        break;  // another key
      case 1:
        spoil(8, 4);
        break;  // another source
      case 2:
        spoil(wire::kEthernetBytes, frame.size());
        break;  // nonsense
      case 3:   // another place
        spoil(kKeyOffset, 8);
        spoil(wire::kEthernetBytes + 4, 4);
        spoil(kKeyOffset + 8, 20);
        break;
      default:  // another kind
        spoil(kKeyOffset, 8);
        frame[wire::kEthernetBytes + 1] = static_cast<std::byte>(1 + random.below(wire::kLastType));
        break;
    }
    // A request from nowhere is as good as one from somewhere: only its sender could take it up.
    if (SimPort* const to = port_of(*this, frame.data())) network.inject(*to, frame);
  }
}

}  // namespace viaduct::sim
