#include "kagent/agent/service/session_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kagent/agent/control/control_socket.h"
#include "kagent/agent/control/user_share.h"
#include "kagent/agent/config/device_names.h"
#include "kagent/agent/process/log.h"
#include "kagent/agent/programs/program_files.h"
#include "kagent/agent/reports/vi_report.h"
#include "kagent/agent/control/control_messages.h"
#include "kagent/agent/sessions/hello_answer.h"

namespace viaduct {
namespace {

using control::Kind;
using control::MessageHead;
using control::Placement;

constexpr std::int64_t kFaultsBetweenLooks = 256;  // 1 MiB

void check_access(const Config& config, int socket, const Peer& peer) {
  if (config.access.allows(peer.account(), groups_of(socket, peer))) return;
  throw Refused{vip::kErrorResource, &ServiceCounters::refused_access,
                text_of_account(peer.account()) + " may not use VI (see [access])"};
}

void check_threads(const UserThreads& threads, const Peer& peer) {
  const uid_t account = peer.account();
  if (threads.busy(account) >= SessionServer::kMostAskingOfUser) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_user_limit,
                  text_of_account(account) + " asks for too many sessions at once"};
  }
  if (!threads.may_have(account)) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_program,
                  "the memory of " + std::to_string(threads.hung(account)) + " programs of " +
                      text_of_account(account) + " can't be reached (a file system that does not answer?)"};
  }
}

// Why a session ended, as operators are told.
const char* end_word(std::uint64_t ServiceCounters::*cause) {
  if (cause == &ServiceCounters::sessions_broken) return "it sent another message after its request";
  if (cause == &ServiceCounters::sessions_overdrawn) return "its user has too much memory in tables";
  if (cause == &ServiceCounters::sessions_hanging) return "its memory could not be reached for too long";
  if (cause == &ServiceCounters::sessions_lost) return "its interface disappeared";
  return "";
}

AgentNic& find_nic(std::span<const std::unique_ptr<AgentNic>> nics, std::string_view device) {
  std::vector<std::string> interfaces;
  for (const auto& nic : nics) interfaces.push_back(nic->interface());
  const auto number = find_device(device, interfaces);
  if (!number) {
    throw Refused{vip::kInvalidParameter, &ServiceCounters::refused_device,
                  "there is no device " + shown(device)};
  }
  AgentNic& nic = *nics[*number];
  if (!nic.is_open()) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_down,
                  nic.why_closed() + "; the agent tries it every second"};
  }
  return nic;
}

// Tells a program the cookie of the agent's network namespace, which is no secret.
void tell_network(int socket, std::uint64_t cookie) {
  control::Network answer{};
  answer.head.kind = static_cast<std::uint16_t>(Kind::kNetwork);
  answer.head.bytes = sizeof answer;
  answer.head.result = vip::kSuccess;
  answer.cookie = cookie;
  send_message(socket, &answer, sizeof answer);
}

void check_draining(const Reports& reports) {
  if (!reports.draining()) return;
  throw Refused{vip::kErrorResource, &ServiceCounters::refused_draining,
                "the agent is being drained: it takes no new programs"};
}

void tell_nic(int socket, const AgentNic& nic) {
  control::NicAnswer answer;
  std::memset(static_cast<void*>(&answer), 0, sizeof answer);
  answer.head = MessageHead{};
  answer.head.kind = static_cast<std::uint16_t>(Kind::kNic);
  answer.head.bytes = sizeof answer;
  answer.head.result = vip::kSuccess;
  answer.nic = nic.attributes();
  send_message(socket, &answer, sizeof answer);
}

}  // namespace

SessionServer::SessionServer(const Config& config, EventLoop& loop,
                             std::span<const std::unique_ptr<AgentNic>> nics, ServiceCounters& counters,
                             LocalPaths& local_paths, std::function<std::string()> counters_text)
    : config_(config),
      loop_(loop),
      nics_(nics),
      counters_(counters),
      local_paths_(local_paths),
      reports_(config, nics, counters, std::move(counters_text)),
      grants_(config, loop, counters),
      threads_(loop),
      log_limit_(counters),
      listener_(config.socket_to_listen_at(), loop, threads_, counters, log_limit_,
                [this](const RequestListener::Request& request) { on_request(request); }) {
}

