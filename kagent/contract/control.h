// The control protocol: what a program and the agent say over the Unix socket.
//
// The socket is SOCK_SEQPACKET; each message is one packet, in host byte order, and starts with
// MessageHead. A program sends one request and reads one answer; after a successful hello the
// socket carries nothing more: it stands for the session. When either end closes it (or dies) the
// session is over.
//
// A granted program outlives its agent: if its socket ends and the segment does not say `closed`, it
// goes on, connects to the next agent and says `adopt` instead of hello. It gets a new session with
// that agent's stack (a control session) for the port that it has.
//
// A process that was forked from one that has a session may attach to it: it connects by itself and
// names the family's secret. Its connection then stands for its part in the session, which lasts until
// all of its processes have gone. If the session is granted, the stack is the first process's: the
// agent gives each of the two one end of a link, a pair of sockets on which they go on between
// themselves, and the session ends with the first process.
//
// Everything else (VIs, memory, connections) goes through the command slots of the session's
// segment, see session_layout.h.
//
// A program whose port is granted has two stacks: its own (the granted segment, see
// granted_segment.h), which does all of the work, and through the session's segment (the control
// session) the agent's, which is asked for names and told what the program waits for.
//
// The agent's default socket lies in a folder of root's, where no user can take its place; default_agent.h
// says how a program that was told of none finds its agent. An abstract name is private to a network namespace
// and has no owner, so each end looks at the other's credentials (SO_PEERCRED): the agent to decide which
// programs may have a session, the program to refuse an agent that is neither root's nor its own user's.
#ifndef VIADUCT_KAGENT_CONTRACT_CONTROL_H
#define VIADUCT_KAGENT_CONTRACT_CONTROL_H

#include <cstdint>

#include "kagent/contract/session_layout.h"
#include "xdp/grant/granted_layout.h"
#include "xdp/train/train_address.h"

