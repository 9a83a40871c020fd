// A UDP socket that may have lanes: one to each of a few peers. Datagrams from lanes wait here in the order in which
// they came, beside those in the kernel's socket.
//
// Order, of one peer's datagrams: an end moves to its lane when the kernel has sent all datagrams given to it before.
// The receiver holds the first datagrams from a lane back for a moment, until it has found the kernel's socket empty.
// From then on it reads the lanes first, and asks the kernel now and then.
#ifndef VIADUCT_SOVIA_DATAGRAM_DATAGRAM_SOCKET_H
#define VIADUCT_SOVIA_DATAGRAM_DATAGRAM_SOCKET_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "sovia/datagram/datagram_lane.h"
#include "sovia/datagram/peer_counts.h"
#include "sovia/lane/watchers.h"
#include "sovia/process/lock.h"
#include "sovia/process/lock_order.h"
#include "sovia/process/reason.h"

namespace viaduct::sovia::datagram {

// A datagram of the program's: to be sent, or to be filled in.
struct Message {
  const iovec* pieces;
  std::size_t count;
  sockaddr_in peer;  // received: of the sender
  int flags;         // received: MSG_TRUNC if the pieces had too little room
};

class DatagramSocket final : public Watched {
 public:
  explicit DatagramSocket(bool nonblocking) : nonblocking_(nonblocking) {}
  ~DatagramSocket();

  // ------------------------------------------------------------------ what it may do
  // Whether the kernel alone has the socket's datagrams, for good: no lane is left, and nothing from one is unread.
  bool kernel_alone() const { return given_up_.load() && !may_have_lanes(); }
  // Ends all lanes, and opens no more. Datagrams from the lanes can still be received.
  void give_up(Reason why);
  // Whether a lane is there, may come at any moment, or has left unread datagrams.
  bool may_have_lanes() const { return asked_.load() != 0 || unread_count_.load() != 0; }
  bool has_open_lane() const { return open_.load() != 0; }

  bool nonblocking() const { return nonblocking_.load(); }
  void set_nonblocking(bool on) { nonblocking_.store(on); }
  bool has_timeout() const { return has_timeout_.load(); }
  void set_timeout() { has_timeout_.store(true); }
  // The socket is connected to this peer: the kernel's receives need not return the sender's address.
  void connected(const sockaddr_in& peer);
  bool connection(sockaddr_in& peer);

  // ------------------------------------------------------------------ datagrams
  enum class Sent : std::uint8_t { kKernel, kDone, kFault, kNoRoom };
  // kKernel: the caller has to send the datagram through the kernel. kNoRoom: it can't be sent yet, as the lane has no
  // room, or as a datagram through the kernel would overtake those on a lane that is being left. If the peer has taken
  // nothing for a while (it may be stopped), the socket drops the datagrams, as a receiver with a full buffer does.
  // `fd`: a descriptor of the socket.
  Sent send(int fd, const Message& message, std::size_t bytes);

  enum class Taken : std::uint8_t { kNone, kDone, kFault };
  // Takes the oldest datagram that may be read. `length`: its whole length. With `peek` it stays.
  Taken take(Message& message, std::size_t& length, bool peek);
  bool readable();
  // The length of the next datagram if it came over a lane, or -1. It stays the next one to be received.
  int next_bytes();
  // Whether the kernel is to be asked before the lanes.
  bool kernel_first();
  // Whether a receive that waits must ask the kernel before it spins.
  bool kernel_due();
  // To be called when the kernel has been asked. `gave`: it had a datagram; `peeked`: which is still there.
  void kernel_said(bool gave, bool peeked = false);
  // The time until which the lanes' datagrams are held back; kNever: they are not.
  std::uint64_t held_until();

  // Counts a datagram that went through the kernel. True: a lane to this peer is worth while now.
  bool count(const sockaddr_in& peer, std::uint64_t now);
  // Counts the threads in a receive that hears no lanes: `by` is +1 or -1.
  void receives_raw(int by) { raw_.fetch_add(by); }

  // ------------------------------------------------------------------ for the control thread
  // The control thread owns all lanes of the socket. Their stages change with the lock.
  void add(DatagramLane& lane);
  void remove(DatagramLane& lane) VIADUCT_REQUIRES(engine::g_turn);
  void refused(const sockaddr_in& peer, bool for_good, std::uint64_t now);
  void asked_in_vain() { asked_.fetch_sub(1); }
  bool hears_no_lanes() const { return raw_.load() != 0; }
  bool given_up() const { return given_up_.load(); }
  // Taken by DatagramGuard.
  Lock& lock() VIADUCT_RETURN_CAPABILITY(lock_) { return lock_; }
  // Sends a message of the lane's own. False: there is no room for it now.
  bool say(DatagramLane& lane, Kind kind, const void* data, std::size_t bytes) VIADUCT_REQUIRES(lock_, lane_state);
  void set_open(DatagramLane& lane, bool open) VIADUCT_REQUIRES(lock_, lane_state);
  void arrived(DatagramLane& lane, const ProcessNic::Arrival& arrival) VIADUCT_REQUIRES(engine::g_turn);
  void after_fork_in_child();

 private:
  struct Item {
    DatagramLane* lane;  // nullptr: its bytes are `kept`
    std::uint32_t place, bytes;
    sockaddr_in peer;
    std::byte* kept;
  };

  static bool has_arrived(DatagramLane& lane) VIADUCT_REQUIRES(lane_state);
  DatagramLane* lane_to(const sockaddr_in& peer) VIADUCT_REQUIRES(lock_, lane_state);
  bool is_held(std::uint64_t now) VIADUCT_REQUIRES(lock_, lane_state);
  bool some_have_ended() const VIADUCT_REQUIRES(lock_, lane_state);
  void pop() VIADUCT_REQUIRES(lock_, lane_state);

  Lock lock_ SOVIA_LOCK_ORDER(watchers, requests);
  std::vector<DatagramLane*> lanes_ VIADUCT_GUARDED_BY(lock_);
  std::deque<Item> unread_ VIADUCT_GUARDED_BY(lock_);
  PeerCounts peers_ VIADUCT_GUARDED_BY(lock_);
  sockaddr_in connection_ VIADUCT_GUARDED_BY(lock_){};  // family 0: none
  std::uint64_t kernel_asked_at_ VIADUCT_GUARDED_BY(lock_) = 0;
  unsigned without_kernel_ VIADUCT_GUARDED_BY(lock_) = 0;
  enum class Peeked : std::uint8_t { kNothing, kKernel, kLane };
  // The place of the datagram at which the program has peeked.
  Peeked peeked_ VIADUCT_GUARDED_BY(lock_) = Peeked::kNothing;
  std::size_t kept_ VIADUCT_GUARDED_BY(lock_) = 0;  // unread datagrams of lanes that have gone

  std::atomic<std::size_t> unread_count_{0};
  std::atomic<int> asked_{0}, open_{0}, raw_{0};
  std::atomic<bool> given_up_{false}, nonblocking_, has_timeout_{false};
};

// Locks a socket, with its lanes, to the end of the block.
class VIADUCT_SCOPED_CAPABILITY DatagramGuard {
 public:
  explicit DatagramGuard(DatagramSocket& socket) VIADUCT_ACQUIRE(socket.lock(), lane_state) : lock_(socket.lock()) {
    lock_.lock();
  }
  ~DatagramGuard() VIADUCT_RELEASE() { lock_.unlock(); }
  DatagramGuard(const DatagramGuard&) = delete;
  DatagramGuard& operator=(const DatagramGuard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace viaduct::sovia::datagram

#endif
