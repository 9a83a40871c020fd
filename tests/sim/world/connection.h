// The oracle's knowledge of a connection: more than either of its ends.
#ifndef VIADUCT_TESTS_SIM_WORLD_CONNECTION_H
#define VIADUCT_TESTS_SIM_WORLD_CONNECTION_H

#include <cstdint>

namespace viaduct::sim {

// Side 0 has asked for it, side 1 has accepted it.
struct Connection {
  std::uint32_t number;
  std::uint16_t level;
  std::uint64_t streams[2];        // of the messages that each side sends
  bool one_sided = false;          // peer to peer: the other side has a number of its own for it
  bool spoilt = false;             // a program has made an error that ends it by VIA's rules
  bool ended = false;              // ... or has ended it, or has died
  std::uint64_t sent[2] = {};      // by each side: sends that have completed well
  std::uint64_t received[2] = {};  // by each side: receives that have completed well
  bool stood[2] = {};              // the side was connected
  bool gone[2] = {};               // the side's program has died: its counts stop
  bool drained[2] = {};            // everything has come back to the side after the end
};

}  // namespace viaduct::sim

#endif
