// Families: processes that attach to sessions (session_server.h).
#include <fcntl.h>
#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "kagent/agent/control/control_socket.h"
#include "kagent/agent/process/log.h"
#include "kagent/agent/control/control_messages.h"
#include "kagent/agent/sessions/hello_answer.h"
#include "kagent/agent/service/session_server.h"

namespace viaduct {
namespace {

// Takes the same time wherever the secrets differ.
bool same(const control::FamilySecret& a, const control::FamilySecret& b) {
  unsigned differs = 0;
  for (std::size_t i = 0; i < sizeof a.bytes; ++i) differs |= a.bytes[i] ^ b.bytes[i];
  return differs == 0;
}

}  // namespace

// The secret alone is not enough: a process that runs as another user has no part in the memory of
// this one.
std::uint64_t SessionServer::find_family(const ucred& peer,
                                         const control::FamilySecret& family) const {
  for (const auto& [id, live] : sessions_) {
    if (!same(live.session->family(), family)) continue;
    const ucred& first = live.session->peer();
    if (first.uid == peer.uid && first.gid == peer.gid) return id;
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_attachment,
                  "the process runs as another user or group than its family"};
  }
  throw Refused{vip::kErrorResource, &ServiceCounters::refused_attachment,
                "there is no session of that family"};
}

void SessionServer::serve_attach(Asking& asking, const control::Attach& attach) {
  const Peer peer = asking.peer;
  const std::uint64_t family = find_family(peer, attach.family);
  sessions_of_user_.check(peer, config_.sessions_per_user);
  Live& live = sessions_.at(family);
  auto process = std::make_unique<Attached>(*live.session, peer, std::move(asking.access), attach);
  const std::uint64_t id = next_id_++;
  attached_.emplace(id, AttachedClient{std::move(asking.socket), family, std::move(process), 0, 0});
  ++live.attached;
  sessions_of_user_.add(peer);
  ++counters_.processes_attached;
  answer_attached(id);
}

void SessionServer::answer_attached(std::uint64_t id) {
  AttachedClient& attached_client = attached_.at(id);
  Live& live = sessions_.at(attached_client.session);
  const Session& session = *live.session;
  const Peer peer = attached_client.process->peer();
  control::HelloAnswer answer = describe(session, config_);
  answer.head.kind = static_cast<std::uint16_t>(control::Kind::kAttach);
  const Stack& stack = session.nic().stack();
  answer.member = stack.member_of(attached_client.process->program());
  answer.program_id = stack.id_of(attached_client.process->program());
  std::vector<int> fds{session.segment(), session.agent_wake()};
  Descriptor link, first_link;
  try {
    attached_client.socket_token =
        loop_.add(attached_client.socket.get(), EPOLLIN | EPOLLRDHUP,
                  [this, id](std::uint32_t) { on_attached_socket(id); });
    attached_client.process_token = loop_.add(attached_client.process->process(), EPOLLIN,
                                      [this, id](std::uint32_t) { on_attached_end(id); });
    if (const Session::Granted* const granted = session.granted()) {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        throw std::system_error(errno, std::generic_category(), "socketpair");
      }
      link = Descriptor(ends[0]), first_link = Descriptor(ends[1]);
      control::MessageHead newcomer;
      newcomer.kind = static_cast<std::uint16_t>(control::Kind::kNewcomer);
      newcomer.bytes = sizeof newcomer;
      const int its = first_link.get();
      if (!send_message(live.socket.get(), &newcomer, sizeof newcomer, {&its, 1})) {
        throw std::runtime_error("the first process of the session does not listen");
      }
      fds.insert(fds.end(), {granted->granted_segment->file(), link.get()});
    }
  } catch (const std::exception& error) {
    const ControlSocket socket = std::move(attached_client.socket);
    end_attached(id);
    return refuse(socket.get(), peer, no_resources(error));
  }
  fds.push_back(attached_client.process->poll_wake());
  reports_.events().attached(attached_client.session, attached_client.process->program(), peer.pid);
  log::debug("{} has attached to the session of {}", text_of(peer), text_of(session.peer()));
  const bool sent = send_message(attached_client.socket.get(), &answer, sizeof answer, fds);
  // Closing an end may also close descriptors that one program has sent to the other, so it is done later.
  for (Descriptor* const end : {&link, &first_link}) {
    if (*end) close_in_thread(threads_, peer.account(), std::move(*end));
  }
  if (!sent) return end_attached(id);
  attached_client.process->descriptors_passed();
}

void SessionServer::on_attached_socket(std::uint64_t id) {
  std::byte room[1];
  bool rights = false;
  const ssize_t bytes = attached_.at(id).socket.look(room, sizeof room, rights);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes > 0 && log_limit_.may_log(attached_.at(id).process->peer())) {
    log::warn("detached {} from its session: it sent another message after its request",
              text_of(attached_.at(id).process->peer()));
  }
  end_attached(id);
}

void SessionServer::on_attached_end(std::uint64_t id) {
  AttachedClient& attached_client = attached_.at(id);
  attached_client.process->process_ended();
  loop_.remove(attached_client.process_token);
  attached_client.process_token = 0;
  ++counters_.programs_ended;
}

void SessionServer::end_attached(std::uint64_t id) {
  const auto it = attached_.find(id);
  AttachedClient& attached_client = it->second;
  for (const EventLoop::Token token : {attached_client.socket_token, attached_client.process_token}) {
    if (token != 0) loop_.remove(token);
  }
  sessions_of_user_.remove(attached_client.process->peer());
  log::debug("{} has left its session", text_of(attached_client.process->peer()));
  const std::uint64_t session = attached_client.session;
  const std::uint32_t program = attached_client.process->program();
  attached_.erase(it);
  reports_.events().left(session, program);
  const auto live = sessions_.find(session);
  if (live == sessions_.end()) return;
  --live->second.attached;
  if (live->second.attached == 0 && live->second.first_left) {
    end(session, &ServiceCounters::sessions_closed);
  }
}

// To be called before the session is ended, and after it.
void SessionServer::tell_attached(std::uint64_t session) {
  for (const auto& [id, attached_client] : attached_) {
    if (attached_client.session == session) attached_client.process->session_ends();
  }
}

void SessionServer::end_attached_of(std::uint64_t session) {
  for (auto it = attached_.begin(); it != attached_.end();) {
    const auto [id, attached_client] = std::pair(it->first, &it->second);
    ++it;
    if (attached_client->session != session) continue;
    sessions_.at(session).first_left = false;
    end_attached(id);
  }
}

}  // namespace viaduct
