// Trains: frames of long messages as segments of UDP datagrams, up to 64 KB with one system call.
//
//   submit()  frame frame frame ... --sendmsg, UDP_SEGMENT--> kernel --> network
//   receive() frame frame frame ... <--recvmsg, UDP_GRO------ kernel <-- network
//
// A segment is a frame as a whole, Ethernet header included, so a received one is lent where it lies in
// the buffer. All segments of a train have one length; the last one may be shorter.
//
// Only addresses that were learnt may send. A datagram from elsewhere, or one whose frames name
// another source than the one that was learnt with the address, is counted and dropped; so is a frame
// of a type that may not come by train. The kernel gives a datagram its source address.
//
// For libvipl too: no allocation, no exception, nothing but the C library.
#ifndef VIADUCT_XDP_TRAIN_TRAIN_SOCKET_H
#define VIADUCT_XDP_TRAIN_TRAIN_SOCKET_H

#include <netinet/in.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "xdp/port.h"
#include "xdp/train/outgoing_train.h"
#include "xdp/train/train_address.h"
#include "xdp/train/train_pages.h"

namespace viaduct {

class TrainSocket {
 public:
  // IPv6 and UDP around a frame, and the Ethernet header in it.
  static constexpr std::uint32_t kAround = 48, kEthernet = 14;
  static constexpr std::uint32_t kBuffers = 64;        // trains that can be lent at once
  static constexpr std::uint32_t kMostPieces = OutgoingTrain::kMostPieces;

  TrainSocket() = default;
  ~TrainSocket() { close(); }
  TrainSocket(const TrainSocket&) = delete;
  TrainSocket& operator=(const TrainSocket&) = delete;

  // Takes a socket of open_train_socket() over (also on failure). `types`: a bit for each frame type
  // (the second byte behind the Ethernet header) that may come. Returns nullptr, or what failed;
  // errno says why.
  const char* open(int socket, const TrainAddress& own, std::uint32_t mtu, std::uint32_t types);
  // Takes over the ends of a pipe, with which the only peer is sent to as train_pages.h says; after open().
  void use_pages(const int (&pipe)[2]) { pages_.open(pipe); }
  const TrainPages& pages() const { return pages_; }
  // Takes over the guard of the socket's port (OpenedTrainSocket::guard), after open(). -1: there is none.
  void keep_guard(int guard) { guard_ = guard; }
  int guard() const { return guard_; }
  void close();
  bool is_open() const { return socket_ >= 0; }
  int descriptor() const { return socket_; }
  const TrainAddress& address() const { return own_; }

  // Bytes behind the Ethernet header that a frame may have.
  std::uint32_t payload_limit() const { return mtu_ - kAround - kEthernet; }

  // From now on datagrams from `at` are taken if their frames have this source. `attempt`: which address is sent to,
  // where a peer has two. False: no common way, or no room.
  bool learn(const MacAddress& peer, const TrainAddress& at, unsigned attempt);
  // No connection to the peer is left. The peer may not know that yet and send the first long message of the
  // next connection by train, so its datagrams are still taken until another peer needs the place.
  void leave(const MacAddress& peer);
  bool knows_any() const { return peers_ != 0; }
  bool knows(const MacAddress& peer) const { return find(peer.data()) != nullptr; }

  // --- sending: frames stay the caller's until give_back() has had them
  // As OutgoingTrain's. False: send() first.
  bool add(const Frame& frame) { return train_.add(frame); }
  bool add(std::span<const std::byte> head, std::span<const iovec> pieces) { return train_.add(head, pieces); }
  bool has_waiting() const { return !train_.empty(); }
  // The frames of the train.
  std::span<const Frame> waiting() const { return train_.frames(); }
  // Sends the train. False if the kernel would not have it. Either way it is empty after that.
  bool send();