SessionServer::~SessionServer() {
  end_all();
  grants_.finish();
}

bool SessionServer::tick(std::uint64_t now) {
  reports_.events().collect();
  local_paths_.tick(now);
  listener_.tick(now);
  threads_.look(now);
  grants_.tick(now);
  limit_tables();
  end_hanging(now);
  for (const auto& nic : nics_) {
    if (nic->is_open()) nic->stack().set_draining(reports_.draining());
  }
  return !reports_.draining() || !drained();
}

// Whether no connection is left. Granted programs tell of their connections themselves.
bool SessionServer::drained() const {
  for (const auto& nic : nics_) {
    if (nic->is_open() && nic->stack().usage().connected != 0) return false;
  }
  return std::none_of(sessions_.begin(), sessions_.end(), [](const auto& each) {
    const Session::Granted* const granted = each.second.session->granted();
    if (granted == nullptr) return false;
    report::Session counted{};
    read_counters(granted->granted_segment->stack(), granted->granted_segment->limits(), counted);
    return counted.connected != 0;
  });
}

// Ends programs whose memory could not be reached for seconds, and all that others wait for there.
void SessionServer::end_hanging(std::uint64_t now) {
  for (const auto& nic : nics_) {
    for (const std::uint32_t program : nic->environment().memories().look(now)) {
      const auto ends = [&](const ucred& peer) {
        log::warn("closed the session of {}: its memory could not be reached for too long", text_of(peer));
      };
      for (const auto& [id, live] : sessions_) {
        if (&live.session->nic() != nic.get() || live.session->number() != program) continue;
        ends(live.session->peer());
        end(id, &ServiceCounters::sessions_hanging);
        break;
      }
      for (const auto& [id, attached_client] : attached_) {
        if (&sessions_.at(attached_client.session).session->nic() != nic.get()) continue;
        if (attached_client.process->program() != program) continue;
        ends(attached_client.process->peer());
        ++counters_.sessions_hanging;
        end_attached(id);
        break;
      }
    }
  }
}

// A program can make the agent touch all of a segment, and memory that the agent touches first is charged to it. Page
// faults of this thread show when there may be more of such memory.
void SessionServer::limit_tables() {
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) != 0) return;
  // Fewer faults than before: another thread carries the loop.
  const std::int64_t more = usage.ru_minflt - faults_;
  if (more >= 0 && more < kFaultsBetweenLooks) return;
  faults_ = usage.ru_minflt;
  std::map<uid_t, std::uint64_t> used;
  for (const auto& [id, live] : sessions_) {
    if (live.session->peer().is_root) continue;
    used[live.session->peer().account()] += live.session->segment_used();
  }
  // The largest go first.
  const auto limit = [this](uid_t user, std::uint64_t total) {
    while (total > std::uint64_t{config_.user_limits.tables_mb} << 20) {
      std::uint64_t largest = 0, id = 0;
      for (const auto& [each, live] : sessions_) {
        if (live.session->peer().account() != user) continue;
        const std::uint64_t bytes = live.session->segment_used();
        if (bytes > largest) largest = bytes, id = each;
      }
      if (largest == 0) return;
      log::warn("closed the session of {}: its segment takes {} MiB, and all sessions of {} may take {} "
                "MiB (tables_mb_per_user)",
                text_of(sessions_.at(id).session->peer()), largest >> 20, text_of_account(user),
                config_.user_limits.tables_mb);
      end(id, &ServiceCounters::sessions_overdrawn);
      total -= std::min(total, largest);
    }
  };
  for (const auto& [user, bytes] : used) limit(user, bytes);
}

std::uint64_t SessionServer::next_deadline() const {
  std::uint64_t next = listener_.next_deadline();
  for (const auto& nic : nics_) next = std::min(next, nic->environment().memories().next_look());
  return std::min({next, threads_.next_look(), grants_.next_deadline()});
}

// ---------------------------------------------------------------------------- requests

void SessionServer::on_request(const RequestListener::Request& request) {
  try {
    if (request.fault != nullptr) throw malformed(request.fault);
    serve(request.socket, request.peer, request.message);
  } catch (const Refused& refused) {
    refuse(request.socket.get(), request.peer, refused);
  } catch (const std::exception& error) {
    refuse(request.socket.get(), request.peer, no_resources(error));
  }
}

