// Peers, and connections that begin or end.
#ifndef VIADUCT_KAGENT_STACK_CONNECTION_STATE_H
#define VIADUCT_KAGENT_STACK_CONNECTION_STATE_H

#include <cstdint>

#include "kagent/contract/session_layout.h"
#include "kagent/contract/wire.h"
#include "kagent/stack/state.h"
#include "xdp/train/train_address.h"

namespace viaduct::state {

// The way to a peer by train, see trains.h.
enum class Train : std::uint8_t { kUnknown, kTold, kTrying, kUsed, kDoubted };

struct Peer {
  MacAddress address;
  std::uint8_t in_use;
  std::uint32_t probe_next;  // the VI whose turn it is; kNone: the head's
  std::uint32_t vis;         // head of its VIs
  std::uint32_t count;
  std::uint32_t hash_next;
  std::uint32_t next_free;
  std::uint64_t last_heard;
  std::uint64_t due;         // when its timer should fire
  std::uint64_t vouched;     // when its host last said that the program is stopped; 0: never
  std::uint64_t silent_at;   // when it was last found to be silent; 0: never
  MacAddress host;           // whose agent vouches for the peer; the peer's own address: it is an agent itself
  Train train;
  std::uint8_t train_attempts;
  std::uint32_t train_token;   // of the attempt under way
  TrainAddress train_at;
  std::uint64_t train_due;     // kUsed: since when; else no train is asked for before
};

// A stack that a connection request was sent to.
enum class Answer : std::uint8_t {
  kNone,
  kHeld,   // it keeps the request, no program waits
  kTaken,  // a program there has it
};

struct Asked {
  MacAddress address;
  Answer answer;
  std::uint8_t unanswered;  // requests sent since it last said something
  std::uint8_t may_keep;    // it may have kept the request
  std::uint64_t cookie = 0; // that the next request must show
};

inline constexpr std::uint32_t kMaxAsked = 4;

// A VI's own attempt to connect; touched only while it lasts.
struct Attempt {
  layout::Address local, remote;
  layout::ViAttributes peer;  // peer to peer: of the other side, once known
  std::uint32_t asked_count;
  std::uint32_t moves;        // times that CONNECT_MOVED sent us elsewhere ...
  std::uint32_t moves_now;    // ... since the request was last repeated
  Asked asked[kMaxAsked];     // the host that the program named, then where it sent us
};

// A connection request that has arrived.
enum class RequestState : std::uint8_t {
  kFree,
  kHeld,       // no program waits for it yet
  kMatched,    // a ConnectWait has returned it
  kAccepting,  // bound to a VI; ACCEPT sent, CONFIRM awaited
  kDone,       // over; kept a while so that a late duplicate is known
};

struct Request {
  RequestState state;
  MacAddress source;
  std::uint8_t proven;       // its sender has shown that it hears us
  wire::ConnectBody body;
  std::uint32_t generation;
  std::uint32_t session;     // that it was given to ...
  std::uint32_t program;     // ... and the program there
  std::uint32_t vi;          // kAccepting
  std::uint32_t bucket_next;
  std::uint32_t next_free;
  std::uint32_t older, newer;  // in its list
  std::uint64_t last_seen;

  // The handle by which programs know it.
  std::uint32_t handle(std::uint32_t index) const { return generation << kHandleBits | (index + 1); }
};

// Requests by last change.
struct RequestList {
  std::uint32_t oldest, newest;
};

// A connection that we have ended and whose peer has not said so yet.
struct Goodbye {
  MacAddress address;
  std::uint8_t in_use;
  std::uint8_t attempts;
  std::uint32_t vi;
  std::uint8_t local;        // it follows data on the local path
  std::uint64_t key;         // of the peer
  std::uint32_t psn, ack;
  std::uint32_t reason;      // 0, or wire::Refusal of the message at psn
  std::uint32_t index;       // of the message in its frame
  std::uint32_t bucket_next;
  std::uint32_t next_free;
};

}  // namespace viaduct::state

#endif
