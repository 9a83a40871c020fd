// A datagram lane of a socket: the VI to one peer, and how far the two ends are with each other.
#ifndef VIADUCT_SOVIA_DATAGRAM_DATAGRAM_LANE_H
#define VIADUCT_SOVIA_DATAGRAM_DATAGRAM_LANE_H

#include <netinet/in.h>

#include <atomic>
#include <cstdint>

#include "sovia/datagram/datagram_transport.h"
#include "sovia/datagram/handshake.h"
#include "sovia/lane/engine.h"

namespace viaduct::sovia::datagram {

class DatagramSocket;

struct DatagramLane final : public LaneOwner {
  DatagramLane(DatagramSocket& of, DatagramTransport& vi, const sockaddr_in& to)
      : socket(of), transport(vi), peer(to) {
    vi.receives.told = this;
  }
  void arrived(const ProcessNic::Arrival& arrival) override;
  void transport_failed() override {}  // the result of post() tells

  // Whether there is a place without a message that has yet to leave.
  bool has_room() {
    if (posted - completed >= kSendPlaces) completed += transport.completed();
    return posted - completed < kSendPlaces;
  }
  // The memory for the next message, if there is room.
  std::byte* next_place() { return transport.to_send(posted % kSendPlaces); }
  // Sends the bytes that are in it. False: the connection is over.
  bool post(Kind kind, std::size_t bytes) {
    const std::uint32_t place = posted % kSendPlaces;
    if (!transport.post(place, static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(kind))) return false;
    ++posted;
    return true;
  }
  bool all_sent() {
    completed += transport.completed();
    return posted == completed;
  }

  DatagramSocket& socket;
  DatagramTransport& transport;
  const sockaddr_in peer;

  // --- with the socket's lock
  Handshake handshake;
  bool started = false;     // this end has begun to send on the lane
  bool leaves = false;      // this end sends no more on it
  bool too_long = false;    // leaves because a datagram was too long for a lane
  bool doubted = false;     // leaves because the peer is not vouched for any more: nothing of it is taken
  bool peer_left = false;   // the peer sends no more on it, or the VI is not connected any more
  bool answer_due = false;  // LEFT is yet to be sent
  bool left_heard = false;
  bool broken = false;
  bool open = false;          // counted as open by the socket
  bool held = false;          // arrivals are held back until the kernel's socket is empty ...
  std::uint64_t held_until = 0;  // found empty at this time or later; 0: no datagram has come yet
  std::uint32_t posted = 0, completed = 0;
  std::uint64_t no_room_since = 0;
  std::uint64_t used_at = 0;  // the time of the last datagram
};

}  // namespace viaduct::sovia::datagram

#endif
