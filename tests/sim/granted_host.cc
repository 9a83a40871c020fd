#include "tests/sim/granted_host.h"
#include "kagent/stack/remains.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "tests/sim/borrowed_port.h"
#include "tests/sim/pair.h"
#include "xdp/host_port.h"

namespace viaduct::sim {
namespace {

constexpr std::uint8_t kControlSession = 0xd0;
constexpr std::uint8_t kFirstChild = 0x10;
constexpr std::uint32_t kControlSessionFrame = 0x40000000;  // marks the ids of the control session's frames

MacAddress address_of(std::uint8_t kind, std::uint8_t number) {
  return {0x02, 0, 0, 0, kind, number};
}

StackLimits granted_limits() {
  StackLimits limits = small_limits();
  limits.sessions = 1;
  limits.claims = 0;
  return limits;
}

}  // namespace

// ---------------------------------------------------------------------------- the agent's port

std::size_t RelayChild::receive(std::span<Frame> frames) {
  const std::size_t n = nic_.receive(frames.first((frames.size() + 1) / 2));
  const std::size_t more = control_session_.receive(frames.subspan(n));
  const MacAddress own = nic_.address();
  std::size_t kept = n;
  for (std::size_t i = n; i < n + more; ++i) {
    // Broadcast frames have come by the NIC too.
    if ((std::to_integer<unsigned>(frames[i].data[0]) & 1) != 0) {
      control_session_.release({&frames[i], 1});
      continue;
    }
    std::memcpy(frames[i].data, own.data(), own.size());
    frames[kept] = frames[i];
    frames[kept++].id |= kControlSessionFrame;
  }
  return kept;
}

void RelayChild::release(std::span<const Frame> frames) {
  for (Frame frame : frames) {
    if ((frame.id & kControlSessionFrame) != 0) {
      frame.id &= ~kControlSessionFrame;
      control_session_.release({&frame, 1});
    } else {
      nic_.release({&frame, 1});
    }
  }
}

void RelayChild::submit(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    const auto kind = std::to_integer<std::uint8_t>(frame.data[4]);
    const auto host = std::to_integer<std::uint8_t>(frame.data[5]);
    if (kind < kFirstChild || kind >= kControlSession || host != nic_.address()[5]) {
      nic_.submit({&frame, 1});
      continue;
    }
    Frame copy;
    if (control_session_.reserve({&copy, 1}) == 1) {
      std::memcpy(copy.data, frame.data, frame.length);
      std::memcpy(copy.data + 6, control_session_.address().data(), 6);
      copy.length = frame.length;
      control_session_.submit({&copy, 1});
    }
    nic_.cancel({&frame, 1});
  }
}

AgentHost::AgentHost(SimNetwork& net, std::uint8_t its_number, std::uint64_t seed,
                     const StackLimits& its_limits, std::uint32_t mtu)
    : AgentHost(net, net.add_host(address_of(0, its_number), mtu),
                net.add_host(address_of(kControlSession, its_number), mtu), seed, its_limits) {}

std::optional<Environment::Connection> AgentHost::stopped(std::uint32_t session, std::uint32_t vi,
                                                          std::uint64_t key) {
  const auto program = own.find(session);
  if (program == own.end()) return std::nullopt;
  Own& stack = program->second;
  const auto found =
      stack.heartbeat.stopped(stack.segment, stack.limits, vi, key, network.now());
  if (!found) return std::nullopt;
  return Connection{found->vi, found->key};
}

void AgentHost::crash_agent() {
  own.clear();
  introductions_.clear();
  crash();
  network.reopen(control_session);
}

void AgentHost::restart_agent() { restart(paths(port, control_session)); }

std::unique_ptr<Port> AgentHost::paths(SimPort& nic, SimPort& control_session) {
  auto host = std::make_unique<HostPort>(std::make_unique<RelayChild>(nic, control_session));
  return std::make_unique<SimPaths>(std::move(host), nic, true);
}

AgentHost::AgentHost(SimNetwork& net, SimPort& nic, SimPort& its_control_session, std::uint64_t seed,
                     const StackLimits& its_limits)
    : Host(net, nic, paths(nic, its_control_session), {nic.address(), nic.address()}, its_limits,
           std::string(1, static_cast<char>('a' + nic.address()[5] - 1)), seed),
      number(nic.address()[5]),
      control_session(its_control_session) {}

