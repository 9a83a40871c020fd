// The shared segment of a session: how a program and the driver of its stack talk.
//
//   program (client)                                             driver (agent or granted stack)
//   ----------------                                             -------------------------------
//   takes a slot, writes the work request into it
//   names the slot in the VI's ring  ----- doorbell bit -------> takes the slot from the ring
//                                                                copies, validates, executes
//   finds the status in the slot     <-- status, last of all --- writes the completion into it
//   (and learns the order on a CQ)   <-- CQ entry -------------- appends to the CQ's ring
//   sleeps on a futex word           <-- wakes if it is set ----
//   calls a handler                  <-- alert, if asked for ---
//
// The segment is a memfd that the agent makes and seals against resizing. Both sides map it; all
// references are indices, so the address does not matter.
//
// TRUST. The client trusts the driver. The driver trusts nothing here: it keeps its own copy of the
// capacities, of every VI's and CQ's state and of its own positions in the rings, reads each word
// at most once per decision, checks every index where it reads it, and a client that writes
// nonsense harms only itself.
//
// FAMILIES. Processes that have been forked from the one that opened the session may attach to it: the
// family's members. They share this segment. The first is member 0; the driver gives the others their
// numbers. A VI or CQ is used by one member at a time, which its queues name (`owner`), and what is
// posted there means that member's memory. The driver keeps its own account of all that, and of
// the members; a member's forgery harms its family only. The driver frees what a dead member may have
// held (locks of its queues, commands).
//
// SLEEPING. Next to what a thread may wait for stands a word `sleepers`. A thread sets kSleeper in
// it, looks once more and sleeps on it as on a futex; the client's thread that calls handlers sets
// kCallbackThread and sleeps on Header::alert; a thread that waits for descriptors of the kernel's too
// sets kPoller and sleeps in poll(). The driver, having brought news, clears the bits, wakes the
// sleepers if kSleeper was set, and alerts if kCallbackThread was: it stores 1 in Header::alert and
// wakes the sleeper. That thread stores 0 before it looks at what it serves. If kPoller was set it
// rings the session's poll wake: of the agent's, a socket that becomes readable (control.h). The bits
// above count how often the others were cleared: else one thread that comes late and sets kSleeper
// again would hide from another one, about to sleep, that it has been woken.
//
// Where it says Header::alert, members other than the first have MemberArea::alert, and each has a
// poll wake of its own.
//
// Sizes are in bytes and all words are in host order. Lines are 64 bytes; what one side polls and
// the other writes shares a line only with what is written at the same time.
#ifndef VIADUCT_KAGENT_CONTRACT_SESSION_LAYOUT_H
#define VIADUCT_KAGENT_CONTRACT_SESSION_LAYOUT_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kagent/contract/flow.h"
#include "kagent/contract/lock_word.h"