namespace viaduct::control {

inline constexpr std::uint32_t kMagic = 0x56696164;  // "Viad"
inline constexpr std::uint16_t kVersion = 8;
inline constexpr char kDefaultSocket[] = "/run/viaduct/socket";
inline constexpr char kAbstractSocket[] = "@viaduct";    // '@': abstract
inline constexpr char kSocketVariable[] = "VIADUCT_SOCKET";
inline constexpr char kPlacementVariable[] = "VIADUCT_PLACEMENT";  // auto, hosted, granted
inline constexpr std::size_t kMaxMessageBytes = 512;

enum class Kind : std::uint16_t {
  // Hello -> HelloAnswer, with descriptors in this order: segment (memfd), agent wake (eventfd); for a
  // granted port its AF_XDP socket, its UMEM (memfd) and the granted segment (memfd), and a UDP socket
  // if the answer's trains.port is not 0, with what guards its port if the hello has a proof; poll wake
  kHello = 1,
  kCounters = 2,  // MessageHead alone -> MessageHead, with a memfd that holds the counters' text
  kAdopt = 3,     // Adopt -> HelloAnswer, with segment, agent wake, poll wake
  kNetwork = 9,   // MessageHead alone -> Network
  kNic = 10,      // AskNic -> NicAnswer, or as a refused Hello
  kAttach = 4,    // Attach -> HelloAnswer, with segment, agent wake, poll wake; for a granted session segment,
                  // agent wake, granted segment, link, poll wake
  // To the first process of a granted session, on its socket:
  kNewcomer = 5,  // MessageHead alone, with the other end of the link
  // To a granted program, on its socket: a pair of rings for it and another one of this host, see
  // xdp/local/local_ring.h. LocalPeer, with the rings' file (memfd).
  kLocalPeer = 7,
  kLocalEnd = 8,  // LocalPeer alone: that program has ended
  // On the link:
  kJoin = 6,      // Join, with the newcomer's memory (/proc/self/mem) -> Joined, with the event
                  // descriptors that wake the stack's driver (two) and the newcomer's poll wake
};

// The poll wake is one end of a pair of sockets (SOCK_SEQPACKET); a message on it, whatever it says,
// means that a word had kPoller set. A pair of sockets because that is what a program can't make
// block at the agent's end: the program has neither its flags nor a lock that the agent would wait for.
inline constexpr unsigned kHostedDescriptors = 3;
inline constexpr unsigned kGrantedDescriptors = 6;  // and one or two with trains
inline constexpr unsigned kMostDescriptors = kGrantedDescriptors + 2;
inline constexpr unsigned kAttachedDescriptors = 5;  // to a granted session
inline constexpr unsigned kJoinedDescriptors = 3;

// Where the stack runs that serves a program.
enum class Placement : std::uint32_t {
  kAny = 0,      // asked for: as the agent's configuration says
  kHosted = 1,   // in the agent
  kGranted = 2,  // in the program, over a port of its own; asked for: this or nothing
};

struct MessageHead {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t kind = 0;     // Kind
  std::uint32_t bytes = 0;    // of the whole message
  std::uint32_t result = 0;   // answers: VIP_RETURN
};

// A secret that only the processes of a family know.
struct FamilySecret {
  std::uint8_t bytes[16];
};

// A proof of the program that asks (program_proof.h); zero: it gives none. A request may end before it, as those of
// earlier libraries do.
struct Proof {
  std::uint64_t words[2];
  bool is_given() const { return (words[0] | words[1]) != 0; }
};

struct Hello {
  MessageHead head;
  char device[64];            // the name given to VipOpenNic, NUL-terminated
  std::uint32_t layout_version = layout::kLayoutVersion;
  std::uint32_t placement = 0;  // Placement
  Proof proof{};
};

// Its granted segment and its UMEM go with a port and with nothing else: a program that has them open has
// had the port from an agent. The agent looks for them itself among the program's descriptors (it accepts
// none: to close a descriptor that a program sends can take for ever).
struct Adopt {
  MessageHead head;
  char device[64];            // NUL-terminated
  std::uint32_t layout_version = layout::kLayoutVersion;
  std::uint8_t port[layout::kHostBytes];  // the port's address
  std::uint16_t reserved = 0;
  std::int32_t granted_segment, umem;    // numbers of the program's descriptors
  FamilySecret family;        // stays what it was
  std::uint32_t padding = 0;
  Proof proof{};
};

struct Attach {
  MessageHead head;
  std::uint32_t layout_version = layout::kLayoutVersion;
  FamilySecret family;
  std::uint32_t parent;       // program_id of the process that this one was forked from ...
  std::uint32_t forks;        // ... when layout::Header::forks had become this
  std::uint32_t padding = 0;
  Proof proof{};
};

// Which network namespace the agent serves.
struct Network {
  MessageHead head;
  std::uint64_t cookie;       // SO_NETNS_COOKIE; 0: the kernel tells none
};

struct Join {
  MessageHead head;
  std::uint32_t parent, forks;  // as in Attach, but of the granted stack
};

struct LocalPeer {
  MessageHead head;
  std::uint8_t address[layout::kHostBytes];  // of the other one's port
  std::uint16_t end;          // which end of the rings this program has, 0 or 1
  std::uint64_t program;      // differs from that of a program that had the address before
};

struct Joined {
  MessageHead head;           // head.result
  std::uint32_t member;
  std::uint32_t program_id;
};

// The attributes that VipQueryNic returns.
struct NicAttributes {
  char name[64];              // interface
  std::uint8_t address[layout::kHostBytes];
  std::uint16_t reserved;
  std::uint32_t hardware_version;
  std::uint32_t provider_version;
  std::uint32_t max_discriminator;
  std::uint32_t max_regions;
  std::uint64_t max_bytes;        // registered, all regions together
  std::uint64_t max_block_bytes;  // registered, one region
  std::uint32_t max_vis;
  std::uint32_t max_descriptors;
  std::uint32_t max_segments;
  std::uint32_t max_cqs;
  std::uint32_t max_cq_entries;
  std::uint32_t max_transfer;
  std::uint32_t native_mtu;
  std::uint32_t max_ptags;
  std::uint16_t reliability_support;  // VIP_SERVICE_* bits
  std::uint16_t rdma_read_support;
  std::uint32_t reserved2;
};

// The NIC of this name, for a program that does not open it.
struct AskNic {
  MessageHead head;
  char device[64];            // as in Hello
};

struct NicAnswer {
  MessageHead head;           // head.result: VIP_SUCCESS
  NicAttributes nic;
};

struct HelloAnswer {
  MessageHead head;           // head.result: VIP_SUCCESS, or why not, then `reason` in words
  char reason[128];
  layout::Capacity capacity;
  std::uint64_t segment_bytes;
  std::uint32_t busy_poll_us; // how long a waiting program should spin before it sleeps
  std::uint32_t reattach_ms;    // how long a granted program should look for another agent
  NicAttributes nic;          // what the program may use: of its own stack where it is granted
  std::uint32_t placement;    // Placement, kHosted or kGranted
  std::uint8_t host[layout::kHostBytes];  // LocalNicAddress in both placements
  std::uint8_t control_session[layout::kHostBytes];  // by which a granted port reaches this host itself
  FamilySecret family;
  std::uint32_t member;       // number in the segment's family
  std::uint32_t program_id;   // the number by which other processes refer to it (Attach::parent)

  // kGranted only, else 0.
  GrantedLayout port;
  TrainAddress trains;        // where trains reach the port; port 0: no trains
  std::uint32_t keepalive_ms, peer_timeout_ms, stopped_peer_ms;
  std::uint32_t granted_vis, granted_cqs, granted_slots, granted_regions, granted_ptags,
      granted_peers, granted_requests, granted_goodbyes, granted_held;
  std::uint32_t checksum;     // 1: ask for a checksum on data, 2: also on what goes by train
  std::uint64_t granted_segment_bytes;
};
static_assert(sizeof(HelloAnswer) <= kMaxMessageBytes);

}  // namespace viaduct::control

#endif
