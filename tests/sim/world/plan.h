// A run, as the seed has it: hosts, programs, network, and what goes wrong when.
#ifndef VIADUCT_TESTS_SIM_WORLD_PLAN_H
#define VIADUCT_TESTS_SIM_WORLD_PLAN_H

#include <cstdint>
#include <string>
#include <vector>

#include "kagent/contract/stack_limits.h"
#include "tests/sim/sim_port.h"
#include "tests/sim/world/less.h"

namespace viaduct::sim {

inline constexpr std::uint64_t kUs = 1'000;
inline constexpr std::uint64_t kMsec = 1'000'000;
inline constexpr std::uint64_t kSec = 1'000'000'000;

struct Random : SimRandom {
  using SimRandom::SimRandom;
  bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1p-53 < p; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + below(high - low + 1);
  }
  // Every order of magnitude is as likely as every other one.
  std::uint64_t magnitude(std::uint64_t low, std::uint64_t high);
};

enum class Workload { kStream, kExchange, kRdma, kStorm, kManyToOne, kLanes, kMixed, kLibrary, kCount };
const char* name_of(Workload workload);

enum class Trouble : std::uint8_t {
  kFaults,  // of the network, for a while
  kBurst,   // everything is lost for a moment
  kCut,     // one way
  kPart,    // both ways
  kPauseHost,
  kPauseProgram,
  kKillProgram,
  kKillAgent,
  kReplay,  // frames of earlier times arrive again
  kForge,   // frames that no host has sent
  kTrains,  // faults of trains, for a while: perhaps none arrives
};

struct Event {
  std::uint64_t at;
  Trouble trouble;
  std::uint32_t a = 0, b = 0;  // hosts or a program
  std::uint64_t duration = 0;
  SimFaults faults{};
};

struct Plan {
  Plan(std::uint64_t seed, Workload workload, const Less& less);

  std::uint64_t seed;
  Workload workload;
  Less less;
  unsigned hosts = 2;
  std::vector<std::uint32_t> mtus;  // by host
  SimOptions network;  // its faults are those of quiet times
  StackLimits limits;
  std::vector<Event> events;   // by time; times are from the beginning
  std::uint64_t span = 0;      // the troubles are over then
  std::uint64_t patience = 0;  // ... and after that much more everything must be done
  double granted = 0;          // of the programs
  double crime = 0;            // of the messages
  bool forges = false;         // frames are forged or replayed: stacks will count them
  bool corrupts = false;
  bool calm = true;  // no connection may be lost
  bool steady = true;     // the same but for agents that die: no connection between granted programs may be lost
  bool adopts = false;    // new agents adopt the granted programs of dead ones
  bool rings = false;     // granted programs of one host get rings
  bool one_host = false;  // all programs are on the first host

  std::string text() const;

 private:
  void draw_events(Random& random, bool checksum);
  void draw_event(Random& random, Event& event, bool checksum, bool alone);
  void draw_paths(bool checksum);
  void draw_outages(Random& random);
  void leave_out();
};

}  // namespace viaduct::sim

#endif