void SessionServer::check_share(AgentNic& nic, const Peer& peer) const {
  const std::uint64_t used = nic.stack().usage().sessions, all = nic.limits().sessions;
  const auto own = static_cast<std::uint64_t>(std::count_if(sessions_.begin(), sessions_.end(), [&](const auto& each) {
    const Session& session = *each.second.session;
    return &session.nic() == &nic && session.peer().account() == peer.account();
  }));
  if (peer.is_root || used >= all || is_within_share(own, used, all)) return;
  throw Refused{vip::kErrorResource, &ServiceCounters::refused_session_limit,
                text_of_account(peer.account()) + " has " + std::to_string(own) + " of the " + std::to_string(all) +
                    " sessions of " + nic.interface() + ", " + std::to_string(all - used) +
                    " that are left are for root and other users"};
}

// Opens the memory of the process that asks in a thread of its account, then goes on here.
template <class Request>
void SessionServer::open_then(ControlSocket& socket, const Peer& peer, const Request& request,
                              void (SessionServer::*then)(Asking&, const Request&)) {
  check_access(config_, socket.get(), peer);
  check_threads(threads_, peer);
  const auto asking = std::make_shared<Asking>();
  asking->peer = peer;
  asking->process = peer_process(socket.get(), peer);
  const auto found = std::make_shared<ProgramAccess>();  // the thread's until it is done
  UserThreads::Piece piece;
  piece.work = [found, peer, proof = request.proof](const UserThreads::Files& files) {
    *found = open_program(files.empty() ? -1 : files[0].get(), peer, proof);
    UserThreads::Files out;
    if (found->memory.is_open()) out.push_back(found->memory.take_file());
    return out;
  };
  const auto go_on = [this, asking](const std::function<void()>& next) {
    try {
      next();
    } catch (const Refused& refused) {
      refuse(asking->socket.get(), asking->peer, refused);
    } catch (const std::exception& error) {
      refuse(asking->socket.get(), asking->peer, no_resources(error));
    }
  };
  piece.done = [this, asking, found, request, then, go_on](UserThreads::Files files) {
    asking->access = std::move(*found);
    asking->access.process = std::move(asking->process);
    go_on([&] {
      if (!files.empty()) asking->access.memory.give_file(std::move(files[0]));
      (this->*then)(*asking, request);
    });
  };
  piece.late = [go_on] {
    go_on([] {
      throw Refused{vip::kErrorResource, &ServiceCounters::refused_program,
                    "the program's memory can't be reached (a file system that does not answer?)"};
    });
  };
  if (asking->process) piece.files.emplace_back(fcntl(asking->process.get(), F_DUPFD_CLOEXEC, 0));
  // Root's programs do not wait for each other.
  threads_.give({peer.account(), peer.is_root ? static_cast<std::uint32_t>(peer.pid) : 0}, std::move(piece));
  asking->socket = std::move(socket);
}

void SessionServer::refuse(int socket, const Peer& peer, const Refused& refused) {
  ++(counters_.*refused.cause);
  // Programs probe for devices, and tools ask again.
  const bool usual = refused.cause == &ServiceCounters::refused_device ||
                     refused.cause == &ServiceCounters::reports_postponed;
  if (log_limit_.may_log(peer)) {
    log::say(usual ? log::Level::kInfo : log::Level::kWarning, "{} is refused: {}", text_of(peer),
             shown(refused.reason));
  }
  // Else a tool that asks too often would see events of its own.
  if (refused.cause != &ServiceCounters::reports_postponed) {
    reports_.events().note(report::Happened::kRefused, peer, shown(refused.reason), refused.result);
  }
  if (socket < 0) return;
  control::HelloAnswer answer;
  std::memset(static_cast<void*>(&answer), 0, sizeof answer);
  answer.head = MessageHead{};
  answer.head.kind = static_cast<std::uint16_t>(Kind::kHello);
  answer.head.bytes = sizeof answer;
  answer.head.result = refused.result;
  refused.reason.copy(answer.reason, sizeof answer.reason - 1);
  send_message(socket, &answer, sizeof answer);
}