namespace viaduct::layout {

inline constexpr std::uint64_t kMagic = 0x5649414455435431;  // "VIADUCT1"
// Changes with what is here, and with the state of a stack (kagent/stack/tables.h), which an agent reads of programs that
// have one of their own and may be older than it.
inline constexpr std::uint32_t kLayoutVersion = 11;
inline constexpr std::size_t kLine = 64;

// Fixed capacities; the rest is in Capacity.
inline constexpr std::uint32_t kRingEntries = 1024;   // descriptors per work queue (power of two)
inline constexpr std::uint32_t kCqRingEntries = 8192; // entries that a CQ shows at once (power of 2)
inline constexpr std::uint32_t kCommands = 128;       // control operations under way at once
inline constexpr std::uint32_t kMembers = 128;        // processes that are attached besides the first
inline constexpr std::uint32_t kSlotBytes = 512;
inline constexpr std::uint32_t kMaxDataSegments = 25; // in a descriptor
inline constexpr std::uint32_t kMaxSegments = 26;     // the same and an address segment
inline constexpr std::uint32_t kMaxInlineSend = 416;  // segments and data of a send in its slot
inline constexpr std::uint32_t kMaxInlineRecv = 496;  // bytes of a receive that travel in its slot
inline constexpr std::uint32_t kNoSlot = 0xffffffff;

// Bits of the words `sleepers`.
inline constexpr std::uint32_t kSleeper = 1;
inline constexpr std::uint32_t kCallbackThread = 2;
inline constexpr std::uint32_t kPoller = 4;
inline constexpr std::uint32_t kWaiting = kSleeper | kCallbackThread | kPoller;

// Locks of queues: 0: free, else 1 + the member that holds it, and kLockWanted if another thread may
// sleep for it.
inline constexpr std::uint32_t kLockWanted = 0x80000000;

// Takes the bits out of a word `sleepers`; the caller has news and then wakes the sleepers. No loop: the
// word is in a program's hands.
inline std::uint32_t take_waiting(std::atomic<std::uint32_t>& sleepers) {
  if ((sleepers.load(std::memory_order_relaxed) & kWaiting) == 0) return 0;
  const std::uint32_t who = sleepers.fetch_and(~kWaiting) & kWaiting;
  sleepers.fetch_add(kWaiting + 1);
  return who;
}

// Whether the bits of a word `sleepers` have been taken since a thread set its bit and the word was `before`.
inline bool was_taken(std::uint32_t now, std::uint32_t before) {
  return ((now ^ before) & ~kWaiting) != 0;
}

// How many objects of each kind a session has; set by the agent, told in the hello answer and in the header.
struct Capacity {
  std::uint32_t vis;
  std::uint32_t cqs;
  std::uint32_t slots;
  std::uint32_t reserved;
};

// ---------------------------------------------------------------------------- doorbells
//
// A doorbell is a bit; ringing it twice before it is answered is ringing it once. The bits stand in
// `leaf` words and a bit in `summary` for each leaf word that may have one, so an idle driver looks
// at 32 bytes and a busy one finds the VIs with work without passing over the others.
//
// Bit numbers: [0, kCommands) commands, then VIs, then CQs ("the client has made room"); the last
// one is kListenerBit ("I have published a listener and you hold requests").
//
// To ring: set the leaf bit, then the summary bit unless it is set. To answer: exchange the summary
// word with 0, then each leaf word that it named with 0, then look at what the bits stand for.
struct Doorbells {
  static constexpr std::uint32_t kBits = 16384;
  static constexpr std::uint32_t kLeaves = kBits / 64;
  static constexpr std::uint32_t kSummaries = kLeaves / 64;
  std::atomic<std::uint64_t> summary[kSummaries];
  std::atomic<std::uint64_t> leaf[kLeaves];

  void ring(std::uint32_t bit) {
    const std::uint32_t word = bit / 64;
    leaf[word].fetch_or(1ull << (bit % 64));
    const std::uint64_t mark = 1ull << (word % 64);
    if ((summary[word / 64].load() & mark) == 0) summary[word / 64].fetch_or(mark);
  }

  bool any() const {
    for (const auto& word : summary) {
      if (word.load(std::memory_order_relaxed) != 0) return true;
    }
    return false;
  }

  // Answers doorbells from bit `from` on and around, until visit(bit) returns false. Bits that are set then stay set,
  // and `from` is where to go on.
  template <class Visit>
  unsigned answer_some(std::uint32_t& from, Visit&& visit) {
    if (from != 0) [[unlikely]] return answer_around(from, visit);
    unsigned answered = 0;
    for (std::uint32_t s = 0; s < kSummaries; ++s) {
      if (summary[s].load(std::memory_order_relaxed) == 0) continue;
      std::uint64_t words = summary[s].exchange(0);
      for (; words != 0; words &= words - 1) {
        const std::uint32_t word = s * 64 + static_cast<std::uint32_t>(__builtin_ctzll(words));
        for (std::uint64_t bits = leaf[word].exchange(0); bits != 0;) {
          const std::uint32_t bit = word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(bits));
          bits &= bits - 1;
          ++answered;
          if (visit(bit)) [[likely]] continue;
          put_back(s, words, bits);
          from = (bit + 1) % kBits;
          return answered;
        }
      }
    }
    return answered;
  }

