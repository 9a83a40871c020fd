// One end of a connection: a VI with what the two ends tell each other (wire.h). All functions are
// called with the NIC's mutex held, but for those that say otherwise.
//
//   requester   kIdle > kCalling > kAsked > kUp > kDown
//   acceptor    kGreeting > kRequested > kAnswering > kUp > kDown
//                                      > kRefusing > kDown
//
// The link alone ends the connection; its transfers and receives say when it must.
#ifndef VIADUCT_VIPL_FABRIC_LINK_H
#define VIADUCT_VIPL_FABRIC_LINK_H

#include <netinet/in.h>

#include <vector>

#include "vipl/fabric/receives.h"
#include "vipl/fabric/transfers.h"

namespace viaduct::fabric {

class Link final : private NicLink {
 public:
  using Phase = LinkState::Phase;

  // nullptr if there is no room. To be called without the mutex.
  static Link* make(SharedNic& nic, std::uint32_t transfer_bytes);
  // Ends the connection and the link. To be called without the mutex, and by one thread only. A link that is being
  // connected ends when the connecting is over.
  static void destroy(Link* link);

  VIP_VI_HANDLE vi() const { return state_.vi; }
  bool up() const { return state_.up(); }
  const sockaddr_in& peer() const { return peer_; }

  void set_user(LinkUser* user) { state_.user = user; }
  void configure(Regions& regions, std::uint32_t sends, std::uint32_t receives, bool strict);

  // Connections. The listener prepares a link before it accepts with its VI.
  void expect_request();
  int connect(const sockaddr_in& self, const sockaddr_in& peer, const void* data, std::size_t bytes);
  int accept(const sockaddr_in& self, const void* data, std::size_t bytes);
  // reject(): the link has no user from then on, and ends by itself.
  int reject(const void* data, std::size_t bytes);
  int shut_down();

  // Transfers: 0, -FI_EAGAIN or another error.
  ssize_t send(const Request& request) { return settled(transfers_.send(request)); }
  ssize_t write(const Request& request) { return settled(transfers_.write(request)); }
  ssize_t read(const Request& request) { return settled(transfers_.read(request)); }
  ssize_t post_receive(const Request& request) { return receives_.post(request); }
  std::size_t sends_left() const { return transfers_.sends_left(); }
  std::size_t receives_left() const { return receives_.left(); }
  bool all_sent() const { return ring_.empty() && transfers_.idle(); }

 private:
  Link(SharedNic& nic, std::uint32_t transfer_bytes) : state_(nic, transfer_bytes) {}
  ~Link();
  bool set_up();

  // Calls from the NIC.
  void on_send_done() override;
  void on_receive_done() override;
  void on_lost() override;
  void feed() override;

  void set_phase(Phase phase);
  // Ends the connection if the transfers have found it to be broken.
  ssize_t settled(ssize_t result);
  void call();
  int call_patiently();
  int call_once(std::uint32_t transfer_bytes, VIP_RETURN& code);
  bool post_greeting(Greeting::Kind kind, const void* data, std::size_t bytes);
  void on_greeting(VIP_DESCRIPTOR& descriptor);
  void on_request(const Greeting& greeting);
  void on_answer(const Greeting& greeting);
  void on_greeting_sent(int error);
  void learn(const Greeting& greeting);
  void end(int reason);
  bool take_sent();
  bool take_received();

  LinkState state_;
  SendRing ring_{state_};
  Transfers transfers_{state_, ring_, *this};
  Receives receives_{state_, ring_};
  bool added_ = false;
  bool abandoned_ = false;  // the worker that connects it is to destroy it
  sockaddr_in self_{};
  sockaddr_in peer_{};
  std::vector<unsigned char> cm_data_;
};

}  // namespace viaduct::fabric

#endif
