// The agent at work: one thread that drives the stacks of all NICs and serves programs in between.
//
//   while there is work    progress(), again and again; programs' requests are looked at every ms
//   for spin_us after it   the same, giving way to others between the rounds
//   then                   asleep until a frame, a agent wake, a request, a signal or a deadline
//
// The clock is read once a round.
#ifndef VIADUCT_KAGENT_AGENT_SERVICE_SERVICE_H
#define VIADUCT_KAGENT_AGENT_SERVICE_SERVICE_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kagent/agent/process/hang_guard.h"
#include "kagent/agent/config/config.h"
#include "kagent/agent/process/event_loop.h"
#include "kagent/contract/idle.h"
#include "kagent/contract/spin_time.h"
#include "kagent/agent/nic/agent_nic.h"
#include "kagent/agent/control/service_counters.h"
#include "kagent/agent/service/session_server.h"

namespace viaduct {

class Service {
 public:
  // Throws PortError. The default opens real interfaces.
  using OpenPort = std::function<std::unique_ptr<Port>(const NicConfig&)>;
  using MakeGranter =
      std::function<std::unique_ptr<Granter>(const NicConfig&, HostPort&)>;

  explicit Service(const Config& config);
  Service(const Config& config, OpenPort open_port, MakeGranter make_granter = nullptr);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Takes the socket and opens all interfaces. Throws SocketError, PortError, std::system_error.
  void start();

  // One line on what is served, for the log.
  std::string description() const;

  // Works until stop() is called (from a handler of loop()), then says goodbye to all peers and closes all interfaces.
  // `at_end` is called last, where the descriptors still are: after a call that hung, other threads have none.
  void run(const std::function<void()>& at_end = nullptr);
  void stop() { stopping_ = true; }
  // As stop(), but programs that have their own ports go on, for the next agent.
  void hand_over() { handing_over_ = stopping_ = true; }

  EventLoop& loop() { return loop_; }

 private:
  struct Served {
    EventLoop::Token token = 0;  // of the port's descriptor; 0: it has none
    int watched = -1;            // that descriptor when we last slept
    std::uint64_t retry_at = 0;  // while the interface is away
    bool suspect = false;        // the port's descriptor reported an error
    std::string last_error;
    std::uint64_t name_conflicts = 0;  // how many have been reported
    std::uint64_t names_at = 0;        // when the next report may be written
  };

  void serve();
  unsigned progress(std::uint64_t now);
  unsigned look_around(std::uint64_t now);
  void look_after_others(std::uint64_t now);
  void look_after_ports(std::uint64_t now);
  std::uint64_t sleep(std::uint64_t now);
  void note_work(std::uint64_t now);
  void note_round(std::uint64_t ns);
  void report_names(std::size_t number, std::uint64_t now);
  void give_way(std::uint64_t now);
  void watch_port(std::size_t number);
  void note_hosted(const AgentNic& nic) const;
  void lose_port(std::size_t number, std::uint64_t now);
  void retry_port(std::size_t number, std::uint64_t now);
  void say_goodbye();
  unsigned poll(std::uint64_t timeout_ns);
  std::string counters_text();

  const Config& config_;
  EventLoop loop_;
  HangGuard hang_guard_{loop_};
  ServiceCounters counters_;
  std::vector<std::unique_ptr<AgentNic>> nics_;
  std::vector<Served> served_;
  LocalPaths local_paths_{counters_};
  std::unique_ptr<SessionServer> server_;
  bool stopping_ = false;
  bool handing_over_ = false;
  bool few_processors_;
  std::uint64_t busy_until_ = 0;     // when the spinning ends
  std::uint64_t busy_since_ = 0;     // when there was last something to do
  bool slept_ = false;               // since then
  idle::SpinTime spin_time_;
  std::uint64_t next_look_ = 0;      // when programs' requests are looked at next
  std::uint64_t next_port_look_ = 0;
  bool ports_seen_ = true;           // ports were looked after since we slept, and may have new descriptors
  std::uint32_t idle_rounds_ = 0;
  idle::Crowd crowd_;                // of others that want the processors
};

}  // namespace viaduct

#endif
