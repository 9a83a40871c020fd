// The history of a stack: two rings that keep the newest events, one of connections, one of commands.
#ifndef VIADUCT_KAGENT_STACK_HISTORY_STATE_H
#define VIADUCT_KAGENT_STACK_HISTORY_STATE_H

#include <cstdint>

#include "kagent/stack/state.h"

namespace viaduct::state {

enum class Happened : std::uint16_t {
  kNothing,
  kConnected,
  kDisconnected,      // by the program
  kPeerDisconnected,
  kConnectionLost,
  kLoss,              // frames were found to be lost
  kTimeout,           // the retransmission timer ran out, not for the first time in a row
  kCommand,           // a command has finished
};

struct Event {
  std::uint64_t time;
  std::uint32_t session, program;
  std::uint32_t vi;          // kNone: none
  Happened what;
  std::uint16_t op;          // kCommand: layout::Op
  std::uint32_t code;        // kConnected: level, kConnectionLost: vip::ErrorCode, kCommand: vip::Return
  std::uint32_t count;       // kLoss: frames, kTimeout: how many in a row
  std::uint64_t waited;      // kCommand: ns that it took
  MacAddress peer;           // not of kCommand
  std::uint8_t reserved[2];
};
static_assert(sizeof(Event) == 48);

inline constexpr std::uint32_t kEventsKept = 256;

struct EventRing {
  std::uint64_t count;       // so far: number n is at n % kEventsKept
  Event events[kEventsKept];
};

struct History {
  EventRing connections, commands;
  std::uint64_t next_loss;   // when losses may be told again ...
  std::uint32_t losses_held_back;  // ... and the frames that were lost meanwhile
  std::uint32_t reserved;
};

}  // namespace viaduct::state

#endif