  // Calls visit(bit) for each bit that was set, clearing it before the call.
  template <class Visit>
  unsigned answer(Visit&& visit) {
    unsigned answered = 0;
    for (std::uint32_t s = 0; s < kSummaries; ++s) {
      if (summary[s].load(std::memory_order_relaxed) == 0) continue;
      std::uint64_t words = summary[s].exchange(0);
      for (; words != 0; words &= words - 1) {
        const std::uint32_t word = s * 64 + static_cast<std::uint32_t>(__builtin_ctzll(words));
        std::uint64_t bits = leaf[word].exchange(0);
        for (; bits != 0; bits &= bits - 1, ++answered) {
          visit(word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(bits)));
        }
      }
    }
    return answered;
  }

 private:
  // Of the 64 bits from number `first` on, those in [begin, end).
  static std::uint64_t range(std::uint32_t first, std::uint32_t begin, std::uint32_t end) {
    const std::uint64_t low = begin > first ? ~0ull << (begin - first) : ~0ull;
    const std::uint64_t high = end - first < 64 ? (1ull << (end - first)) - 1 : ~0ull;
    return low & high;
  }

  // Rings again the rest of the summary's words, and the rest of the bits of the first of them.
  void put_back(std::uint32_t s, std::uint64_t words, std::uint64_t bits) {
    if (bits != 0) {
      leaf[s * 64 + static_cast<std::uint32_t>(__builtin_ctzll(words))].fetch_or(bits);
    } else {
      words &= words - 1;
    }
    if (words != 0) summary[s].fetch_or(words);
  }

  template <class Visit>
  [[gnu::noinline]] unsigned answer_around(std::uint32_t& from, Visit& visit) {
    const std::uint32_t begin = from;
    unsigned answered = 0;
    if (answer_range(begin, kBits, from, visit, answered) &&
        answer_range(0, begin, from, visit, answered)) {
      from = 0;
    }
    return answered;
  }

  // Answers bits [begin, end). Returns false, with `from` behind the last bit, when visit() wants no more.
  template <class Visit>
  bool answer_range(std::uint32_t begin, std::uint32_t end, std::uint32_t& from, Visit& visit,
                    unsigned& answered) {
    const std::uint32_t first_leaf = begin / 64, last_leaf = (end + 63) / 64;
    for (std::uint32_t s = first_leaf / 64; s * 64 < last_leaf; ++s) {
      const std::uint64_t asked = range(s * 64, first_leaf, last_leaf);
      if ((summary[s].load(std::memory_order_relaxed) & asked) == 0) continue;
      std::uint64_t words = summary[s].fetch_and(~asked) & asked;
      for (; words != 0; words &= words - 1) {
        const std::uint32_t word = s * 64 + static_cast<std::uint32_t>(__builtin_ctzll(words));
        const std::uint64_t wanted = range(word * 64, begin, end);
        std::uint64_t bits = leaf[word].fetch_and(~wanted);
        if ((bits & ~wanted) != 0) summary[s].fetch_or(words & -words);
        bits &= wanted;
        while (bits != 0) {
          const std::uint32_t bit = word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(bits));
          bits &= bits - 1;
          ++answered;
          if (visit(bit)) continue;
          put_back(s, words, bits);
          from = (bit + 1) % kBits;
          return false;
        }
      }
    }
    return true;
  }
};

inline constexpr std::uint32_t kListenerBit = Doorbells::kBits - 1;
// VIs and CQs of a session together.
inline constexpr std::uint32_t kMostBits = kListenerBit - kCommands;

inline std::uint32_t command_bit(std::uint32_t command) { return command; }
inline std::uint32_t vi_bit(std::uint32_t vi) { return kCommands + vi; }
inline std::uint32_t cq_bit(const Capacity& c, std::uint32_t cq) { return kCommands + c.vis + cq; }

// ---------------------------------------------------------------------------- slots
//
// A work request and its completion. Taken from the free list by the client at post, given back by
// the client when it has dequeued the completion. A slot on the free list holds the link to the
// next one, as 1 + slot, in completion.length.
//
// Small sends travel inline: the payload holds the segments and, directly after the last of them,
// the data, already gathered (kSlotInline). The driver needs the segments all the same: it must
// judge handles, ranges and tags. The client sends inline only what it has itself registered.
//
// The completion (line 0) is the driver's, the request (from line 1) is the client's. Data that
// arrives inline is written from `inline_data` on, over the request, which the driver has no more
// use for by then. The client copies it to where the descriptor says.

enum SlotOp : std::uint16_t { kOpSend = 0, kOpRdmaWrite = 1, kOpRdmaRead = 2, kOpReceive = 3 };

inline constexpr std::uint16_t kSlotImmediate = 0x0004;  // as VIP_CONTROL_IMMEDIATE
inline constexpr std::uint16_t kSlotFence = 0x0008;      // as VIP_CONTROL_QFENCE
inline constexpr std::uint16_t kSlotInline = 0x8000;     // the data follows the segments

