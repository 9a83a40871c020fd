// Queries of an operator's tool (viactl) to the agent over the control socket (control.h), and the answers.
//
//   viactl                                     agent
//   ------                                     -----
//   Query, one packet        ----------------> judged: whose sessions it may see
//                            <---------------- Answer, then `count` records of `record_bytes` each,
//                                              one packet; the connection is closed
//   Query again, from = next ----------------> ... until next is 0
//
// A page costs the agent a bounded time, whatever there is: at most kVisLooked VIs are looked at for it.
// A user other than root has a budget; when it is spent, queries are answered kNotDone, to be repeated later.
//
// Users see sessions and VIs of processes that run as the same user; root, and the
// user that the agent runs as, see all. Records of granted stacks say what these stacks say of themselves.
//
// All words are in host order. Records only grow at their ends: the reader takes what it knows of.
#ifndef VIADUCT_KAGENT_CONTRACT_REPORT_H
#define VIADUCT_KAGENT_CONTRACT_REPORT_H

#include <cstdint>

#include "kagent/contract/control.h"

namespace viaduct::report {

// MessageHead::kind of queries and answers: not one of control::Kind, which are those of programs.
inline constexpr std::uint16_t kKind = 32;

enum class What : std::uint32_t {
  kStatus = 1,    // -> Status
  kNics = 2,      // -> Nic
  kSessions = 3,  // from: a session's id -> Session
  kVis = 4,       // from: a VI's number; of a granted session, or of the hosted ones of a NIC -> Vi
  kLogLevel = 5,  // from: LogLevel; root and the agent's user only -> nothing
  kEvents = 6,    // from: a number, or kFromNow -> Event; `next` is where to go on, also when there are none
  kTrace = 7,     // session, from: as kEvents -> Event, the commands of that session; next is 0: there is none
  kDrain = 8,     // from: 1: begin, 0: go on as before; root and the agent's user only -> nothing
  kLocalPairs = 9,  // from: a pair's number; root and the agent's user only -> LocalPair, each with a descriptor:
                    // the file of rings (xdp/local/local_ring.h); `next` is where to go on, also when there are none
};

inline constexpr std::uint64_t kFromNow = ~0ull;

enum class LogLevel : std::uint32_t { kTrace, kDebug, kInfo, kWarn, kError, kOff, kLast = kOff };

struct Query {
  control::MessageHead head;
  std::uint32_t what;     // a What
  std::uint32_t nic;      // kVis: number of the NIC
  std::uint64_t session;  // kVis: a granted session's id; 0: the hosted ones
  std::uint64_t from;     // where to begin: 0, or `next` of the last answer
};
static_assert(sizeof(Query) == 40);

struct Answer {
  control::MessageHead head;  // result: VIP_SUCCESS, or kNotDone: ask again in a while
  std::uint32_t count;
  std::uint32_t record_bytes;
  std::uint64_t next;         // 0: there are no more
};
static_assert(sizeof(Answer) == 32);

inline constexpr std::uint32_t kVisLooked = 512;       // for a page
inline constexpr std::uint32_t kVisOfPage = 192;       // at most
inline constexpr std::uint32_t kSessionsOfPage = 128;
inline constexpr std::uint32_t kEventsOfPage = 128;
inline constexpr std::uint32_t kPairsOfPage = control::kMostDescriptors;
inline constexpr std::uint32_t kMostRecords = 256;
inline constexpr std::uint32_t kMaxAnswerBytes = 32768;

struct Status {
  char version[32];
  char host[256];             // the name that the agent answers to
  std::uint32_t process;
  std::uint32_t user;
  std::uint64_t up_ns;
  std::uint32_t log_level;    // a LogLevel
  std::uint32_t placement;    // control::Placement, of programs that have no wish
  std::uint32_t nics;
  std::uint32_t sessions;     // of all users
  std::uint32_t sees_all;     // 1: the asker sees all users' sessions
  std::uint32_t layout_version;
  std::uint64_t rounds, busy_rounds, sleeps, longest_round_ns;  // of the agent's loop
  std::uint32_t draining;     // 1: the agent takes no new programs, and ends with the last
  std::uint32_t reserved;
};
static_assert(sizeof(Status) == 368);

struct Nic {
  char interface[64];
  char mode[32];              // "" while the interface is away
  char why_not_granted[160];  // "" if programs can have ports of their own; while it is not up: why
  std::uint8_t address[6];
  std::uint8_t up;
  std::uint8_t grants;        // 1: programs can have ports of their own
  std::uint32_t mtu;
  std::uint32_t ether_type;
  std::uint32_t sessions, sessions_limit, attached, vis, vis_limit, connected, cqs, regions, peers, requests,
      goodbyes, held_frames, granted_ports;
  std::uint32_t is_loopback;  // 1: no interface, programs of this host meet there
};
static_assert(sizeof(Nic) == 328);

struct Session {
  std::uint64_t id;
  std::uint32_t process, user, group;
  std::uint32_t nic;          // its number
  std::uint32_t placement;    // control::Placement, kHosted or kGranted
  std::uint32_t attached;     // processes besides the first
  std::uint64_t age_ns;
  std::uint64_t segment_bytes;     // that are in use of the shared segment
  std::uint64_t registered_bytes;
  std::uint32_t vis, cqs, regions;
  std::uint8_t port[6];       // of a granted one
  std::uint8_t counted;       // 1: the stack is the session's own, and what follows is filled in
  std::uint8_t reserved;
  std::uint32_t connected, reserved2;
  std::uint64_t messages_sent, messages_received, bytes_sent, bytes_received, data_frames_sent, retransmissions,
      retransmission_timeouts, connections_lost;
};
static_assert(sizeof(Session) == 152);

struct Vi {
  std::uint64_t session;
  std::uint32_t vi;
  std::uint32_t generation;
  std::uint32_t process;      // the process that uses the VI
  std::uint16_t reliability;  // a VIP_SERVICE_* bit
  std::uint8_t state;         // vip::State
  std::uint8_t losses;        // seen of late: 0: none, 1: of the link, 2: of a queue
  std::uint8_t peer[6];       // address of the stack at the other end
  std::uint8_t peer_host[6];  // address of the host that this stack is on
  std::uint32_t peer_vi;
  std::uint32_t payload;      // bytes of a full frame
  std::uint32_t max_transfer;
  std::uint32_t next_psn, awaited_psn;  // frames, both ways, modulo 2^32
  std::uint32_t in_flight;    // frames
  std::uint16_t window, peer_window;    // frames
  std::uint16_t resends;      // so far, modulo 2^16
  std::uint16_t connection;   // another number: the VI has probably been connected anew
  std::uint32_t held_frames;  // received behind a gap
  std::uint32_t timeouts;     // of the retransmission timer, in a row
  std::uint64_t rtt_ns, rtt_variation_ns, least_rtt_ns;  // 0: not measured
  std::uint64_t heard_ns;     // since the peer was last heard; ~0: it is not known
  std::uint64_t sent_ns;      // since a frame was last sent for the first time; ~0: never
  std::uint8_t path;          // of frames to the peer: 0: network, 1: this host, 2: this host, by memory
  std::uint8_t reserved[7];
};
static_assert(sizeof(Vi) == 128);

// Two granted programs of this host that have rings in memory.
struct LocalPair {
  std::uint64_t number;       // later pairs have higher numbers, those of later agents too
  std::uint32_t nic;          // its number
  std::uint8_t ends[2][6];    // addresses of their ports; the first one is end 0 of the rings
};
static_assert(sizeof(LocalPair) == 24);

// Events, in the order in which the agent learned of them.
enum class Happened : std::uint32_t {
  kMissed = 0,          // `value` events are not kept any more; without sees_all also those of others count
  kSessionOpened = 1,   // text: the placement; peer: the port of a granted one
  kSessionClosed = 2,   // text: why
  kProcessAttached = 3,
  kProcessLeft = 4,
  kRefused = 5,         // code: a VIP_RETURN, text: why
  kNotGranted = 6,      // text: why a program that may have a port of its own is hosted
  kConnected = 7,       // code: a VIP_SERVICE_* bit
  kDisconnected = 8,
  kPeerDisconnected = 9,
  kConnectionLost = 10, // code: a VIP_ERROR_*
  kLoss = 11,           // value: frames that were lost since losses were last told of, of the session's stack
  kTimeout = 12,        // value: how often the retransmission timer has run out in a row
  kInterfaceUp = 13,    // text: its name
  kInterfaceDown = 14,
  kCommand = 15,        // kTrace: code: a VIP_RETURN, value: ns until it had finished, op: layout::Op
};

inline constexpr std::uint32_t kNoVi = 0xffffffff;

struct Event {
  std::uint64_t number;       // grows by 1
  std::uint64_t time_ns;      // since the Epoch
  std::uint64_t session;      // 0: none
  std::uint64_t value;
  std::uint32_t what;         // Happened
  std::uint32_t process, user;
  std::uint32_t nic;          // its number
  std::uint32_t vi;           // kNoVi: none
  std::uint32_t code;
  std::uint32_t op;
  std::uint8_t peer[6];
  std::uint8_t reserved[6];
  char text[104];             // ends with 0
};
static_assert(sizeof(Event) == 176);

static_assert(sizeof(Answer) + kEventsOfPage * sizeof(Event) <= kMaxAnswerBytes);
static_assert(sizeof(Answer) + kVisOfPage * sizeof(Vi) <= kMaxAnswerBytes);
static_assert(sizeof(Answer) + kSessionsOfPage * sizeof(Session) <= kMaxAnswerBytes);

}  // namespace viaduct::report

#endif
