// Hosts whose programs may have stacks of their own, in the simulated network.
//
//   NIC 02:..:00:n ----+                                    +---- 02:..:10:n  stack of a program
//                      +-- stack of the agent   host n      +---- 02:..:11:n  stack of another one
//   control session 02:..:d0:n ---+
//
// As with macvlan, the NIC and its children do not reach each other: between the agent and its own
// programs everything goes over the control session.
#ifndef VIADUCT_TESTS_SIM_GRANTED_HOST_H
#define VIADUCT_TESTS_SIM_GRANTED_HOST_H

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "kagent/agent/programs/heartbeat.h"
#include "tests/sim/sim_host.h"
#include "tests/sim/sim_paths.h"

namespace viaduct::sim {

// The agent's port: the NIC, and the control session for frames to and from its own programs'
// stacks.
class RelayChild final : public Port {
 public:
  RelayChild(SimPort& nic, SimPort& control_session) : nic_(nic), control_session_(control_session) {}

  std::size_t receive(std::span<Frame> frames) override;
  void release(std::span<const Frame> frames) override;
  std::size_t reserve(std::span<Frame> frames) override { return nic_.reserve(frames); }
  void submit(std::span<const Frame> frames) override;
  void cancel(std::span<const Frame> frames) override { nic_.cancel(frames); }
  void flush() override { nic_.flush(), control_session_.flush(); }
  std::uint32_t mtu() const override { return nic_.mtu(); }
  MacAddress address() const override { return nic_.address(); }
  std::uint32_t lendable() const override { return nic_.lendable(); }
  std::uint32_t backlog() const override { return nic_.backlog(); }
  int descriptor() const override { return -1; }
  std::string mode() const override { return "sim"; }
  PortCounters counters() override { return nic_.counters(); }
  bool alive() const override { return nic_.alive(); }
  bool reaches(const MacAddress&) const override { return true; }
  BulkPath& bulk_path() override { return no_bulk_path_; }

 private:
  SimPort& nic_;
  SimPort& control_session_;
  NoBulkPath no_bulk_path_{*this};
};

class AgentHost : public Host {
 public:
  AgentHost(SimNetwork& network, std::uint8_t number, std::uint64_t seed,
            const StackLimits& limits = small_limits(), std::uint32_t mtu = 1500);

  std::optional<Connection> stopped(std::uint32_t session, std::uint32_t vi,
                                    std::uint64_t key) override;

  // As kill -9, and a new one in its place. Its granted programs must be gone, or detached.
  void crash_agent();
  void restart_agent();

  // Pairs of its granted programs that are about to have a connection, since the last call.
  std::vector<std::pair<MacAddress, MacAddress>> take_introductions() { return std::exchange(introductions_, {}); }
  void introduce(const MacAddress& one, const MacAddress& other) override { introductions_.emplace_back(one, other); }

  std::uint8_t number;
  SimPort& control_session;
  // Its granted programs' stacks, by session.
  struct Own {
    const void* segment;
    StackLimits limits;
    Heartbeat heartbeat;
  };
  std::map<std::uint32_t, Own> own;

 private:
  static std::unique_ptr<Port> paths(SimPort& nic, SimPort& control_session);
  std::vector<std::pair<MacAddress, MacAddress>> introductions_;
  AgentHost(SimNetwork& network, SimPort& nic, SimPort& control_session, std::uint64_t seed,
            const StackLimits& limits);
};

// The stack of a granted program, and what libvipl and the agent do for it.
class GrantedHost : public Host {
 public:
  GrantedHost(AgentHost& agent, std::uint8_t child, std::uint64_t seed);
  GrantedHost(AgentHost& agent, std::uint8_t child, std::uint64_t seed, const StackLimits& limits,
              std::uint32_t mtu);
  ~GrantedHost() override;

  std::uint32_t publish(const layout::Address& local, bool peer) override;
  void withdraw(std::uint32_t listener) override;

  // As kill -9 of the program: its stack says nothing more, and the agent, if there is one, says goodbye for it.
  void die();

  // Its agent is dead: its connections go on. Then a new agent has adopted it.
  void detach() { detached_ = true; }
  void adopt();
  bool is_detached() const { return detached_; }

  // False: a frame waits in a ring.
  bool prepare_to_sleep() override { return paths().prepare_to_sleep(); }
  SimPaths& paths() { return static_cast<SimPaths&>(*through()); }

  AgentHost& agent;
  bool dead = false;
  layout::View control_view;
  std::uint32_t control_session;

  std::uint32_t listeners_published() const;

 private:
  GrantedHost(AgentHost& agent, SimPort& port, std::uint64_t seed, const StackLimits& limits);
  void open_control_session();
  void ring_agent(std::uint32_t bit);

  void* control_segment_;
  std::size_t control_bytes_;
  bool detached_ = false;
};

// Any number of such hosts.
struct World {
  explicit World(std::uint64_t seed, const SimFaults& faults = {}, unsigned count = 2);
  ~World();

  // A program on host `where`, with a stack of its own or not.
  Program& open(unsigned where, bool granted);
  // The stack of that program.
  GrantedHost* granted_of(Program& program);
  void kill(Program& program);  // of a granted one
  // As SIGSTOP and SIGCONT, of a granted one: nothing drives its stack.
  void stop(Program& program);
  void resume(Program& program);

  MacAddress address(unsigned where) const { return agents[where]->port.address(); }
  void wait(std::uint64_t ns);
  // Runs a command that takes its time.
  layout::CommandBody finish(Program& program, const layout::CommandBody& body,
                             std::uint64_t limit = 100'000'000'000);
  // Lets all programs end; then nothing may be left anywhere.
  void expect_clean_end();

  std::uint64_t seed;
  SimNetwork network;
  std::vector<std::unique_ptr<AgentHost>> agents;
  std::vector<std::unique_ptr<GrantedHost>> granted;
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<Host*> hosts;
  unsigned strays = 0;  // frames between a NIC and its own children, or with another host's name
};

}  // namespace viaduct::sim

#endif