  // --- receiving
  // Whether a look is worth while: a peer may send, and the last look was long enough ago; or expect() was called.
  bool is_due() {
    const bool expected = expected_.load(std::memory_order_relaxed);
    if (peers_ == 0) [[likely]] return expected;
    return expected || is_waiting() || ++looks_ >= interval_;
  }
  bool is_waiting() const { return at_ != end_; }
  // Takes the next train from the kernel, unless one is waiting. True if frames are waiting then.
  bool look();
  // Hands out waiting frames.
  std::size_t receive(std::span<Frame> frames);
  bool owns(const Frame& frame) const {
    return memory_ != nullptr && frame.data >= memory_ && frame.data < memory_ + kBuffers * kBuffer;
  }
  void release(const Frame& frame);
  // To be called when descriptor() is readable, if only by a stranger's datagram: the next look is due. Any thread
  // may call this.
  void expect() { expected_.store(true, std::memory_order_relaxed); }

  struct Counters {
    std::uint64_t rx_trains = 0, rx_frames = 0, rx_bytes = 0;
    std::uint64_t tx_trains = 0, tx_frames = 0, tx_bytes = 0;
    std::uint64_t tx_refused = 0;       // trains that the kernel would not send
    std::uint64_t rx_wrong_source = 0;  // datagrams from an address that was not learnt
    std::uint64_t rx_wrong_frame = 0;   // frames of another source, type or length
    std::uint64_t rx_no_buffer = 0;     // times all buffers were lent
  };
  const Counters& counters() const { return counters_; }

 private:
  static constexpr std::size_t kBuffer = 65'536;
  static constexpr std::uint32_t kNone = 0xffffffff;
  // Looks between two system calls: kHot at first, and twice as many each time that kInVain system calls were in
  // vain. So a train that comes after a long wait is found late only in proportion to that wait.
  static constexpr std::uint32_t kHot = 4, kCold = 512;
  static constexpr std::uint32_t kInVain = 256;
  static constexpr std::uint32_t kSets = 64, kWays = 4;

  struct Peer {
    MacAddress mac;
    bool known;
    bool left;
    bool by_v4;
    bool alone;                          // no socket can be connected to it
    enum class Heard : std::uint8_t { kNo, kByV4, kByV6 } heard;  // how we last heard the peer
    TrainAddress at;
  };

  static std::uint32_t set_of(const void* mac) {
    const auto* const bytes = static_cast<const std::uint8_t*>(mac);
    return (bytes[5] ^ bytes[4] * 7u) % kSets;
  }
  const Peer* find(const void* mac) const;
  Peer* place_of(const MacAddress& mac);
  Peer* find(const void* mac) {
    return const_cast<Peer*>(static_cast<const TrainSocket*>(this)->find(mac));
  }
  bool is_from(const Peer& peer, const sockaddr_in6& from) const;
  static sockaddr_in6 address_of(const Peer& peer);
  bool may_connect(const Peer& peer) const;
  [[gnu::noinline, gnu::cold]] void connect_to(Peer& peer);
  void disconnect();
  bool send_to(Peer& peer);
  bool take_next(std::byte* data);
  bool take_datagram(std::byte* data, std::size_t bytes, std::size_t segment,
                     const sockaddr_in6& from);

  int socket_ = -1, guard_ = -1;
  std::uint32_t mtu_ = 0, types_ = 0;
  TrainAddress own_;
  Counters counters_;

  TrainPages pages_;
  bool connected_ = false;
  OutgoingTrain train_;

  std::uint32_t peers_ = 0;
  std::atomic<bool> expected_{false};
  long received_ = 0;
  std::uint32_t looks_ = 0, interval_ = kCold, vain_ = 0;

  std::byte* memory_ = nullptr;
  std::uint32_t free_[kBuffers], free_count_ = 0;  // the last one given is the first one taken
  std::uint16_t lent_[kBuffers] = {};              // frames of a buffer that are lent or wait
  std::uint32_t buffer_ = kNone;                   // the buffer whose frames wait: its bytes [at_, end_)
  std::uint32_t at_ = 0, end_ = 0, segment_ = 0;

  Peer table_[kSets][kWays] = {};
};

}  // namespace viaduct

#endif
