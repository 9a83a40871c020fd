// Another host: its VI, Unreliable Delivery, and what is known of the other end.
//
//     apart --ask--> asking --both hosts ask--> connected --either end, or silence--> apart
//
// Both hosts ask (VipConnectPeerRequest), so none of them waits for the other and nothing blocks.
#ifndef VIADUCT_VIPL_LANEVI_PEER_H
#define VIADUCT_VIPL_LANEVI_PEER_H

#include <chrono>
#include <string>
#include <vector>

#include "vipl/lanevi/counters.h"
#include "vipl/lanevi/link_nic.h"

namespace viaduct::lanevi {

using Clock = std::chrono::steady_clock;

class Peer {
 public:
  static constexpr std::size_t kReceives = 64;
  static constexpr std::size_t kSends = 32;  // posted at once

  // Throws Failure.
  Peer(LinkNic& nic, const MacAddress& host, std::string name, PeerCounters& counters);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const MacAddress& host() const { return host_; }
  const std::string& name() const { return name_; }
  PeerCounters& counters() { return counters_; }
  bool connected() const { return state_ == State::kConnected; }

  // Asks for a connection, unless there is one or it has been asked for already.
  void ask(const std::string& discriminator);
  // VIP_SUCCESS: it is connected from now on. VIP_NOT_DONE: not yet. Anything else: the attempt has
  // failed.
  VIP_RETURN await();
  // Ends the connection, or the attempt. Posted sends go to `freed`.
  void end(std::vector<Slot*>& freed);
  // Whether the connection has broken.
  bool broken() const;
  // Gives the host another address; to be called when it is not connected. Posted sends go to `freed`.
  void move_to(const MacAddress& host, std::vector<Slot*>& freed);

  bool has_room() const { return posted_ < kSends; }
  // False: the slot is still the caller's.
  bool send(Slot* slot, std::uint32_t bytes, bool hello);
  // The oldest send that has completed, or nullptr.
  Slot* take_sent();
  // The oldest receive that has completed, or nullptr. The slot is to be given back.
  Slot* take_received();
  void give_back(Slot* slot);

  // The members below are for the user of this peer.
  bool stalled = false;       // nothing has gone through for a while
  bool wants_answer = false;  // the peer has not said that it heard our hello
  bool heard = false;         // we have heard the peer's hello
  bool takes_uncut_udp = false;
  Clock::time_point hello_time{};
  VIP_RETURN told = VIP_SUCCESS;  // the failure that was logged last

 private:
  enum class State { kApart, kAsking, kConnected };

  MacAddress host_;
  const MacAddress own_;
  const std::string name_;
  PeerCounters& counters_;
  SlotBlock receives_;
  VIP_VI_HANDLE vi_ = nullptr;
  State state_ = State::kApart;
  std::size_t posted_ = 0;
};

}  // namespace viaduct::lanevi

#endif