// ---------------------------------------------------------------------------- granted programs

GrantedHost::GrantedHost(AgentHost& its_agent, std::uint8_t child, std::uint64_t its_seed)
    : GrantedHost(its_agent, child, its_seed, granted_limits(), 1500) {}

GrantedHost::GrantedHost(AgentHost& its_agent, std::uint8_t child, std::uint64_t its_seed,
                         const StackLimits& its_limits, std::uint32_t mtu)
    : GrantedHost(its_agent,
                  its_agent.network.add_host(
                      address_of(static_cast<std::uint8_t>(kFirstChild + child), its_agent.number),
                      mtu),
                  its_seed, its_limits) {}

GrantedHost::GrantedHost(AgentHost& its_agent, SimPort& its_port, std::uint64_t its_seed,
                         const StackLimits& its_limits)
    : Host(its_agent.network, its_port,
           std::make_unique<SimPaths>(std::make_unique<HostPort>(std::make_unique<BorrowedPort>(its_port)), its_port,
                                      false),
           {its_agent.port.address(), its_agent.control_session.address()}, its_limits, "g", its_seed),
      agent(its_agent) {
  open_control_session();
}

GrantedHost::~GrantedHost() {
  if (!dead && !detached_) {
    agent.own.erase(control_session);
    agent.stack->close_session(control_session, network.now());
  }
  munmap(control_segment_, control_bytes_);
}

