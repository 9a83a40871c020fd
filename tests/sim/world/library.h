// Programs that use the real libvipl, and the agents' work for them.
//
// All of them share one library: to it they are sessions of one process, whose threads are fibers. When a program dies
// its fibers end where they are; the library's objects of it are then closed for it, and none of that reaches its
// agent or the network any more.
#ifndef VIADUCT_TESTS_SIM_WORLD_LIBRARY_H
#define VIADUCT_TESTS_SIM_WORLD_LIBRARY_H

#include <memory>
#include <vector>

#include "vipl/granted/granted_stack.h"
#include "kagent/stack/remains.h"
#include "tests/sim/world/kernel.h"
#include "tests/sim/world/memory.h"
#include "tests/sim/world/rings.h"
#include "vipl/vipl.h"

namespace viaduct::sim {

class Library;
class Simulation;
class Host;
class LibrarySide;

// A program: opens the NIC, lets all of its sides do their work in threads of their own, closes it.
class LibraryProgram {
 public:
  LibraryProgram(Library& library, unsigned number, unsigned host, bool granted);

  void born();
  // Once it has died, or closes its NIC under all its threads, calls may return anything.
  bool is_leaving() const { return closing || dead(); }
  bool dead() const { return dead_until != 0; }
  // The agent has gone away; the library may not have seen it yet.
  bool lost() const { return socket != nullptr && socket->hung_up; }
  void spawn(const char* name, std::function<void()> work);

  Library& library;
  const unsigned number, host;
  const bool granted;
  Random random;
  std::vector<LibrarySide*> sides;
  std::unique_ptr<Memory> memory;
  VIP_NIC_HANDLE nic = nullptr;
  std::shared_ptr<SocketFile> socket;  // of the NIC that is open
  unsigned life = 0;                   // how often it was born
  unsigned catastrophes = 0;           // as the error handler was told, of this NIC
  unsigned connections_lost = 0;
  bool listens = false;                // it has an error handler
  bool closing = false;
  bool done = false;     // has ended of itself
  bool buried = true;    // nothing is left of the life before
  unsigned running = 0;  // sides at work
  std::atomic<std::uint32_t> word{0};
  std::uint64_t paused_until = 0, dead_until = 0, unnoticed_until = 0;

 private:
  void main();
  bool has_work() const;
  bool open();
  void close();
};

class Library final : public Outside {
 public:
  explicit Library(Simulation& world);
  ~Library();

  LibraryProgram& add(unsigned host, bool granted);
  bool step();
  std::uint64_t next() const;
  bool ended() const;
  std::string text() const;
  void check_nothing_left();

  void pause(std::uint32_t which, std::uint64_t until);
  void kill(std::uint32_t which, std::uint64_t back_after, bool unnoticed);
  void kill_agent(unsigned host);
  void end_of_troubles();
  SimPort* port_of(const std::byte* address) const;
  // See Simulation.
  bool tell_of_rings(const MacAddress& port, RingMessage message);

  // See Watch.
  bool reads(Host& host, std::uint32_t session, std::span<const iovec> memory);
  bool writes(Host& host, std::uint32_t session, std::span<const iovec> memory);
  void wakes(std::atomic<std::uint32_t>& word) { kernel_.fibers.wake(&word, 1 << 30); }
  void poll_wakes(Host& host, std::uint32_t session);

  // See Outside.
  std::uint64_t now() const override;
  Random& random_of(const void* owner) override;
  bool may_run(const void* owner) override;
  bool connects(const std::shared_ptr<SocketFile>& socket) override;
  bool copies(void* to, const void* from, std::size_t bytes) override;
  double preemption() const override { return preemption_; }

  // A program is about to close its NIC in good order: it has no VI any more.
  void check_slots(const LibraryProgram& program) const;
  bool agent_is_there(unsigned host) const;

  Simulation& world;
  std::vector<std::unique_ptr<LibraryProgram>> programs;

 private:
  friend class LibraryProgram;
  // A connection between a program and the agent of its host, and the session if there is one.
  struct Talk {
    LibraryProgram* program;
    unsigned host;
    std::shared_ptr<SocketFile> socket;
    bool open = false;
    std::uint32_t session = 0;
    std::shared_ptr<MemoryFile> segment;
    std::shared_ptr<PollWakeFile> poll_wake;
    std::uint64_t unnoticed_until = 0;
    bool memory_gone = false;
    // Granted.
    std::shared_ptr<PortFile> port;
    std::shared_ptr<MemoryFile> home;
    StackLimits limits;
    bool noted = false;  // its remains
    std::vector<Remains> remains;
  };
  bool serve(Talk& talk);
  void answer(Talk& talk);
  void grant(Talk& talk, control::HelloAnswer& text, SocketFile::Answer& files);
  void end(Talk& talk);
  void note_remains(Talk& talk);
  void say_goodbye(Talk& talk);
  bool may_touch(const LibraryProgram& program, std::span<const iovec> memory, bool write) const;
  const LibraryProgram* program_with(const void* address) const;
  Talk* talk_of(Host& host, std::uint32_t session);
  void bury(LibraryProgram& program, std::vector<Fibers::Remains> threads);

  Kernel& kernel_;
  double preemption_;
  std::uint32_t spin_us_;
  std::vector<std::unique_ptr<Talk>> talks_;
};

}  // namespace viaduct::sim

#endif
