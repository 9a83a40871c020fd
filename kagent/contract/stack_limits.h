// How many objects a stack has room for. For a program's own stack both the agent and the program must know it.
#ifndef VIADUCT_KAGENT_CONTRACT_STACK_LIMITS_H
#define VIADUCT_KAGENT_CONTRACT_STACK_LIMITS_H

#include <cstdint>

namespace viaduct {

// Capacities of a stack; the agent takes them from its configuration.
struct StackLimits {
  std::uint32_t sessions = 64;
  std::uint32_t members = 1024;    // processes attached to sessions, besides the first of each
  std::uint32_t vis = 12288;
  std::uint32_t cqs = 1024;
  std::uint32_t regions = 131072;
  std::uint32_t ptags = 4096;
  std::uint32_t peers = 1024;      // other stacks that VIs are connected to
  std::uint32_t requests = 2048;   // connection requests that have arrived, and their remains
  std::uint32_t goodbyes = 16384;  // disconnects that wait for the peer's answer
  std::uint32_t held = 2048;       // frames kept for the sake of order (also bound by the port)
  std::uint32_t slots = 65536;     // work requests of one session that are posted at once
  std::uint32_t claims = 256;      // of one session; 0: a program's own stack, which has none
  std::uint64_t session_bytes = 1ull << 40;  // registered by one session
  std::uint32_t max_transfer = 1u << 20;     // bytes of a message
  std::uint32_t cq_entries = 65536;          // the most that a program may ask for
  std::uint64_t keepalive_ns = 500'000'000;    // silence after which a peer is probed
  std::uint64_t peer_timeout_ns = 3'000'000'000;  // silence after which it is given up ...
  std::uint64_t stopped_peer_ns = 3'600'000'000'000;  // ... if its host says that it is stopped
  bool checksum = true;                      // ask for a checksum on data
  bool train_checksum = false;               // also on data that goes by train
};

}  // namespace viaduct

#endif
