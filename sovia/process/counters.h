// Counts of this process's work with its sockets, in a page that other programs can read while it runs: a memfd named
// "sovia-counters", found among the descriptors of /proc/PID/fd. `sovia stat` shows it.
//
//     counters::add(Counter::kBytesSentLane, bytes);
//     counters::fell(Reason::kUrgent);
//
// The page belongs to one process: a child of fork begins anew.
#ifndef VIADUCT_SOVIA_PROCESS_COUNTERS_H
#define VIADUCT_SOVIA_PROCESS_COUNTERS_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sovia/process/reason.h"

namespace viaduct::sovia {

// name in the code, name shown, what it counts. The order is that of `sovia stat`; new rows
// anywhere.
#define SOVIA_COUNTERS(X)                                                                       \
  X(kSockets, "sockets", "TCP sockets seen: made, accepted, inherited or received")             \
  X(kConnections, "connections", "connections begun by connect or taken by accept")             \
  X(kLanesAsked, "lanes_asked", "lanes asked for or offered")                                   \
  X(kLanesOpened, "lanes_opened", "lanes opened")                                               \
  X(kLanesClosed, "lanes_closed", "lanes closed in good order")                                 \
  X(kLanesLost, "lanes_lost", "lanes that broke before their end")                              \
  X(kLanesCut, "lanes_cut", "lanes cut, and their connections reset")                           \
  X(kBytesSentLane, "bytes_sent_lane", "bytes sent over lanes")                                 \
  X(kBytesSentKernel, "bytes_sent_kernel", "bytes sent through the kernel")                     \
  X(kBytesReceivedLane, "bytes_received_lane", "bytes received from lanes")                     \
  X(kBytesReceivedKernel, "bytes_received_kernel", "bytes received from the kernel")            \
  X(kDataSent, "data_sent", "DATA packets sent")                                                \
  X(kDataReceived, "data_received", "DATA packets received")                                    \
  X(kAcksSent, "acks_sent", "ACK packets sent")                                                 \
  X(kAcksReceived, "acks_received", "ACK packets received")                                     \
  X(kAcksPiggybacked, "acks_piggybacked", "other packets that took acknowledgements along")     \
  X(kStartsSent, "starts_sent", "times that a direction went up to the lane")                    \
  X(kFinsSent, "fins_sent", "FIN packets sent: a direction went down to the kernel")            \
  X(kTimedEnds, "timed_ends", "ends of streams that the peer had confirmed, told when a timer expired")  \
  X(kCreditStalls, "credit_stalls", "sends that found the window closed")                       \
  X(kCombined, "combined", "small sends put into a packet that waited")                         \
  X(kCombineTimeouts, "combine_timeouts", "packets sent as no more was put into them in time")  \
  X(kDataRegistered, "data_registered", "DATA packets sent from the program's memory")          \
  X(kRegistrations, "registrations", "regions of the program's memory registered")              \
  X(kRegistrationHits, "registration_hits", "registrations found in the cache")                 \
  X(kRegistrationsDropped, "registrations_dropped", "registrations given up")                   \
  X(kRedirectedReceives, "direct_receives", "receives whose data came straight into their buffer")  \
  X(kMessagesPlaced, "messages_placed", "messages written to the peer's buffer")                  \
  X(kTaggedByRdma, "tagged_by_rdma", "puts and gets of tagged buffers done by RDMA")              \
  X(kTaggedInStream, "tagged_in_stream", "pieces of puts and gets sent in the stream")            \
  X(kSpinHits, "spin_hits", "waits that ended while spinning")                                  \
  X(kGaveWay, "gave_way", "looks in vain by calls that do not wait, and then the agent's turn")    \
  X(kSleeps, "sleeps", "waits that went to sleep")                                              \
  X(kWakeUps, "wake_ups", "sleeping threads woken by others of the process")                    \
  X(kBackgroundTurns, "background_turns", "turns of the close thread")                          \
  X(kDatagramLanesAsked, "udp_lanes_asked", "lanes for datagrams asked for")                    \
  X(kDatagramLanesOpened, "udp_lanes_opened", "lanes for datagrams opened")                     \
  X(kDatagramsSent, "udp_sent_lane", "datagrams sent over lanes")                               \
  X(kDatagramsReceived, "udp_received_lane", "datagrams received from lanes")                   \
  X(kDatagramsDropped, "udp_dropped", "datagrams dropped as the peer took none")                \
  X(kInheritedBytes, "residue_bytes", "bytes that came over a lane and were kept over a fork")

enum class Counter : std::uint16_t {
#define SOVIA_COUNTER(name, shown, text) name,
  SOVIA_COUNTERS(SOVIA_COUNTER)
#undef SOVIA_COUNTER
  kCount
};

inline constexpr std::size_t kCounters = static_cast<std::size_t>(Counter::kCount);
inline constexpr std::size_t kReasons = static_cast<std::size_t>(Reason::kCount);

namespace counters {

inline constexpr char kName[] = "sovia-counters";
inline constexpr std::uint64_t kMagic = 0x3272746e63767300;  // changes with the layout
inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kSocketRows = 4096;  // descriptors above are not shown

// Where the data of a socket goes.
enum class Way : std::uint8_t {
  kNone,     // no socket is there
  kKernel,
  kAsked,    // a lane has been asked for
  kLane,
  kListens,  // a listening socket, which has no data
};

// The page, and behind it a row for each descriptor. All of it is written by the process that owns it alone.
struct alignas(kPageBytes) Page {
  std::uint64_t magic;
  std::uint32_t counters;  // how many: readers of another version see it
  std::uint32_t reasons;
  std::uint64_t fingerprint;  // of the counters' names, which differ between versions
  std::int32_t process;
  std::uint32_t reserved;
  std::atomic<std::uint64_t> values[kCounters];
  std::atomic<std::uint64_t> falls[kReasons];  // directions or connections, by reason
  alignas(kPageBytes) std::atomic<std::uint16_t> sockets[kSocketRows];  // 256 * Way + Reason
};
static_assert(sizeof(Page) == kPageBytes + sizeof(std::uint16_t) * kSocketRows);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

extern Page g_page;

inline void add(Counter counter, std::uint64_t n = 1) {
  g_page.values[static_cast<std::size_t>(counter)].fetch_add(n, std::memory_order_relaxed);
}

inline std::uint64_t value(Counter counter) {
  return g_page.values[static_cast<std::size_t>(counter)].load(std::memory_order_relaxed);
}

inline std::uint64_t falls(Reason reason) {
  return g_page.falls[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
}

// A connection, or a direction of one, goes through the kernel for this reason.
inline void fell(Reason reason) {
  g_page.falls[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
}

// Shows the socket of a descriptor to other programs.
inline void show_socket(int fd, Way way, Reason why) {
  if (static_cast<unsigned>(fd) >= kSocketRows) return;
  const unsigned row = way == Way::kNone ? 0 : static_cast<unsigned>(way) << 8 | static_cast<unsigned>(why);
  g_page.sockets[fd].store(static_cast<std::uint16_t>(row), std::memory_order_relaxed);
}

// Makes the page readable from outside; counting is possible before. Done at the process's first socket, as a program
// without sockets needs no descriptor for the page. Keeps errno.
void publish();

// In the child of a fork: a page of its own, with zeros. The parent's is not touched.
void after_fork_in_child();

// The descriptor of the memfd, or -1. The program may not have it (see own_descriptors.h).
int descriptor();

// The program has taken the memfd's number for itself; other programs can't read the page any more.
void forget_descriptor();

// Tables for readers.
const char* name_of(Counter counter);
const char* text_of(Counter counter);
const char* name_of(Reason reason);  // "kUrgent" is "urgent"
std::uint64_t fingerprint();

}  // namespace counters
}  // namespace viaduct::sovia

#endif
