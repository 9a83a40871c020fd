// The simulated world: hosts with agents, programs with jobs, a network, one clock, one seed.
//
// A step lets every stack and every program that is awake do what it can, then the oracle looks.
// When none has anything to do the clock goes to the next thing that happens.
#ifndef VIADUCT_TESTS_SIM_WORLD_WORLD_H
#define VIADUCT_TESTS_SIM_WORLD_WORLD_H

#include <deque>
#include <memory>
#include <vector>

#include "tests/sim/granted_host.h"
#include "tests/sim/world/client.h"
#include "tests/sim/world/connection.h"
#include "tests/sim/world/library.h"
#include "tests/sim/world/link.h"
#include "tests/sim/world/plan.h"
#include "tests/sim/world/rings.h"

namespace viaduct::sim {

// A stack and its driver: it sleeps until a frame, a doorbell or a timer wakes it.
struct Driver {
  Host* host = nullptr;
  SimPort* control_session = nullptr;  // of an agent
  std::uint64_t paused_until = 0;
  std::uint64_t down_until = 0;  // dead; restarts then
  bool dead = false, asleep = false, rang = false, kicked = true;
  std::uint64_t deadline = 0;  // while asleep
};

// A program: it dies and is born again, with another session and other memory.
class Process {
 public:
  Process(Simulation& world, unsigned number, unsigned host, bool granted, Manner manner,
          bool with_cq);

  void born();
  void killed();
  bool step();
  // A job wants to be called at this time.
  void wake_at(std::uint64_t time) { next_ = std::min(next_, time); }
  std::uint64_t next() const { return next_; }
  // A job looks at memory, whose changes wake no program: it must not sleep after this step.
  void stay_awake() { spins_ = true; }
  // It has something to do without a wake-up.
  bool is_busy() const { return restless && !spins_ && manner != Manner::kSpins; }

  Simulation& world;
  const unsigned number, host;
  const bool granted;
  const Manner manner;
  const bool with_cq;
  std::vector<Link*> links;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Client> client;
  Driver* driver = nullptr;  // of its stack
  std::uint64_t paused_until = 0, dead_until = 0;
  std::uint64_t unnoticed_until = 0;  // dead, but the agent does not know yet
  bool restless = true;               // to be looked at without a wake-up

 private:
  std::uint64_t next_ = 0;
  bool spins_ = false;
};

class Job {
 public:
  virtual ~Job() = default;
  virtual bool step(Process& process) = 0;
  virtual bool finished() const = 0;
  // The program's memory has just changed, and more of it is about to: a program on another
  // processor may look now.
  virtual void peek(Process& process) { static_cast<void>(process); }
  virtual std::string text() const = 0;
  std::vector<std::unique_ptr<Link>> links;
  bool released = false;  // it is done, and its connections need not stay
};

// How often the things happened that a world is for.
struct Tally {
  std::uint64_t by_ring = 0;  // frames
  std::uint64_t agents_died = 0, adoptions = 0, programs_died = 0;
  std::uint64_t outages = 0, stops = 0;  // partitions, pauses of hosts and programs, of a second and more

  Tally& operator+=(const Tally& other);
};

class Simulation final : public Watch {
 public:
  explicit Simulation(const Plan& plan);
  ~Simulation() override;

  // Until all jobs are done, all programs have ended and nothing is left.
  void run();

  std::uint64_t now() const { return network.now(); }
  // From the beginning until all jobs were done: without the time spent waiting for the remains.
  std::uint64_t busy_ns() const { return done_at_ - begun_; }
  std::size_t connections() const { return connections_.size(); }
  const Tally& tally() const { return tally_; }
  bool is_calm() const { return plan.calm; }
  // Whether nothing that happens in this world may end a connection between two granted programs.
  bool is_steady() const { return plan.steady && plan.adopts; }
  MacAddress address(unsigned host) const { return agents[host]->port.address(); }
  Process& add_process(unsigned host, bool with_cq_allowed = true);
  Connection& new_connection(std::uint16_t level);
  Connection* connection(std::uint32_t number);

  bool reads(Host& host, std::uint32_t session, std::span<const iovec> memory) override;
  bool writes(Host& host, std::uint32_t session, std::span<const iovec> memory) override;
  void wrote(Host& host, std::uint32_t session) override;
  void wakes(Host& host, std::atomic<std::uint32_t>& word) override;
  void poll_wakes(Host& host, std::uint32_t session) override;
  void rings(Host& host) override;

  const Plan plan;
  Random random;
  SimNetwork network;
  std::vector<std::unique_ptr<AgentHost>> agents;
  std::vector<std::unique_ptr<GrantedHost>> granted;
  std::deque<Driver> drivers;  // agents' first
  std::vector<std::unique_ptr<Process>> processes;
  std::vector<std::unique_ptr<Job>> jobs;
  std::unique_ptr<Library> library;  // the programs that use the real one; null: there are none

  // Hands the agent's word of rings to the program that has this port. False: there is none any more.
  bool tell_of_rings(const MacAddress& port, RingMessage message);
  // A granted program has ended, and its agent knows.
  void port_ended(unsigned host, const MacAddress& port) { rings_.ended(host, port); }

  // The address of one more program's port.
  MacAddress new_child(unsigned host);
  // All jobs are done: the programs close all that is open.
  bool ending() const { return ending_; }

 private:
  friend class Process;
  bool step();
  bool drive(Driver& driver);
  void trouble(const Event& event);
  void end_of_troubles();
  void kill(Process& process, std::uint64_t back_after, bool unnoticed);
  void kill_agent(unsigned host, std::uint64_t back_after);
  bool come_back();
  std::uint64_t adoption_time();
  bool adopt();
  void check();
  void check_counters();
  void check_nothing_left();
  std::uint64_t next_time() const;
  Client* client_of(Host& host, std::uint32_t session);
  void remember(std::span<const std::byte> frame);
  void replay();
  void forge();
  void strays(const SimPort& from, std::span<std::byte> frame);

  std::uint64_t begun_, done_at_ = 0;
  std::size_t next_event_ = 0;
  struct Healing {
    std::uint64_t at;
    Event event;
  };
  std::vector<Healing> healing_;
  struct Adoption {
    std::uint64_t at;
    GrantedHost* whom;
  };
  std::vector<Adoption> adoptions_;
  Rings rings_{*this};
  Tally tally_;
  std::deque<Connection> connections_;
  std::vector<std::vector<std::byte>> remembered_;
  std::uint64_t steps_ = 0;
  unsigned children_ = 0;
  bool ending_ = false;
};

// Makes the jobs of a workload.
void make_jobs(Simulation& world);

}  // namespace viaduct::sim

#endif