struct Segment {
  std::uint64_t address;
  std::uint32_t handle;
  std::uint32_t length;
};
static_assert(sizeof(Segment) == 16);

struct SlotCompletion {
  std::atomic<std::uint32_t> status;  // VIP_STATUS_*; 0 until complete. Stored last (release).
  std::uint32_t length;
  std::uint32_t immediate;
  std::uint32_t inline_length;        // bytes in inline_data
};

struct SlotRequest {
  std::uint16_t op;             // SlotOp
  std::uint16_t flags;          // kSlot*, and the descriptor's Control bits as given (bit 15 of
                                // Control, reserved, is given as bit 14)
  std::uint16_t segment_count;  // as the descriptor gives it, address segment included
  std::uint16_t reserved;
  std::uint32_t length;         // the descriptor's Length
  std::uint32_t immediate;
  std::uint64_t descriptor;     // where the descriptor lies in the program ...
  std::uint32_t descriptor_handle;  // ... and the memory handle that it was posted with
  std::uint32_t reserved2;
  union Payload {
    Segment segments[kMaxSegments];
    std::byte inline_data[kMaxInlineSend];  // kSlotInline: segments, then data
  } payload;
};

struct alignas(kLine) Slot {
  SlotCompletion completion;
  // The rest of line 0 and then the request: inline receive data runs over all of it.
  std::byte inline_data[kLine - sizeof(SlotCompletion)];
  SlotRequest request;
};
static_assert(sizeof(SlotCompletion) == 16 && sizeof(SlotRequest) == 448);
static_assert(sizeof(Slot) == kSlotBytes && offsetof(Slot, request) == kLine);

// ---------------------------------------------------------------------------- work queues
//
// Position p (from 0, counted since the VI was made) lies in entry p % kRingEntries. The tag tells
// whether the entry is for this VI (its generation) and this lap, so the driver needs no producer
// index and a VI that is made anew needs no cleared ring.

struct RingEntry {
  std::atomic<std::uint64_t> word;  // slot in bits 0-19, lap in bits 20-31, generation in 32-63
};

inline constexpr std::uint32_t kMaxSlots = 1u << 20;

inline std::uint64_t ring_word(std::uint32_t slot, std::uint32_t position, std::uint32_t generation) {
  const std::uint64_t lap = (position / kRingEntries + 1) & 0xfff;
  return static_cast<std::uint64_t>(generation) << 32 | lap << 20 | slot;
}
inline bool ring_word_is(std::uint64_t word, std::uint32_t position, std::uint32_t generation) {
  return (word & ~0xfffffull) == ring_word(0, position, generation);
}
inline std::uint32_t ring_word_slot(std::uint64_t word) { return word & 0xfffff; }

using Ring = RingEntry[kRingEntries];

// One work queue of a VI as the client sees it; the driver reads `sleepers` only.
struct alignas(kLine) WorkQueue {
  LockWord lock;                        // client's: `posted` and `dequeued` change under it
  std::atomic<std::uint32_t> posted;    // client's: positions filled
  std::atomic<std::uint32_t> dequeued;  // client's: positions taken back by Done or Wait
  std::uint32_t spare VIADUCT_GUARDED_BY(lock);  // client's: a slot kept for the next post, or kNoSlot
  std::atomic<std::uint32_t> sleepers;  // futex, see SLEEPING
  std::atomic<std::uint32_t> generation;  // client's: generation of the VI that this queue serves, or 0
  std::atomic<std::uint32_t> announced;   // client's: positions below it were seen on the CQ
  std::uint32_t cq;                       // client's: 0: none, else 1 + index
  std::uint32_t overrun VIADUCT_GUARDED_BY(lock);  // client's: 1: the last post found no room
  std::atomic<std::uint32_t> owner;       // client's, then the driver's: the member that uses the VI
  // Client's, of send queues: equal to `generation` while the program has more to send than it has posted, see
  // VipxSetMore. If the program dies meanwhile, the peer is told that something is missing.
  std::atomic<std::uint32_t> more;
  // Client's, of send queues: equal to `generation` while the program waits for no completion, see VipxSetPatient.
  std::atomic<std::uint32_t> patient;
};