void SessionServer::serve(ControlSocket& socket, const Peer& peer,
                          std::span<const std::byte> message) {
  const MessageHead head = judge_head(message);
  if (head.kind == report::kKind) {
    check_access(config_, socket.get(), peer);
    return serve_report(socket.get(), peer, message);
  }
  switch (static_cast<Kind>(head.kind)) {
    case Kind::kHello:
      check_draining(reports_);
      return open_then(socket, peer, judge_hello(message), &SessionServer::serve_hello);
    case Kind::kAdopt:
      return open_then(socket, peer, judge_adopt(message), &SessionServer::serve_adopt);
    case Kind::kAttach:
      return open_then(socket, peer, judge_attach(message), &SessionServer::serve_attach);
    case Kind::kCounters:
      if (message.size() != sizeof head) throw malformed("not as long as a request for counters");
      check_access(config_, socket.get(), peer);
      return reports_.send_counters(socket.get(), peer);
    case Kind::kNetwork:
      if (message.size() != sizeof head) throw malformed("not as long as a question for the network");
      return tell_network(socket.get(), listener_.network());
    case Kind::kNic:
      check_draining(reports_);  // a program that asks wants to know what it can open
      check_access(config_, socket.get(), peer);
      return tell_nic(socket.get(), find_nic(nics_, judge_ask_nic(message).device));
    case Kind::kNewcomer:
    case Kind::kLocalPeer:
    case Kind::kLocalEnd:
    case Kind::kJoin: break;
  }
  throw malformed("of no known kind");
}

std::uint64_t SessionServer::add_session(AgentNic& nic, Asking& asking) {
  auto session = std::make_unique<Session>(nic, asking.peer, std::move(asking.access));
  const std::uint64_t id = next_id_++;
  sessions_.emplace(id, Live{std::move(asking.socket), std::move(session), 0, 0, 0, 0, false, monotonic_ns()});
  sessions_of_user_.add(asking.peer);
  ++counters_.sessions_opened;
  return id;
}

// Adopts a program that brings the port of an agent that has gone; it gets the same as before.
void SessionServer::serve_adopt(Asking& asking, const control::Adopt& adopt) {
  AgentNic& nic = find_nic(nics_, adopt.device);
  const Peer peer = asking.peer;
  sessions_of_user_.check(peer, config_.sessions_per_user);
  check_share(nic, peer);
  const std::vector<gid_t> groups = groups_of(asking.socket.get(), peer);
  const std::uint64_t id = add_session(nic, asking);
  Session& session = *sessions_.at(id).session;
  MacAddress address;
  std::copy(std::begin(adopt.port), std::end(adopt.port), address.begin());
  const auto find = [&](Grants::Which which, const FileNumber& file) {
    const bool granted_segment = which == Grants::Which::kGrantedSegment;
    Descriptor out = open_program_file(peer, session.process(),
                                       granted_segment ? adopt.granted_segment : adopt.umem, file);
    if (!out) {
      throw Grants::Refusal{&ServiceCounters::refused_adoption,
                            std::string("it does not have the port's ") +
                                (granted_segment ? "granted segment" : "buffers")};
    }
    return out;
  };
  try {
    Grants::Adopted adopted =
        grants_.adopt(nic, peer.account(), groups, address, own_limits(nic), find);
    session.grant({std::move(adopted.held), std::move(adopted.granted_segment)});
    session.set_family(adopt.family);
  } catch (const Grants::Refusal& refusal) {
    return give_up(id, {vip::kErrorResource, refusal.cause, "no adoption: " + refusal.reason});
  } catch (const std::exception& error) {
    return give_up(id, no_resources(error));
  }
  log::info("{} continues with its port on {}", text_of(peer), nic.interface());
  answer(id);
}

void SessionServer::serve_hello(Asking& asking, const control::Hello& hello) {
  AgentNic& nic = find_nic(nics_, hello.device);
  const Peer peer = asking.peer;
  sessions_of_user_.check(peer, config_.sessions_per_user);
  check_share(nic, peer);
  const auto wish = static_cast<control::Placement>(hello.placement);
  const bool grant = judge_placement(nic, asking.socket.get(), peer, wish);
  const std::uint64_t id = add_session(nic, asking);
  sessions_.at(id).takes_guard = hello.proof.is_given();
  if (!grant) return answer(id);
  try {
    const bool insists = wish == Placement::kGranted || config_.placement == Placement::kGranted;
    grants_.make(nic, peer.account(),
                 [this, id, insists](std::optional<Grants::Held> port, const std::string& why) {
                   on_port_made(id, insists, std::move(port), why);
                 });
  } catch (const std::exception& error) {
    give_up(id, no_resources(error));
  }
}

