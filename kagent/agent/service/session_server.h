// The agent's side of the control protocol (control.h): judges what programs ask for
// (request_listener.h), and keeps the sessions that it gave them.
//
//   connection --hello--> judged --> session ... until the program closes it, speaks again or the
//       |                    |   |               interface goes away
//       |                    |   +- port made: answered in the next rounds of the loop
//       +-- adopt: the same, for a port that an earlier agent has left
//       +-- attach: judged --> part of a session that is there ... until the process closes it; a
//                            |  session lasts as long as any of its processes
//                            +--> answer that says why not, closed
//
// Everything that a program says is taken for hostile. Nothing here waits for a program: its memory is
// opened by its account's thread.
#ifndef VIADUCT_KAGENT_AGENT_SERVICE_SESSION_SERVER_H
#define VIADUCT_KAGENT_AGENT_SERVICE_SESSION_SERVER_H

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kagent/agent/sessions/attached.h"
#include "xdp/clock.h"
#include "kagent/agent/config/config.h"
#include "kagent/contract/control.h"
#include "kagent/agent/control/control_socket.h"
#include "kagent/agent/process/event_loop.h"
#include "kagent/agent/grants/grants.h"
#include "kagent/agent/sessions/local_paths.h"
#include "kagent/agent/nic/agent_nic.h"
#include "kagent/agent/control/peer.h"
#include "kagent/agent/reports/reports.h"
#include "kagent/agent/control/request_listener.h"
#include "kagent/agent/control/service_counters.h"
#include "kagent/agent/sessions/session.h"
#include "kagent/agent/sessions/user_sessions.h"
#include "kagent/agent/process/user_threads.h"

namespace viaduct {

class SessionServer {
 public:
  static constexpr std::size_t kMostAskingOfUser = 64;     // of an account, whose memory is being opened

  // Throws SocketError and std::system_error. All arguments must outlive the server; `nics` are in
  // the order of the VIPL's NIC numbers. `counters_text` makes what kCounters answers.
  SessionServer(const Config& config, EventLoop& loop, std::span<const std::unique_ptr<AgentNic>> nics,
                ServiceCounters& counters, LocalPaths& local_paths,
                std::function<std::string()> counters_text);
  // Ends all sessions.
  ~SessionServer();
  SessionServer(const SessionServer&) = delete;
  SessionServer& operator=(const SessionServer&) = delete;

  // Closes connections whose time is over, says last disconnects for programs that are gone. To be
  // called now and then, and at next_deadline(). False: an operator has asked to drain the agent, and no connection
  // is left.
  bool tick(std::uint64_t now);
  std::uint64_t next_deadline() const;  // ~0: never

  // A NIC has been opened: programs may come for the ports that an earlier agent has left there.
  void inherit(AgentNic& nic);

  // Ends the sessions of a NIC whose interface went away, and waits until nothing granted is left.
  void end_sessions(const AgentNic& nic);
  void end_all();
  // As end_all(), but granted programs go on and their ports stay, for the next agent.
  void hand_over();

  std::size_t sessions() const { return sessions_.size(); }
  std::size_t waiting() const { return listener_.waiting(); }
  const Grants& grants() const { return grants_; }
  UserThreads& threads() { return threads_; }
  // Whether no work is left that was given to a thread.
  bool idle() const { return grants_.idle() && threads_.busy() == 0; }

 private:
  // A process that has asked for a session or a part in one.
  struct Asking {
    ControlSocket socket;
    Peer peer;
    ProgramAccess access;
    Descriptor process;
  };

  struct Live {
    ControlSocket socket;
    std::unique_ptr<Session> session;
    EventLoop::Token socket_token, agent_wake_token, process_token;
    std::uint32_t attached = 0;  // processes
    bool first_left = false;     // only attached processes are left
    std::uint64_t opened = 0;    // when
    bool takes_guard = false;    // the program takes the guard of its trains' port
  };

  // A process that has attached to a session.
  struct AttachedClient {
    ControlSocket socket;
    std::uint64_t session;
    std::unique_ptr<Attached> process;
    EventLoop::Token socket_token, process_token;
  };

  void on_request(const RequestListener::Request& request);
  void serve(ControlSocket& socket, const Peer& peer, std::span<const std::byte> message);
  template <class Request>
  void open_then(ControlSocket& socket, const Peer& peer, const Request& request,
                 void (SessionServer::*then)(Asking& asking, const Request& request));
  void serve_hello(Asking& asking, const control::Hello& hello);
  void serve_adopt(Asking& asking, const control::Adopt& adopt);
  std::uint64_t add_session(AgentNic& nic, Asking& asking);
  void check_share(AgentNic& nic, const Peer& peer) const;
  bool judge_placement(const AgentNic& nic, int socket, const Peer& peer, control::Placement wish);
  void on_port_made(std::uint64_t id, bool insists, std::optional<Grants::Held> port,
                    const std::string& why);
  void answer(std::uint64_t id);
  void give_up(std::uint64_t id, const Refused& refused);
  void watch(std::uint64_t id);
  bool drained() const;
  void end_hanging(std::uint64_t now);
  void limit_tables();
  void on_session_socket(std::uint64_t id);
  void on_process_end(std::uint64_t id);
  void leave(std::uint64_t id);

  // session_server_report.cc
  void serve_report(int socket, const Peer& peer, std::span<const std::byte> message);

  // session_server_attach.cc
  void serve_attach(Asking& asking, const control::Attach& attach);
  std::uint64_t find_family(const ucred& peer, const control::FamilySecret& family) const;
  void answer_attached(std::uint64_t id);
  void on_attached_socket(std::uint64_t id);
  void on_attached_end(std::uint64_t id);
  void end_attached(std::uint64_t id);
  void tell_attached(std::uint64_t session);
  void end_attached_of(std::uint64_t session);
  void end(std::uint64_t id, std::uint64_t ServiceCounters::*cause);
  void refuse(int socket, const Peer& peer, const Refused& refused);

  const Config& config_;
  EventLoop& loop_;
  std::span<const std::unique_ptr<AgentNic>> nics_;
  ServiceCounters& counters_;
  LocalPaths& local_paths_;
  Reports reports_;
  Grants grants_;
  UserThreads threads_;
  LogLimit log_limit_;
  RequestListener listener_;
  std::map<std::uint64_t, Live> sessions_;
  std::map<std::uint64_t, AttachedClient> attached_;
  UserSessions sessions_of_user_;  // and attached processes
  std::uint64_t next_id_ = 1;
  bool handing_over_ = false, ending_all_ = false;
  std::int64_t faults_ = 0;  // of this thread, when the tables were last looked at
};

}  // namespace viaduct

#endif