// The state of a VI as the driver tells it. Values of `state` are those of VIP_VI_STATE.
struct alignas(kLine) ViStatus {
  std::atomic<std::uint32_t> generation;  // changes when the VI is made and when it is destroyed
  std::atomic<std::uint32_t> state;
  std::atomic<std::uint32_t> error;       // 0, or 1 + VIP_ERROR_CODE that ended the connection
  std::atomic<std::uint32_t> left;        // client's: 1: disconnected when the driver was gone
  std::atomic<std::uint64_t> user_data;   // client's: VipSetUserData
};

struct Vi {
  ViStatus status;
  WorkQueue send;
  WorkQueue receive;
};
static_assert(sizeof(Vi) == 3 * kLine);

// ---------------------------------------------------------------------------- completion queues
//
// An entry is valid when its tag is that of the CQ's generation and the position's lap. When the
// ring is full the driver keeps the rest to itself and continues when the client, having consumed
// an entry, finds `starved` set and rings the CQ's bit: no entry is ever lost.
//
// `sequence` is the position of the completed descriptor in its work queue. An entry whose
// descriptor the program has already dequeued, or whose VI is gone, is skipped by the client.

struct CqEntry {
  std::uint32_t vi;
  std::uint32_t vi_generation;
  std::uint32_t sequence;
  std::uint32_t receive;             // 1: receive queue, 0: send queue
  std::atomic<std::uint64_t> tag;    // stored last (release)
  std::uint64_t reserved;
};
static_assert(sizeof(CqEntry) == 32);

inline std::uint64_t cq_tag(std::uint32_t position, std::uint32_t generation) {
  return static_cast<std::uint64_t>(generation) << 32 | (position / kCqRingEntries + 1);
}

struct alignas(kLine) Cq {
  // client's
  LockWord lock;                        // `consumed` changes under it
  std::atomic<std::uint32_t> consumed;  // positions taken; the driver reads it to find room
  std::atomic<std::uint32_t> sleepers;  // futex, see SLEEPING
  std::atomic<std::uint32_t> owner;     // as WorkQueue::owner
  std::uint32_t pad[12];
  // driver's
  std::atomic<std::uint32_t> generation;  // changes when the CQ is made and when it is destroyed
  std::atomic<std::uint32_t> starved;     // 1: the driver waits for room
};
static_assert(sizeof(Cq) == 2 * kLine);

// ---------------------------------------------------------------------------- commands
//
// Control operations: everything but post, done and wait. The client owns a command slot from the
// moment it puts 1 + its member number into `owner` until it puts 0 there again; in between `state`
// says whose turn it is.
//
// A VI goes by its index and its generation, and so does a CQ (in `handle`): a command that comes late
// must not meet what was made at the same place. Generation 0 means whichever is there.

enum CommandState : std::uint32_t { kIdle = 0, kSubmitted = 1, kFinished = 2 };

enum class Op : std::uint32_t {
  kNone = 0,
  kCreatePtag,       // -> handle
  kDestroyPtag,      // ptag
  kRegisterMemory,   // memory -> handle
  kDeregisterMemory, // memory.address, handle
  kQueryMemory,      // memory.address, handle -> memory
  kSetMemory,        // memory.address, handle, memory.ptag/enable bits
  kCreateVi,         // vi_attributes, send_cq, receive_cq -> vi, generation
  kDestroyVi,        // vi
  kSetVi = 10,       // vi, vi_attributes; 9 is nothing any more
  kCreateCq,         // entries -> handle, generation
  kDestroyCq,        // handle
  kResizeCq,         // handle, entries
  kConnectWait,      // local, timeout -> remote, vi_attributes, handle (connection)
  kConnectAccept,    // handle (connection), vi
  kConnectReject,    // handle (connection)
  kConnectRequest,   // vi, local, remote, timeout -> vi_attributes
  kDisconnect,       // vi
  kPeerRequest,      // vi, local, remote, timeout
  kPeerDone,         // vi -> vi_attributes
  kPeerWait,         // vi -> vi_attributes
  kHostByName,       // name, index -> remote.host
  kHostByAddress,    // remote.host -> name
  kCancel,           // handle: the command slot to end with VIP_TIMEOUT
  kDiscover,         // timeout -> handle: how many hosts answered (at most kMaxDiscovered)
  kDiscovered,       // entries: which of them -> remote.host
  kClaim,            // flow -> token
  kUnclaim,          // token
  kVerify,           // remote.host, flow (as we see it), token
  kTakeVi,           // vi: it and its CQs are `member`'s from now on
  kLast = kTakeVi,
};

