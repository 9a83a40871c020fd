// Rings between granted programs of one host, as their agent hands them out: a pair when two are about to have a
// connection, each end at a time of its own; and word to one that the other has ended.
#ifndef VIADUCT_TESTS_SIM_WORLD_RINGS_H
#define VIADUCT_TESTS_SIM_WORLD_RINGS_H

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "xdp/descriptor.h"
#include "xdp/port.h"

namespace viaduct::sim {

class Simulation;

// The agent's word to a program.
struct RingMessage {
  MacAddress peer{};
  std::uint64_t program = 0;  // the peer's
  Descriptor file;            // none: the peer has ended
  unsigned end = 0;
};

class Rings {
 public:
  explicit Rings(Simulation& world) : world_(world) {}

  // Hands out what is due. True if there was anything.
  bool step();
  std::uint64_t next() const;

  // A port's program has ended, or begins: later pairs with that address are others.
  void ended(unsigned host, const MacAddress& port);
  // A dead agent has said its last, and the next one knows no pair.
  void agent_died(unsigned host);

  std::uint64_t handed_out() const { return handed_out_; }

 private:
  struct Due {
    std::uint64_t at;
    unsigned host;
    MacAddress to;
    std::uint64_t to_program;
    RingMessage message;
  };
  void make(unsigned host, const MacAddress& one, const MacAddress& other);
  void send(unsigned host, const MacAddress& to, RingMessage message);

  Simulation& world_;
  std::vector<Due> due_;
  std::map<MacAddress, std::uint64_t> programs_;  // numbers of those that were introduced
  std::set<std::pair<MacAddress, MacAddress>> pairs_;
  std::set<MacAddress> before_;  // programs of pairs that an earlier agent has made
  std::uint64_t numbers_ = 0, handed_out_ = 0;
};

}  // namespace viaduct::sim

#endif