// Whether the program is to have a port. Throws Refused if it can't and must not be hosted instead.
bool SessionServer::judge_placement(const AgentNic& nic, int socket, const Peer& peer,
                                    Placement wish) {
  const bool none_hosted = config_.placement == Placement::kGranted;
  const Placement wanted =
      wish == Placement::kAny || none_hosted ? config_.placement : wish;
  if (wanted == Placement::kHosted) return false;
  if (wish == Placement::kHosted && none_hosted) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_placement,
                  "no program is hosted here (placement = \"granted\")"};
  }
  // A program that did not ask for a port is not told that this NIC has none; the log has said so before.
  if (wanted == Placement::kAny && nic.granter() == nullptr) return false;
  const auto refusal = grants_.judge(nic, peer.account(), groups_of(socket, peer));
  if (!refusal) return true;
  ++(counters_.*refusal->cause);
  reports_.events().note(report::Happened::kNotGranted, peer, shown(refusal->reason));
  if (wanted == Placement::kGranted) {
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_placement,
                  "no port: " + refusal->reason};
  }
  if (log_limit_.may_log(peer)) log::info("{} is hosted: {}", text_of(peer), refusal->reason);
  return false;
}

void SessionServer::on_port_made(std::uint64_t id, bool insists, std::optional<Grants::Held> port,
                                 const std::string& why) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) {
    if (port) grants_.end(std::move(*port));
    return;
  }
  Session& session = *it->second.session;
  if (!port) {
    if (insists) {
      return give_up(id, {vip::kErrorResource, &ServiceCounters::refused_placement,
                          "no port: " + why});
    }
    reports_.events().note(report::Happened::kNotGranted, session.peer(), shown(why));
    if (log_limit_.may_log(session.peer())) log::info("{} is hosted: {}", text_of(session.peer()), shown(why));
    return answer(id);
  }
  try {
    auto granted_segment = std::make_unique<GrantedSegment>(own_limits(session.nic()));
    port->port->set_holder(
        {port->user, number_of(granted_segment->file()), number_of(port->port->umem())});
    session.grant({std::move(*port), std::move(granted_segment)});
  } catch (const std::exception& error) {
    grants_.end(std::move(*port));
    return give_up(id, no_resources(error));
  }
  answer(id);
}

void SessionServer::answer(std::uint64_t id) {
  Live& live = sessions_.at(id);
  const Session& session = *live.session;
  const control::HelloAnswer answer = describe(session, config_);
  std::vector<int> fds{session.segment(), session.agent_wake()};
  if (const Session::Granted* const granted = session.granted()) {
    const AgentPort& port = *granted->held.port;
    // A program that brings the port of an earlier agent has these descriptors.
    if (port.socket() >= 0) {
      fds.insert(fds.end(), {port.socket(), port.umem(), granted->granted_segment->file()});
      if (port.train_address().any()) {
        fds.push_back(port.train_socket());
        if (live.takes_guard && port.train_guard() >= 0) fds.push_back(port.train_guard());
      }
    }
  }
  fds.push_back(session.poll_wake());
  try {
    watch(id);
  } catch (const std::exception& error) {
    return give_up(id, no_resources(error));
  }
  reports_.events().opened(id, session);
  log::debug("{} has opened {}, {}", text_of(session.peer()), session.nic().interface(),
             session.granted() != nullptr ? "granted" : "hosted");
  if (!send_message(live.socket.get(), &answer, sizeof answer, fds)) {
    return end(id, &ServiceCounters::sessions_closed);
  }
  live.session->descriptors_passed();
  if (session.granted() != nullptr) local_paths_.enter(id, session, live.socket.get());
}

// Ends a session that the program has not been told of.
void SessionServer::give_up(std::uint64_t id, const Refused& refused) {
  Live& live = sessions_.at(id);
  const ControlSocket socket = std::move(live.socket);
  const Peer peer = live.session->peer();
  end(id, &ServiceCounters::sessions_closed);
  refuse(socket.get(), peer, refused);
}