struct ViAttributes {
  std::uint32_t reliability;    // one VIP_SERVICE_* bit
  std::uint32_t max_transfer;
  std::uint32_t ptag;           // 0: none
  std::uint32_t enable_write;   // 0 or 1
  std::uint32_t enable_read;    // 0 or 1
};

struct MemoryAttributes {
  std::uint64_t address;
  std::uint64_t length;
  std::uint32_t ptag;           // 0: none
  std::uint32_t enable_write;
  std::uint32_t enable_read;
  std::uint32_t reserved;
};

inline constexpr std::uint32_t kHostBytes = 6;
inline constexpr std::uint32_t kMaxDiscriminator = 64;

struct Address {
  std::uint8_t host[kHostBytes];
  std::uint16_t discriminator_length;
  std::uint8_t discriminator[kMaxDiscriminator];
};

inline constexpr std::uint64_t kForever = ~0ull;
inline constexpr std::uint32_t kMaxDiscovered = 256;

struct CommandBody {
  Op op;
  std::uint32_t result;         // VIP_RETURN
  std::uint64_t timeout_ms;     // kForever: no limit
  std::uint32_t vi;
  std::uint32_t generation;
  std::uint32_t handle;
  std::uint32_t send_cq;        // 0: none, else 1 + index
  std::uint32_t receive_cq;
  std::uint32_t entries;        // also VipNSGetHostByName's index
  ViAttributes vi_attributes;
  std::uint32_t member;         // that asks
  MemoryAttributes memory;
  Address local;
  Address remote;
  char name[64];                // NUL-terminated
  Flow flow;
  ClaimToken token;
};

struct alignas(kLine) Command {
  std::atomic<std::uint32_t> state;     // CommandState
  std::atomic<std::uint32_t> sleepers;  // futex, see SLEEPING
  std::atomic<std::uint32_t> owner;     // 0: free, else 1 + member
  CommandBody body;
};
static_assert(sizeof(Command) <= 512);

// ---------------------------------------------------------------------------- errors
//
// Asynchronous errors, for VipErrorCallback. The driver appends and alerts while the client wants
// them and has room; further ones are lost and counted, as the newest state can be queried.

inline constexpr std::uint32_t kErrorEvents = 256;

inline constexpr std::uint8_t kEventOrderly = 1;  // the peer has disconnected, or its program ended

struct ErrorEvent {
  std::uint32_t vi;
  std::uint32_t vi_generation;
  std::uint64_t descriptor;           // address in the program; 0: none
  std::uint8_t resource;              // VIP_RESOURCE_CODE
  std::uint8_t code;                  // VIP_ERROR_CODE
  std::uint8_t op;                    // SlotOp of the operation
  std::uint8_t flags;                 // kEvent*
  std::atomic<std::uint32_t> number;  // 1 + its position, stored last (release)
  std::uint64_t reserved;
};
static_assert(sizeof(ErrorEvent) == 32);

struct Errors {
  alignas(kLine) std::atomic<std::uint32_t> wanted;  // client's: 1 while it wants error events
  std::atomic<std::uint32_t> taken;                  // client's: positions consumed
  alignas(kLine) ErrorEvent events[kErrorEvents];
};

// An area private to a member; the first member's is in the header.
struct alignas(kLine) MemberArea {
  std::atomic<std::uint32_t> alert;  // as Header::alert
  Errors errors;
};

// ---------------------------------------------------------------------------- listeners
//
// A granted program has a stack of its own, but connection requests to its host arrive at the
// agent's. In the session that the agent keeps for it (the control session) the program publishes what
// its stack waits for, and the agent sends requesters on to it.
//
// To publish: fill in a free listener, `state` last, and set its bit in `active`; then, if `holding` is
// set, ring kListenerBit: a request that came before may be one for this listener. To withdraw: clear
// the bit, then the state.

inline constexpr std::uint32_t kListeners = 512;
inline constexpr std::uint32_t kNoListener = 0xffffffff;

enum ListenerState : std::uint32_t { kListenerFree = 0, kListenerWait = 1, kListenerPeer = 2 };

// `local` is what a request must name as its remote address; for kListenerPeer `host` is that of the
// requester instead.
struct Listener {
  std::atomic<std::uint32_t> state;  // ListenerState
  std::uint32_t pad;
  Address local;
};

