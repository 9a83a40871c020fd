#include "tests/sim/world/world.h"

#include <algorithm>
#include <cstring>

#include "kagent/contract/wire.h"
#include "tests/sim/world/failure.h"
#include "tests/sim/world/pattern.h"

namespace viaduct::sim {
namespace {

constexpr std::uint64_t kNever = ~0ull;
constexpr std::uint64_t kSettling = 20 * kSec;  // longer than anything is remembered

StackLimits limits_of_programs(StackLimits limits) {
  limits.sessions = 1;
  limits.claims = 0;
  return limits;
}

}  // namespace

Simulation::Simulation(const Plan& its_plan)
    : plan(its_plan), random(its_plan.seed ^ 0x5eed5eed), network(its_plan.network, its_plan.seed) {
  begun_ = network.now();
  current.now = begun_;
  for (unsigned h = 0; h < plan.hosts; ++h) {
    agents.push_back(std::make_unique<AgentHost>(network, static_cast<std::uint8_t>(h + 1),
                                                 plan.seed, plan.limits, plan.mtus[h]));
    agents.back()->watch = this;
    Driver driver;
    driver.host = agents.back().get();
    driver.control_session = &agents.back()->control_session;
    drivers.push_back(driver);
  }
  network.set_filter([this](const SimPort& from, std::span<std::byte> frame) {
    strays(from, frame);
    if (plan.forges) remember(frame);
    return true;
  });
}

Simulation::~Simulation() = default;

Tally& Tally::operator+=(const Tally& other) {
  by_ring += other.by_ring;
  agents_died += other.agents_died;
  adoptions += other.adoptions;
  programs_died += other.programs_died;
  outages += other.outages;
  stops += other.stops;
  return *this;
}

MacAddress Simulation::new_child(unsigned host) {
  constexpr unsigned kFirst = 0x10, kMany = 0x80;  // see granted_host.h
  const unsigned child = children_++;
  return {0x02, 0, 0, static_cast<std::uint8_t>(child / kMany),
          static_cast<std::uint8_t>(kFirst + child % kMany), agents[host]->number};
}

Connection& Simulation::new_connection(std::uint16_t level) {
  const auto number = static_cast<std::uint32_t>(connections_.size());
  Connection made{};
  made.number = number;
  made.level = level;
  made.streams[0] = mix(plan.seed, 2 * number);
  made.streams[1] = mix(plan.seed, 2 * number + 1);
  return connections_.emplace_back(made);
}

Connection* Simulation::connection(std::uint32_t number) {
  return number < connections_.size() ? &connections_[number] : nullptr;
}

Process& Simulation::add_process(unsigned host, bool with_cq_allowed) {
  const bool own_stack = random.chance(plan.granted);
  const auto manner = static_cast<Manner>(random.below(4));
  const bool with_cq = with_cq_allowed && random.chance(0.4);
  processes.push_back(std::make_unique<Process>(*this, static_cast<unsigned>(processes.size()),
                                                host, own_stack, manner, with_cq));
  return *processes.back();
}

// ---------------------------------------------------------------------------- a program

Process::Process(Simulation& its_world, unsigned its_number, unsigned its_host, bool is_granted,
                 Manner its_manner, bool cq)
    : world(its_world),
      number(its_number),
      host(its_host),
      granted(is_granted),
      manner(its_manner),
      with_cq(cq) {}

void Process::born() {
  memory = std::make_unique<Memory>(number);
  if (granted) {
    world.granted.push_back(std::make_unique<GrantedHost>(
        *world.agents[host], static_cast<std::uint8_t>(world.children_++), world.plan.seed,
        limits_of_programs(world.plan.limits), world.plan.mtus[host]));
    world.granted.back()->watch = &world;
    world.drivers[host].kicked = true;
    Driver made;
    made.host = world.granted.back().get();
    if (driver == nullptr) {
      world.drivers.push_back(made);
      driver = &world.drivers.back();
    } else {
      *driver = made;
    }
  } else {
    driver = &world.drivers[host];
  }
  client = std::make_unique<Client>(*driver->host, *memory, manner, with_cq, driver->rang);
  dead_until = 0;
  restless = true;
  next_ = kNever;
  tell("program %u begins on host %u%s", number, host, granted ? ", with a stack of its own" : "");
  for (Link* const link : links) link->born();
}

void Process::killed() {
  for (Link* const link : links) link->died();
}

bool Process::step() {
  const std::uint64_t now = world.now();
  if (client == nullptr || dead_until != 0 || now < paused_until || driver->dead ||
      now < driver->paused_until) {
    return false;
  }
  if (client->asleep() && !restless && now < next_) return false;
  if (client->asleep()) client->woken();
  restless = spins_ = false;
  next_ = kNever;
  bool any = client->poll();
  for (Link* const link : links) any |= link->step();
  for (const auto& job : world.jobs) any |= job->step(*this);
  if (any) return true;
  if (spins_ || (!client->sleep() && manner != Manner::kSpins)) restless = true;
  return false;
}

// ---------------------------------------------------------------------------- what stacks do

Client* Simulation::client_of(Host& host, std::uint32_t session) {
  for (const auto& process : processes) {
    Client* const client = process->client.get();
    if (client != nullptr && &client->host == &host && client->session() == session) return client;
  }
  return nullptr;
}

bool Simulation::reads(Host& host, std::uint32_t session, std::span<const iovec> memory) {
  if (library != nullptr) return library->reads(host, session, memory);
  Client* const client = client_of(host, session);
  if (client == nullptr) fail("a stack reads the memory of nobody");
  if (client->memory_gone) return false;
  for (const iovec& piece : memory) {
    if (!client->memory.may_read(reinterpret_cast<std::uint64_t>(piece.iov_base), piece.iov_len)) {
      fail("a stack reads %zu bytes that it must not read", piece.iov_len);
    }
  }
  return true;
}

bool Simulation::writes(Host& host, std::uint32_t session, std::span<const iovec> memory) {
  if (library != nullptr) return library->writes(host, session, memory);
  Client* const client = client_of(host, session);
  if (client == nullptr) fail("a stack writes to the memory of nobody");
  if (client->memory_gone) return false;
  for (const iovec& piece : memory) {
    if (!client->memory.may_write(reinterpret_cast<std::uint64_t>(piece.iov_base), piece.iov_len)) {
      fail("a stack writes %zu bytes to where it must not write", piece.iov_len);
    }
  }
  return true;
}

void Simulation::wrote(Host& host, std::uint32_t session) {
  for (const auto& process : processes) {
    const Client* const client = process->client.get();
    if (client == nullptr || &client->host != &host || client->session() != session) continue;
    if (process->dead_until != 0 || now() < process->paused_until) continue;
    for (const auto& job : jobs) job->peek(*process);
  }
}

void Simulation::wakes(Host& host, std::atomic<std::uint32_t>& word) {
  if (library != nullptr) library->wakes(word);
  for (const auto& process : processes) {
    Client* const client = process->client.get();
    if (client != nullptr && &client->host == &host && client->is_word(word)) client->woken();
  }
}

void Simulation::poll_wakes(Host& host, std::uint32_t session) {
  if (library != nullptr) return library->poll_wakes(host, session);
  if (Client* const client = client_of(host, session)) client->woken();
}

void Simulation::rings(Host& host) {
  for (Driver& driver : drivers) {
    if (driver.host == &host) driver.rang = true;
  }
}

// Stacks send with their own address only, and not to where macvlan would not carry it.
void Simulation::strays(const SimPort& from, std::span<std::byte> frame) {
  wire::Decoded decoded;
  if (verbose && wire::decode(frame, decoded) == wire::Malformed::kNone) {
    const wire::Header& h = decoded.header;
    tell("  frame %02x%02x -> %02x%02x type %u flags %x vi %x key %llx psn %x ack %x",
         std::to_integer<unsigned>(frame[10]), std::to_integer<unsigned>(frame[11]),
         std::to_integer<unsigned>(frame[4]), std::to_integer<unsigned>(frame[5]),
         static_cast<unsigned>(h.type), h.flags, h.vi, static_cast<unsigned long long>(h.key),
         h.psn, h.ack);
  }
  const MacAddress source = from.address();
  if (std::memcmp(frame.data() + 6, source.data(), 6) != 0) {
    fail("a stack sends from an address that is not its own");
  }
}

bool Simulation::tell_of_rings(const MacAddress& port, RingMessage message) {
  if (library != nullptr) return library->tell_of_rings(port, std::move(message));
  for (const auto& host : granted) {
    if (host->dead || host->port.address() != port) continue;
    if (!message.file) {
      host->paths().end_local(message.peer);
      return true;
    }
    const char* const failed =
        host->paths().add_local(message.peer, message.program, message.file.release(), message.end);
    // Where the place for an address is taken there is no way by rings, as with the agent's.
    if (failed != nullptr) tell("rings were refused: %s", failed);
    for (Driver& driver : drivers) {
      if (driver.host == host.get()) driver.kicked = true;
    }
    return true;
  }
  return false;
}

// ---------------------------------------------------------------------------- steps

bool Simulation::drive(Driver& driver) {
  if (driver.dead || now() < driver.paused_until) return false;
  if (driver.asleep) {
    const bool frames =
        driver.host->port.waiting() != 0 || (driver.control_session != nullptr && driver.control_session->waiting() != 0);
    if (!driver.rang && !frames && !driver.kicked && now() < driver.deadline) return false;
    driver.host->stack->awake();
    driver.asleep = false;
  }
  driver.rang = driver.kicked = false;
  if (driver.host->stack->progress(now()) != 0) return true;
  if (!driver.host->stack->prepare_to_sleep()) return false;
  if (!driver.host->prepare_to_sleep()) {
    driver.host->stack->awake();
    return false;
  }
  driver.asleep = true;
  driver.deadline = driver.host->stack->next_deadline();
  return false;
}

bool Simulation::step() {
  ++steps_;
  current.now = now();
  while (next_event_ < plan.events.size() && begun_ + plan.events[next_event_].at <= now()) {
    trouble(plan.events[next_event_++]);
  }
  bool any = come_back();
  any |= rings_.step();
  for (Driver& driver : drivers) any |= drive(driver);
  for (const auto& process : processes) any |= process->step();
  if (library != nullptr) any |= library->step();
  check();
  return any;
}

// The oracle's view from above: acknowledged data has arrived.
void Simulation::check() {
  for (const auto& process : processes) {
    if (process->client != nullptr && process->client->is_open()) process->client->observe();
    for (Link* const link : process->links) link->account();
  }
  for (const auto& process : processes) {
    for (const Link* const link : process->links) {
      const Connection* const c = link->connection;
      if (c == nullptr || c->level == vip::kUnreliable || c->one_sided) continue;
      const unsigned s = link->side();
      if (c->gone[1 - s] || c->sent[s] <= c->received[1 - s]) continue;
      fail("connection %u: %llu sends have succeeded, but only %llu receives", c->number,
           static_cast<unsigned long long>(c->sent[s]),
           static_cast<unsigned long long>(c->received[1 - s]));
    }
  }
}

std::uint64_t Simulation::next_time() const {
  std::uint64_t next = network.next_event();
  const auto at = [&](std::uint64_t time) {
    if (time > network.now()) next = std::min(next, time);
  };
  if (next_event_ < plan.events.size()) at(begun_ + plan.events[next_event_].at);
  for (const Healing& healing : healing_) at(healing.at);
  for (const Adoption& adoption : adoptions_) at(adoption.at);
  at(rings_.next());
  for (const Driver& driver : drivers) {
    if (driver.dead) {
      at(driver.down_until);
    } else if (now() < driver.paused_until) {
      at(driver.paused_until);
    } else if (driver.asleep) {
      next = std::min(next, driver.deadline);
    } else {
      next = std::min(next, now() + 20 * kUs);  // it would go on trying
    }
  }
  for (const auto& process : processes) {
    if (process->dead_until != 0) {
      at(process->dead_until);
      at(process->unnoticed_until);
    } else if (now() < process->paused_until) {
      at(process->paused_until);
    } else if (process->client != nullptr) {
      at(process->next());
      if (process->is_busy()) next = std::min(next, now() + 10 * kUs);
    }
  }
  if (library != nullptr) next = std::min(next, library->next());
  return next;
}

void Simulation::run() {
  make_jobs(*this);
  for (const auto& process : processes) process->born();
  if (library != nullptr) {
    for (const auto& program : library->programs) program->born();
  }
  tell("%s", plan.text().c_str());
  for (const auto& job : jobs) tell("%s", job->text().c_str());
  const auto all = [this](auto&& what) { return std::all_of(jobs.begin(), jobs.end(), what); };
  const std::uint64_t deadline = begun_ + plan.span + plan.patience;
  for (;;) {
    const bool any = step();
    // Some connections stay when their job is done, if there is room for that.
    for (const auto& job : jobs) {
      if (job->released || !job->finished()) continue;
      job->released = true;
      if (plan.limits.vis >= 64 && plan.limits.peers >= 16 && random.chance(0.5)) continue;
      for (const auto& link : job->links) link->want(false);
    }
    if (!ending_ && all([](const auto& job) { return job->finished(); })) {
      ending_ = true;
      tell("all jobs are done");
      end_of_troubles();
      for (const auto& job : jobs) {
        for (const auto& link : job->links) link->want(false);
      }
    }
    if (ending_ && all([](const auto& job) {
          return std::all_of(job->links.begin(), job->links.end(),
                             [](const auto& link) { return link->is_at_rest(); });
        }) && (library == nullptr || library->ended())) {
      break;
    }
    if (any) continue;
    const std::uint64_t next = next_time();
    if (now() > deadline || next == kNever) {
      std::string stuck;
      for (const auto& job : jobs) {
        if (!job->finished() || ending_) stuck += " [" + job->text() + "]";
      }
      if (library != nullptr) stuck += " " + library->text();
      fail("stuck%s:%s", ending_ ? " at the end" : "", stuck.c_str());
    }
    network.advance_to(std::max(next, now() + 1));
  }
  done_at_ = now();
  check_nothing_left();
}

// ---------------------------------------------------------------------------- the end

void Simulation::check_counters() {
  if (plan.forges || plan.corrupts) return;
  for (const Driver& driver : drivers) {
    if (driver.dead) continue;
    for_each(
        driver.host->stack->counters(), [](const char* name, const char*, std::uint64_t value) {
          for (const char* const never :
               {"drop_window", "drop_bad_sequence", "drop_short", "drop_version", "drop_type",
                "drop_length", "drop_bad_body", "drop_wrong_source", "drop_not_supported"}) {
            if (value != 0 && std::strcmp(name, never) == 0) {
              fail("%s is %llu among honest stacks", name, static_cast<unsigned long long>(value));
            }
          }
        });
  }
}

void Simulation::check_nothing_left() {
  check_counters();
  const auto settle = [this] {
    const std::uint64_t until = now() + kSettling;
    while (now() < until) {
      bool any = false;
      for (Driver& driver : drivers) any |= drive(driver);
      if (any) continue;
      std::uint64_t next = network.next_event();
      for (const Driver& driver : drivers) {
        if (driver.dead) continue;
        next = std::min(next, driver.asleep ? driver.deadline : now() + 20 * kUs);
      }
      network.advance_to(std::min(std::max(next, now() + 1), until));
      current.now = now();
    }
  };
  const auto expect_empty = [](const Host& host) {
    const Stack::Usage u = host.stack->usage();
    const std::uint32_t left = u.sessions + u.vis + u.cqs + u.regions + u.ptags + u.peers +
                               u.goodbyes + u.requests + u.held + u.connected + u.claims +
                               u.members;
    if (left != 0) {
      fail(
          "left at the end: sessions %u, VIs %u, CQs %u, regions %u, tags %u, peers %u, goodbyes "
          "%u, requests %u, held frames %u, connected %u, claims %u",
          u.sessions, u.vis, u.cqs, u.regions, u.ptags, u.peers, u.goodbyes, u.requests, u.held,
          u.connected, u.claims);
    }
    if (host.stack->next_deadline() != kNever) fail("a timer is left at the end");
  };
  const auto expect_all_frames = [](const SimPort& port) {
    if (port.outstanding() != 0) fail("%u frames are left at the end", port.outstanding());
  };
  for (const auto& process : processes) process->client.reset();
  for (const auto& process : processes) process->memory.reset();
  if (library != nullptr) library->check_nothing_left();
  settle();
  for (Driver& driver : drivers) {
    auto* const own = dynamic_cast<GrantedHost*>(driver.host);
    if (own == nullptr || own->dead) continue;
    expect_empty(*own);
    if (own->listeners_published() != 0) fail("a listener is left at the end");
    driver.dead = true;
  }
  for (const auto& own : granted) {
    own->stack.reset();
    if (const local::LocalPeers* const rings = own->paths().local()) tally_.by_ring += rings->counters().rx_frames;
  }
  for (const auto& own : granted) expect_all_frames(own->port);
  granted.clear();
  settle();
  for (const auto& agent : agents) {
    expect_empty(*agent);
    agent->stack.reset();
    expect_all_frames(agent->port);
    expect_all_frames(agent->control_session);
  }
}

}  // namespace viaduct::sim