void GrantedHost::open_control_session() {
  control_bytes_ = layout::Offsets(agent.stack->capacity()).total;
  control_segment_ = mmap(nullptr, control_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  control_session = agent.stack->open_session(control_segment_).value();
  control_view = layout::View(control_segment_, agent.stack->capacity());
  agent.stack->delegate(control_session, port.address());
  agent.own[control_session] = {segment(), limits, {}};
}

// Listeners are copied as they are, as libvipl does when an agent adopts its session.
void GrantedHost::adopt() {
  detached_ = false;
  void* const old_segment = control_segment_;
  const std::size_t old_bytes = control_bytes_;
  const layout::View old = control_view;
  open_control_session();
  layout::Listeners& listeners = control_view.listeners();
  for (std::uint32_t n = 0; n < layout::kListeners; ++n) {
    listeners.listener[n].local = old.listeners().listener[n].local;
    listeners.listener[n].state.store(old.listeners().listener[n].state.load());
  }
  for (std::uint32_t n = 0; n < layout::kListeners / 64; ++n) {
    listeners.active[n].store(old.listeners().active[n].load());
  }
  munmap(old_segment, old_bytes);
  ring_agent(layout::kListenerBit);
}

void GrantedHost::ring_agent(std::uint32_t bit) {
  control_view.header().doorbells.ring(bit);
  if (agent.watch == nullptr || control_view.header().driver_sleeps.load() == 0) return;
  control_view.header().driver_sleeps.store(0);
  agent.watch->rings(agent);
}

std::uint32_t GrantedHost::publish(const layout::Address& local, bool peer) {
  layout::Listeners& listeners = control_view.listeners();
  for (std::uint32_t n = 0; n < layout::kListeners; ++n) {
    layout::Listener& listener = listeners.listener[n];
    if (listener.state.load() != layout::kListenerFree) continue;
    listener.local = local;
    listener.state.store(peer ? layout::kListenerPeer : layout::kListenerWait);
    listeners.active[n / 64].fetch_or(1ull << (n % 64));
    if (listeners.holding.load() != 0) ring_agent(layout::kListenerBit);
    return n;
  }
  return layout::kNoListener;
}

void GrantedHost::withdraw(std::uint32_t listener) {
  layout::Listeners& listeners = control_view.listeners();
  listeners.active[listener / 64].fetch_and(~(1ull << (listener % 64)));
  listeners.listener[listener].state.store(layout::kListenerFree);
}

std::uint32_t GrantedHost::listeners_published() const {
  std::uint32_t up = 0;
  for (const layout::Listener& listener : control_view.listeners().listener) up += listener.state.load() != 0;
  return up;
}

void GrantedHost::die() {
  dead = true;
  if (detached_) return;
  std::vector<Remains> left(limits.vis + limits.goodbyes);
  left.resize(remains(segment(), limits, left));
  agent.own.erase(control_session);
  agent.stack->close_session(control_session, network.now());
  // The agent sends from the child's address, three times.
  for (int i = 0; i < 3; ++i) {
    for (const Remains& one : left) {
      wire::Header header{};
      header.type = wire::Type::kDisconnect;
      header.vi = one.vi;
      header.key = one.key;
      header.psn = one.psn;
      header.ack = one.ack;
      Frame frame;
      if (port.reserve({&frame, 1}) != 1) continue;
      frame.length = static_cast<std::uint32_t>(
          wire::encode(header, one.peer, port.address(), wire::kDefaultEtherType, frame.data));
      port.submit({&frame, 1});
    }
  }
  port.flush();
}

// ---------------------------------------------------------------------------- the world

World::World(std::uint64_t its_seed, const SimFaults& faults, unsigned count)
    : seed(its_seed), network(SimOptions{}, its_seed) {
  network.set_faults(faults);
  for (unsigned i = 0; i < count; ++i) {
    agents.push_back(
        std::make_unique<AgentHost>(network, static_cast<std::uint8_t>(i + 1), its_seed));
    hosts.push_back(agents.back().get());
  }
  network.set_filter([this](const SimPort& from, std::span<std::byte> frame) {
    const MacAddress source = from.address();
    const auto to_kind = std::to_integer<std::uint8_t>(frame[4]);
    const bool same_host = std::to_integer<std::uint8_t>(frame[5]) == source[5];
    const bool to_nic = to_kind == 0, from_nic = source[4] == 0;
    bool stray = same_host && to_nic != from_nic && (std::to_integer<int>(frame[0]) & 1) == 0;
    stray |= std::memcmp(frame.data() + 6, source.data(), 6) != 0;
    const auto type = static_cast<wire::Type>(frame[15]);
    if (type == wire::Type::kConnectRequest || type == wire::Type::kConnectAccept) {
      const MacAddress nic = address_of(0, source[5]);
      stray |= std::memcmp(frame.data() + wire::kConnectHostOffset, nic.data(), 6) != 0;
    }
    strays += stray;
    return !stray;
  });
}

World::~World() {
  programs.clear();
  granted.clear();
}

Program& World::open(unsigned where, bool own_stack) {
  Host* host = agents[where].get();
  if (own_stack) {
    const auto child = static_cast<std::uint8_t>(granted.size());
    granted.push_back(std::make_unique<GrantedHost>(*agents[where], child, seed));
    host = granted.back().get();
    hosts.push_back(host);
  }
  programs.push_back(std::make_unique<Program>(*host));
  return *programs.back();
}

GrantedHost* World::granted_of(Program& program) {
  for (const auto& host : granted) {
    if (std::find(host->programs.begin(), host->programs.end(), &program) !=
        host->programs.end()) {
      return host.get();
    }
  }
  return nullptr;
}

void World::kill(Program& program) {
  GrantedHost* const host = granted_of(program);
  host->die();
  std::erase(hosts, host);
  wait(kMillisecond);
  network.kill(host->port);
}

void World::stop(Program& program) { std::erase(hosts, granted_of(program)); }

void World::resume(Program& program) { hosts.push_back(granted_of(program)); }

void World::wait(std::uint64_t ns) {
  const std::uint64_t until = network.now() + ns;
  run(network, hosts, {}, [] { return false; }, until);
  network.advance_to(until);
}

layout::CommandBody World::finish(Program& program, const layout::CommandBody& body,
                                  std::uint64_t limit) {
  std::optional<layout::CommandBody> answer;
  program.command(body, [&](const layout::CommandBody& b) { answer = b; });
  run(network, hosts, {}, [&] { return answer.has_value(); }, network.now() + limit);
  EXPECT_TRUE(answer.has_value()) << "the command never finished, seed " << seed;
  return answer.value_or(layout::CommandBody{});
}

void World::expect_clean_end() {
  programs.clear();
  wait(10 * kSecond);
  for (const auto& host : granted) {
    if (host->dead) continue;
    EXPECT_EQ(host->listeners_published(), 0u) << "seed " << seed;
    expect_nothing_left(*host);
    EXPECT_EQ(host->control_view.listeners().holding.load(), 0u) << "seed " << seed;
    std::erase(hosts, host.get());
  }
  granted.clear();
  wait(kSecond);
  for (const auto& agent : agents) expect_nothing_left(*agent);
  EXPECT_EQ(strays, 0u) << "seed " << seed;
}

}  // namespace viaduct::sim
