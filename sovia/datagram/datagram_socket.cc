#include "sovia/datagram/datagram_socket.h"

#include <linux/sockios.h>
#include <string.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "sovia/datagram/datagram_requests.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"

namespace viaduct::sovia::datagram {
namespace {

// How long the first datagrams over a lane wait for earlier ones on their way through the kernel.
constexpr std::uint64_t kHoldNs = 2 * kMs;

// If nothing has left on a lane for so long, its peer counts as one that takes nothing.
constexpr std::uint64_t kNoRoomNs = 20 * kMs;

// The kernel is asked at least so often while lanes have something to read.
constexpr unsigned kCallsWithoutKernel = 16;
constexpr std::uint64_t kNsWithoutKernel = 50'000;
constexpr std::uint64_t kNsWithoutKernelToWait = 20'000;

// Copies between a place and the pieces of a message. False if memory of the pieces can't be accessed.
template <class Copy>
bool for_pieces(const Message& message, std::size_t bytes, Copy&& copy) {
  std::size_t done = 0;
  for (std::size_t i = 0; i < message.count && done < bytes; ++i) {
    const std::size_t part = std::min(message.pieces[i].iov_len, bytes - done);
    if (part != 0 && !copy(message.pieces[i].iov_base, done, part)) return false;
    done += part;
  }
  return true;
}

std::size_t room_of(const Message& message) {
  std::size_t room = 0;
  for (std::size_t i = 0; i < message.count; ++i) room += message.pieces[i].iov_len;
  return room;
}

bool kernel_has_sent_all(int fd) {
  int unsent = 0;
  return libc::ioctl(fd, SIOCOUTQ, &unsent) == 0 && unsent == 0;
}

}  // namespace

void DatagramLane::arrived(const ProcessNic::Arrival& arrival) { socket.arrived(*this, arrival); }

DatagramSocket::~DatagramSocket() {
  for (Item& item : unread_) std::free(item.kept);
}

void DatagramSocket::give_up(Reason why) {
  if (given_up_.exchange(true)) return;
  counters::fell(why);
  bool any = false;
  {
    const DatagramGuard guard(*this);
    for (DatagramLane* const lane : lanes_) lane->leaves = any = true;
  }
  if (any || asked_.load() != 0) look_at_lanes();
}

void DatagramSocket::connected(const sockaddr_in& peer) {
  const DatagramGuard guard(*this);
  connection_ = peer;
}

bool DatagramSocket::connection(sockaddr_in& peer) {
  const DatagramGuard guard(*this);
  peer = connection_;
  return peer.sin_family != 0;
}

// ---------------------------------------------------------------------------- sending

DatagramLane* DatagramSocket::lane_to(const sockaddr_in& peer) {
  for (DatagramLane* const lane : lanes_) {
    if (same_peer(lane->peer, peer)) return lane;
  }
  return nullptr;
}

// Whether the peer has all datagrams that this end sent on a lane being left. The lane ends soon in any case.
bool DatagramSocket::has_arrived(DatagramLane& lane) {
  if (!lane.started || lane.broken) return true;
  return lane.peer_left ? lane.left_heard || lane.all_sent() : false;
}

DatagramSocket::Sent DatagramSocket::send(int fd, const Message& message, std::size_t bytes) {
  const DatagramGuard guard(*this);
  DatagramLane* const lane = lane_to(message.peer);
  if (lane == nullptr || !lane->handshake.trusted() || !lane->handshake.trusts()) return Sent::kKernel;
  // Datagrams over the lane would overtake one that is too long for it, or be overtaken: such a pair of sockets leaves
  // its lane.
  if (bytes > kMostBytes && !lane->leaves) {
    lane->leaves = lane->too_long = true;
    look_at_lanes();
  }
  if (lane->leaves || lane->peer_left) return has_arrived(*lane) ? Sent::kKernel : Sent::kNoRoom;
  if (!lane->started && !kernel_has_sent_all(fd)) return Sent::kKernel;
  lane->started = true;
  const std::uint64_t now = now_ns();
  lane->used_at = now;
  if (!lane->has_room()) {
    if (lane->no_room_since == 0) lane->no_room_since = now;
    if (now - lane->no_room_since < kNoRoomNs) return Sent::kNoRoom;
    counters::add(Counter::kDatagramsDropped);
    return Sent::kDone;
  }
  lane->no_room_since = 0;
  std::byte* const to = lane->next_place();
  const bool readable = for_pieces(message, bytes, [to](const void* from, std::size_t at, std::size_t part) {
    return copy_guarded(to + at, from, part);
  });
  if (!readable) return Sent::kFault;
  if (lane->post(Kind::kData, bytes)) {
    counters::add(Counter::kDatagramsSent);
    return Sent::kDone;
  }
  lane->peer_left = lane->broken = true;
  look_at_lanes();
  return Sent::kKernel;
}

bool DatagramSocket::say(DatagramLane& lane, Kind kind, const void* data, std::size_t bytes) {
  if (lane.broken || !lane.has_room()) return false;
  if (bytes != 0) memcpy(lane.next_place(), data, bytes);
  return lane.post(kind, bytes);
}

// ---------------------------------------------------------------------------- receiving

// Called by the thread that processes arrivals.
void DatagramSocket::arrived(DatagramLane& lane, const ProcessNic::Arrival& arrival) {
  bool news = false, control = true;
  {
    const DatagramGuard guard(*this);
    if (arrival.lost) {
      lane.broken = lane.peer_left = true;
    } else if (arrival.immediate == static_cast<std::uint32_t>(Kind::kData) && lane.handshake.trusts() &&
               !lane.doubted) {
      control = false;
      const std::uint64_t now = now_ns();
      if (lane.held_until == 0) {
        lane.held_until = now + kHoldNs;
        lane.held = control = true;
      }
      lane.used_at = now;
      unread_.push_back({&lane, arrival.place, arrival.bytes, lane.peer, nullptr});
      unread_count_.store(unread_.size());
      news = true;
    } else {
      const auto kind = static_cast<Kind>(arrival.immediate);
      if (kind == Kind::kHello) lane.handshake.take(lane.transport.received(arrival.place), arrival.bytes);
      if (kind == Kind::kLeave) lane.peer_left = lane.answer_due = true;
      if (kind == Kind::kLeft) lane.left_heard = lane.peer_left = true;
      if (!lane.transport.post_receive(arrival.place)) lane.broken = lane.peer_left = true;
    }
  }
  if (control) look_at_lanes();
  if (!news) return;
  tell(POLLIN);
  waiting::wake(*this);
}

bool DatagramSocket::some_have_ended() const {
  for (const DatagramLane* const lane : lanes_) {
    if (lane->peer_left) return true;
  }
  return false;
}

// Whether the oldest datagram may not be read yet.
bool DatagramSocket::is_held(std::uint64_t now) {
  const DatagramLane* const lane = unread_.front().lane;
  return lane != nullptr && lane->held && (now < lane->held_until || kernel_asked_at_ < lane->held_until);
}

bool DatagramSocket::readable() {
  if (unread_count_.load(std::memory_order_acquire) == 0) return false;
  const DatagramGuard guard(*this);
  if (unread_.empty()) return false;
  const DatagramLane* const lane = unread_.front().lane;
  return lane == nullptr || !lane->held || now_ns() >= lane->held_until;
}

std::uint64_t DatagramSocket::held_until() {
  if (unread_count_.load() == 0) return kNever;
  const DatagramGuard guard(*this);
  if (unread_.empty() || unread_.front().lane == nullptr || !unread_.front().lane->held) return kNever;
  return unread_.front().lane->held_until;
}

bool DatagramSocket::kernel_first() {
  const DatagramGuard guard(*this);
  if (unread_.empty() || peeked_ == Peeked::kKernel) return true;
  if (peeked_ == Peeked::kLane) return false;
  const std::uint64_t now = now_ns();
  if (is_held(now)) return true;
  // The lanes go first: datagrams that a peer sends through the kernel after leaving come behind those still queued
  // here.
  if (kept_ != 0 || some_have_ended()) return false;
  return ++without_kernel_ >= kCallsWithoutKernel || now - kernel_asked_at_ >= kNsWithoutKernel;
}

bool DatagramSocket::kernel_due() {
  if (!has_open_lane()) return true;
  const DatagramGuard guard(*this);
  return ++without_kernel_ >= kCallsWithoutKernel || now_ns() - kernel_asked_at_ >= kNsWithoutKernelToWait;
}

void DatagramSocket::kernel_said(bool gave, bool peeked) {
  const DatagramGuard guard(*this);
  without_kernel_ = 0;
  if (!gave) kernel_asked_at_ = now_ns();
  if (gave && peeked) {
    peeked_ = Peeked::kKernel;
  } else if (peeked_ == Peeked::kKernel) {
    peeked_ = Peeked::kNothing;
  }
}

DatagramSocket::Taken DatagramSocket::take(Message& message, std::size_t& length, bool peek) {
  if (unread_count_.load(std::memory_order_acquire) == 0) return Taken::kNone;
  const DatagramGuard guard(*this);
  if (unread_.empty() || is_held(now_ns())) return Taken::kNone;
  Item& item = unread_.front();
  if (item.lane != nullptr) item.lane->held = false;
  const std::byte* const from = item.kept != nullptr ? item.kept
                                : item.lane != nullptr ? item.lane->transport.received(item.place)
                                                       : nullptr;
  length = item.bytes;
  message.peer = item.peer;
  const std::size_t room = room_of(message);
  message.flags = room < length ? MSG_TRUNC : 0;
  const bool copied = for_pieces(message, std::min(room, length),
                                 [from](void* to, std::size_t at, std::size_t part) {
                                   return copy_guarded(to, from + at, part);
                                 });
  peeked_ = peek ? Peeked::kLane : Peeked::kNothing;
  if (!peek) {
    counters::add(Counter::kDatagramsReceived);
    pop();
  }
  return copied ? Taken::kDone : Taken::kFault;
}

void DatagramSocket::pop() {
  const Item item = unread_.front();
  unread_.pop_front();
  unread_count_.store(unread_.size());
  std::free(item.kept);
  if (item.lane == nullptr) {
    --kept_;
  } else if (!item.lane->transport.post_receive(item.place)) {
    item.lane->broken = item.lane->peer_left = true;
  }
}

int DatagramSocket::next_bytes() {
  const DatagramGuard guard(*this);
  if (unread_.empty() || peeked_ == Peeked::kKernel || is_held(now_ns())) return -1;
  peeked_ = Peeked::kLane;
  return static_cast<int>(unread_.front().bytes);
}

// ---------------------------------------------------------------------------- lanes

bool DatagramSocket::count(const sockaddr_in& peer, std::uint64_t now) {
  if (given_up_.load()) return false;
  const DatagramGuard guard(*this);
  if (!peers_.count(peer, options().upgrade_after, now)) return false;
  asked_.fetch_add(1);
  return true;
}

void DatagramSocket::refused(const sockaddr_in& peer, bool for_good, std::uint64_t now) {
  const DatagramGuard guard(*this);
  peers_.refused(peer, for_good, now);
}

void DatagramSocket::add(DatagramLane& lane) {
  const DatagramGuard guard(*this);
  lanes_.push_back(&lane);
  if (given_up_.load()) lane.leaves = true;
}

void DatagramSocket::set_open(DatagramLane& lane, bool open) {
  if (lane.open == open) return;
  lane.open = open;
  open_.fetch_add(open ? 1 : -1);
}

// Removes a lane, after its unread datagrams have been copied out of its receive buffers.
void DatagramSocket::remove(DatagramLane& lane) {
  const DatagramGuard guard(*this);
  std::erase(lanes_, &lane);
  for (Item& item : unread_) {
    if (item.lane != &lane) continue;
    item.lane = nullptr;
    ++kept_;
    if (item.bytes == 0) continue;
    item.kept = static_cast<std::byte*>(std::malloc(item.bytes));
    if (item.kept != nullptr) {
      memcpy(item.kept, lane.transport.received(item.place), item.bytes);
    } else {
      item.bytes = 0;
    }
  }
  if (lane.too_long) {
    peers_.refused(lane.peer, true, 0);
  } else if (lane.open) {
    peers_.ended(lane.peer);
  }
  set_open(lane, false);
}

// The parent keeps the lanes, and their unread datagrams. There are no other threads.
void DatagramSocket::after_fork_in_child() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  new (&lock_) Lock;
  new (&lanes_) std::vector<DatagramLane*>;
  new (&unread_) std::deque<Item>;
  unread_count_.store(0);
  kept_ = 0;
  asked_.store(0);
  open_.store(0);
  raw_.store(0);
  given_up_.store(true);
}

}  // namespace viaduct::sovia::datagram
