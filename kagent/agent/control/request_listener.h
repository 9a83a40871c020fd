// Programs that have connected to the agent and not asked for anything yet.
//
//   connection --request--> handed on
//       +-- says nothing for kPatienceNs, or there are too many such: closed
//
// One packet is read, and only the copy is looked at. A packet with descriptors is refused, and these are not
// touched.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_REQUEST_LISTENER_H
#define VIADUCT_KAGENT_AGENT_CONTROL_REQUEST_LISTENER_H

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <string>

#include "xdp/clock.h"
#include "kagent/agent/control/control_socket.h"
#include "kagent/agent/process/event_loop.h"
#include "kagent/agent/control/listen_socket.h"
#include "kagent/agent/control/log_limit.h"
#include "kagent/agent/control/peer.h"
#include "kagent/agent/control/service_counters.h"
#include "kagent/agent/process/user_threads.h"

namespace viaduct {

class RequestListener {
 public:
  static constexpr std::uint64_t kPatienceNs = 2 * kNsPerSecond;
  static constexpr std::size_t kMostWaiting = 128;         // connections without a request ...
  static constexpr std::size_t kMostWaitingOfUser = 64;    // ... and of one user, root excepted

  // A program's request. `fault`: what is wrong with the packet as such; else nullptr.
  struct Request {
    ControlSocket& socket;
    const Peer& peer;
    std::span<const std::byte> message;
    const char* fault;
  };
  using OnRequest = std::function<void(const Request& request)>;

  // Listens at `path`. Throws SocketError and std::system_error. All arguments must outlive this.
  RequestListener(const std::string& path, EventLoop& loop, UserThreads& threads,
                  ServiceCounters& counters, LogLimit& log_limit, OnRequest on_request);
  ~RequestListener();
  RequestListener(const RequestListener&) = delete;
  RequestListener& operator=(const RequestListener&) = delete;

  // Closes connections whose time is over. To be called now and then, and at next_deadline().
  void tick(std::uint64_t now);
  std::uint64_t next_deadline() const;  // ~0: never

  std::size_t waiting() const { return waiting_.size(); }
  // SO_NETNS_COOKIE of the network namespace it listens in; 0: the kernel tells none.
  std::uint64_t network() const;

 private:
  // Oldest first.
  struct Waiting {
    ControlSocket socket;
    Peer peer;
    std::uint64_t deadline;
    EventLoop::Token token;
  };
  using WaitingRef = std::list<Waiting>::iterator;

  void listen();
  void accept_some();
  bool accept_one();
  void make_room(const Peer& peer);
  void drop(WaitingRef connection);
  void on_packet(WaitingRef connection);

  EventLoop& loop_;
  UserThreads& threads_;
  ServiceCounters& counters_;
  LogLimit& log_limit_;
  OnRequest on_request_;
  ListenSocket listener_;
  EventLoop::Token listener_token_ = 0;   // 0: pausing until listen_at_
  std::uint64_t listen_at_ = 0;
  std::list<Waiting> waiting_;
};

}  // namespace viaduct

#endif
