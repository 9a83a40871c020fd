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

// Held by who has locked a socket, with its lanes (DatagramGuard). Clang can't follow a lane to its socket's lock.
struct VIADUCT_CAPABILITY("lock") LaneState {};
inline constexpr LaneState lane_state;

struct DatagramLane final : public LaneOwner {
  DatagramLane(DatagramSocket& of, DatagramTransport& vi, const sockaddr_in& to) VIADUCT_REQUIRES(engine::g_turn)
      : socket(of), transport(vi), peer(to) {
    vi.receives.told = this;
  }
  void arrived(const ProcessNic::Arrival& arrival) override VIADUCT_REQUIRES(engine::g_turn);
  void transport_failed() override {}  // the result of post() tells

  // Whether there is a place without a message that has yet to leave.
  bool has_room() VIADUCT_REQUIRES(lane_state) {
    if (posted - completed >= kSendPlaces) completed += transport.completed();
    return posted - completed < kSendPlaces;
  }
  // The memory for the next message, if there is room.
  std::byte* next_place() VIADUCT_REQUIRES(lane_state) { return transport.to_send(posted % kSendPlaces); }
  // Sends the bytes that are in it. False: the connection is over.
  bool post(Kind kind, std::size_t bytes) VIADUCT_REQUIRES(lane_state) {
    const std::uint32_t place = posted % kSendPlaces;
    if (!transport.post(place, static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(kind))) return false;
    ++posted;
    return true;
  }
  bool all_sent() VIADUCT_REQUIRES(lane_state) {
    completed += transport.completed();
    return posted == completed;
  }

  DatagramSocket& socket;
  DatagramTransport& transport;
  const sockaddr_in peer;

  Handshake handshake VIADUCT_GUARDED_BY(lane_state);
  bool started VIADUCT_GUARDED_BY(lane_state) = false;  // this end has begun to send on the lane
  bool leaves VIADUCT_GUARDED_BY(lane_state) = false;  // this end sends no more on it
  bool too_long VIADUCT_GUARDED_BY(lane_state) = false;  // leaves because a datagram was too long for a lane
  // Leaves because the peer is not vouched for any more: nothing of it is taken.
  bool doubted VIADUCT_GUARDED_BY(lane_state) = false;
  // The peer sends no more on it, or the VI is not connected any more.
  bool peer_left VIADUCT_GUARDED_BY(lane_state) = false;
  bool answer_due VIADUCT_GUARDED_BY(lane_state) = false;  // LEFT is yet to be sent
  bool left_heard VIADUCT_GUARDED_BY(lane_state) = false;
  bool broken VIADUCT_GUARDED_BY(lane_state) = false;
  bool open VIADUCT_GUARDED_BY(lane_state) = false;  // counted as open by the socket
  bool held VIADUCT_GUARDED_BY(lane_state) = false;  // arrivals are held back until the kernel's socket is empty
  // The kernel's socket has to be empty at this time or later; 0: no datagram has come yet.
  std::uint64_t held_until VIADUCT_GUARDED_BY(lane_state) = 0;
  std::uint32_t posted VIADUCT_GUARDED_BY(lane_state) = 0;
  std::uint32_t completed VIADUCT_GUARDED_BY(lane_state) = 0;
  std::uint64_t no_room_since VIADUCT_GUARDED_BY(lane_state) = 0;
  std::uint64_t used_at VIADUCT_GUARDED_BY(lane_state) = 0;  // the time of the last datagram
};

}  // namespace viaduct::sovia::datagram

#endif