// ---------------------------------------------------------------------------- sessions

void SessionServer::watch(std::uint64_t id) {
  Live& live = sessions_.at(id);
  live.socket_token = loop_.add(live.socket.get(), EPOLLIN | EPOLLRDHUP,
                                [this, id](std::uint32_t) { on_session_socket(id); });
  // The agent wake only has to end the sleep.
  live.agent_wake_token = loop_.add(live.session->agent_wake(), EPOLLIN | EPOLLET, [](std::uint32_t) {});
  live.process_token = loop_.add(live.session->process(), EPOLLIN,
                                 [this, id](std::uint32_t) { on_process_end(id); });
}

void SessionServer::on_session_socket(std::uint64_t id) {
  std::byte room[1];
  bool rights = false;
  const ssize_t bytes = sessions_.at(id).socket.look(room, sizeof room, rights);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes > 0) {
    if (log_limit_.may_log(sessions_.at(id).session->peer())) {
      log::warn("closed the session of {}: it sent another message after its request",
                text_of(sessions_.at(id).session->peer()));
    }
    return end(id, &ServiceCounters::sessions_broken);
  }
  leave(id);
}

// The first process has closed its session. Other processes that share it go on, unless the port is the first one's.
void SessionServer::leave(std::uint64_t id) {
  Live& live = sessions_.at(id);
  if (live.attached == 0 || live.session->granted() != nullptr) {
    return end(id, &ServiceCounters::sessions_closed);
  }
  live.first_left = true;
  for (EventLoop::Token* const token : {&live.socket_token, &live.process_token}) {
    loop_.remove(*token);
    *token = 0;
  }
  live.session->first_left();
  live.socket.close();
}

void SessionServer::on_process_end(std::uint64_t id) {
  // The session goes on as long as its socket: a finisher (vipl_ext.h) may have the program's memory.
  Live& live = sessions_.at(id);
  loop_.remove(live.process_token);
  live.process_token = 0;
  ++counters_.programs_ended;
}

void SessionServer::end(std::uint64_t id, std::uint64_t ServiceCounters::*cause) {
  const auto it = sessions_.find(id);
  Live& live = it->second;
  ++(counters_.*cause);
  reports_.events().ends(id);
  const bool program_left = cause == &ServiceCounters::sessions_closed && !ending_all_;
  if (program_left) live.session->program_left();
  for (const EventLoop::Token token : {live.socket_token, live.agent_wake_token, live.process_token}) {
    loop_.remove(token);
  }
  const Peer peer = live.session->peer();
  log::debug("{}: session on {} ended", text_of(peer), live.session->nic().interface());
  sessions_of_user_.remove(peer);
  local_paths_.leave(id, !handing_over_);
  if (auto granted = live.session->take_granted()) {
    if (handing_over_) {
      live.session->leave_behind();
      grants_.leave_behind(std::move(granted->held));
    } else {
      grants_.end(std::move(granted->held), std::move(granted->granted_segment), program_left, monotonic_ns());
    }
  }
  // The segment must say that the session is over before the socket's end can be seen.
  tell_attached(id);
  Descriptor segment = live.session->take_segment();
  live.session.reset();
  close_in_thread(threads_, peer.account(), std::move(segment));
  end_attached_of(id);
  reports_.events().ended(id, end_word(cause));
  sessions_.erase(it);
}

void SessionServer::end_sessions(const AgentNic& nic) {
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    const auto [id, live] = std::pair(it->first, &it->second);
    ++it;
    if (&live->session->nic() == &nic) end(id, &ServiceCounters::sessions_lost);
  }
  reports_.events().note(report::Happened::kInterfaceDown, nic);
  grants_.leave(nic);
}

void SessionServer::end_all() {
  ending_all_ = true;
  while (!sessions_.empty()) end(sessions_.begin()->first, &ServiceCounters::sessions_closed);
  ending_all_ = false;
}

void SessionServer::hand_over() {
  handing_over_ = config_.granted.reattach_ms != 0;
  end_all();
  if (handing_over_) grants_.leave_inherited();
  handing_over_ = false;
}

void SessionServer::inherit(AgentNic& nic) {
  reports_.events().note(report::Happened::kInterfaceUp, nic);
  grants_.inherit(nic, monotonic_ns());
}

}  // namespace viaduct