struct alignas(kLine) Listeners {
  std::atomic<std::uint32_t> holding;  // driver's: 1 while it holds requests for which no program waits
  std::uint32_t pad;
  std::atomic<std::uint64_t> active[kListeners / 64];
  Listener listener[kListeners];
};

// ---------------------------------------------------------------------------- the whole

struct alignas(kLine) Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t bytes;     // of the segment
  Capacity capacity;
  std::uint64_t pad;

  // driver's
  // 1: a client that rings must write to the agent's wake descriptor too. Set by the driver before it sleeps; cleared
  // by the driver when it has woken up, or by the client that writes to the descriptor.
  alignas(kLine) std::atomic<std::uint32_t> driver_sleeps;
  std::atomic<std::uint32_t> closed;                        // the driver has ended the session

  // client's
  alignas(kLine) std::atomic<std::uint64_t> free_slots;  // top of the free list: tag << 32 | 1+slot
  std::atomic<std::uint32_t> fresh_slots;                // slots never used so far: [fresh, slots)
  alignas(kLine) std::atomic<std::uint32_t> alert;  // futex: the driver stores 1, see SLEEPING
  std::atomic<std::uint32_t> forks;  // forks made so far by processes of the family

  alignas(kLine) Doorbells doorbells;
  Errors errors;
};

// Offsets of the parts, from the capacities alone.
struct Offsets {
  std::size_t commands, vis, cqs, send_rings, receive_rings, cq_rings, slots, members, total;

  static constexpr std::size_t listeners() { return round(sizeof(Header)); }

  Offsets() = default;
  explicit Offsets(const Capacity& c) {
    std::size_t at = round(listeners() + sizeof(Listeners));
    commands = at, at = round(at + kCommands * sizeof(Command));
    vis = at, at = round(at + c.vis * sizeof(Vi));
    cqs = at, at = round(at + c.cqs * sizeof(Cq));
    send_rings = at, at = round(at + c.vis * sizeof(Ring));
    receive_rings = at, at = round(at + c.vis * sizeof(Ring));
    cq_rings = at, at = round(at + std::size_t{c.cqs} * kCqRingEntries * sizeof(CqEntry));
    slots = at, at = round(at + std::size_t{c.slots} * sizeof(Slot));
    members = at, at = round(at + kMembers * sizeof(MemberArea));
    total = at;
  }

 private:
  static constexpr std::size_t round(std::size_t n) { return (n + 4095) & ~std::size_t{4095}; }
};

// The parts of a mapped segment. Knows no more than addresses; checking indices is the caller's.
class View {
 public:
  View() = default;
  View(void* base, const Capacity& capacity) : base_(static_cast<std::byte*>(base)), at_(capacity) {}

  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  Listeners& listeners() const { return *part<Listeners>(Offsets::listeners()); }
  Command& command(std::uint32_t i) const { return part<Command>(at_.commands)[i]; }
  Vi& vi(std::uint32_t i) const { return part<Vi>(at_.vis)[i]; }
  Cq& cq(std::uint32_t i) const { return part<Cq>(at_.cqs)[i]; }
  RingEntry* send_ring(std::uint32_t vi) const { return part<Ring>(at_.send_rings)[vi]; }
  RingEntry* receive_ring(std::uint32_t vi) const { return part<Ring>(at_.receive_rings)[vi]; }
  CqEntry* cq_ring(std::uint32_t cq) const {
    return part<CqEntry>(at_.cq_rings) + std::size_t{cq} * kCqRingEntries;
  }
  Slot& slot(std::uint32_t i) const { return part<Slot>(at_.slots)[i]; }
  // The alert word of a member, 0 to kMembers.
  std::atomic<std::uint32_t>& alert(std::uint32_t member) const {
    return member == 0 ? header().alert : area(member).alert;
  }
  Errors& errors(std::uint32_t member) const {
    return member == 0 ? header().errors : area(member).errors;
  }
  std::byte* base() const { return base_; }
  bool mapped() const { return base_ != nullptr; }

 private:
  MemberArea& area(std::uint32_t member) const { return part<MemberArea>(at_.members)[member - 1]; }
  template <class T>
  T* part(std::size_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  std::byte* base_ = nullptr;
  Offsets at_{};
};

}  // namespace viaduct::layout

#endif
