// The peers that a port reaches through memory: programs of the same host, each by a pair of rings.
//
// The agent makes the pair, a file in memory, and hands it to both programs; that is how each knows
// whose address the other has. A frame from a ring that names another source is counted and dropped.
//
// Compiled into libvipl: no allocation, no exception, nothing but the C library. One thread at a time.
#ifndef VIADUCT_XDP_LOCAL_LOCAL_PEERS_H
#define VIADUCT_XDP_LOCAL_LOCAL_PEERS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "xdp/local/local_ring.h"
#include "xdp/port.h"

namespace viaduct::local {

class LocalPeers {
 public:
  static constexpr std::uint32_t kMost = 64;  // at once

  // The most that a frame to a local peer may have behind its Ethernet header: a chunk of 32 KB, with the
  // headers of all kinds and a checksum. More would make one end wait for the other's copy.
  static constexpr std::uint32_t kPayloadLimit = (32u << 10) + 128;

  // Marks the ids of frames that have to do with these peers.
  static constexpr std::uint32_t kId = 0x20000000;

  // Makes the object in memory of its own; `kept`: how many received frames the borrower may keep. nullptr: no
  // memory.
  static LocalPeers* make(const MacAddress& own, std::uint32_t kept);
  static void destroy(LocalPeers* peers);

  // Maps a pair, of which this is end 0 or 1. Takes the file over. A program that has rings already (the
  // agent's number for it tells) keeps those. nullptr, or in a few words what failed.
  const char* add(const MacAddress& peer, std::uint64_t program, int file, unsigned end);
  // The peer has ended. Frames still in the ring are received, then the pair is given back.
  void end(const MacAddress& peer);

  // Whether frames can be sent to the peer: it has its end of the rings.
  bool has(const MacAddress& address) const {
    const Peer* const peer = find(address);
    return peer != nullptr && peer->out.has_consumer();
  }

  std::size_t receive(std::span<Frame> frames);
  // is_past_mark(): whether all that was in the rings at mark() has been received.
  void mark();
  bool is_past_mark();
  void release(const Frame& frame) { free_[free_count_++] = frame.id & ~kId; }

  // Reserves one frame of so many bytes at most. False: there is no room, or no such peer (any more).
  bool reserve(const MacAddress& to, std::uint32_t bytes, Frame& frame);
  void submit(const Frame& frame);
  // To be called after submit(): wakes the receivers that sleep, by wake(address).
  template <class Wake>
  void flush(Wake&& wake) {
    if (unflushed_ == 0) return;
    for (std::uint32_t i = 0; i < count_; ++i) {
      if ((unflushed_ >> i & 1) != 0 && peers_[i].out.must_wake()) wake(peers_[i].address), ++counters_.woken;
    }
    unflushed_ = 0;
  }

  bool has_frames() const {
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (!peers_[i].in.empty() || peers_[i].ended) return true;
    }
    return false;
  }

  // Asks senders to wake this end from now on. False if a frame has come: then they need not.
  bool prepare_to_sleep();

  struct Counters {
    std::uint64_t rx_frames, rx_bytes, tx_frames, tx_bytes;
    std::uint64_t foreign;  // frames that named another source
    std::uint64_t broken;   // rings in which there was nonsense
    std::uint64_t full;     // frames for which there was no room yet
    std::uint64_t woken;
  };
  const Counters& counters() const { return counters_; }
  std::uint32_t count() const { return count_; }

 private:
  struct Peer {
    MacAddress address;
    std::uint64_t program;
    bool ended;
    bool break_counted;  // a break of its ring has been counted
    void* memory;
    RingWriter out;
    RingReader in;
  };

  LocalPeers(const MacAddress& own, std::byte* room, std::uint32_t buffers);
  void awake();
  void forget(std::uint32_t number);
  std::size_t receive_from(Peer& peer, std::span<Frame> frames);
  const Peer* find(const MacAddress& peer) const {
    const std::uint8_t number = by_address_[slot(peer)];
    return number != 0 && peers_[number - 1].address == peer ? &peers_[number - 1] : nullptr;
  }
  Peer* find(const MacAddress& peer) { return const_cast<Peer*>(std::as_const(*this).find(peer)); }
  void enter(std::uint32_t number);
  // The agent gives out addresses that differ in these bits.
  static constexpr std::uint32_t kSlots = 1024;
  static std::uint32_t slot(const MacAddress& peer) { return (peer[4] << 8u | peer[5]) & (kSlots - 1); }

  static constexpr std::uint32_t kBurst = 64;
  // Bytes that are taken from a ring at once: they should still be in the cache when they are looked at.
  static constexpr std::size_t kBudget = 32u << 10;
  static constexpr std::size_t kStride = kMostFrame + 2 * kLine;

  MacAddress own_;
  std::byte* room_;           // buffers of kStride bytes, into which frames are copied
  std::uint32_t free_count_;
  std::uint32_t count_ = 0;
  std::uint64_t unflushed_ = 0;  // peers, a bit for each
  std::uint32_t turn_ = 0;       // the peer whose ring is looked at first
  std::uint32_t naps_ = 0;
  bool sleeping_ = false;
  Counters counters_{};
  std::array<std::uint8_t, kSlots> by_address_{};  // number + 1; 0: none
  std::array<Peer, kMost> peers_{};
  std::uint32_t buffers_;
  std::uint32_t* free_;       // numbers of free buffers; the one given back last is taken first
};

}  // namespace viaduct::local

#endif
