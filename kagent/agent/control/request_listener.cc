#include "kagent/agent/control/request_listener.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "kagent/agent/control/control_messages.h"
#include "kagent/agent/process/log.h"
#include "kagent/contract/control.h"
#include "kagent/contract/default_agent.h"

namespace viaduct {
namespace {

constexpr unsigned kAcceptsAtOnce = 32;
constexpr std::uint64_t kAcceptPauseNs = 100 * kNsPerMs;

}  // namespace

RequestListener::RequestListener(const std::string& path, EventLoop& loop, UserThreads& threads,
                                 ServiceCounters& counters, LogLimit& log_limit,
                                 OnRequest on_request)
    : loop_(loop),
      threads_(threads),
      counters_(counters),
      log_limit_(log_limit),
      on_request_(std::move(on_request)),
      listener_(path) {
  listen();
}

RequestListener::~RequestListener() {
  loop_.remove(listener_token_);
  while (!waiting_.empty()) drop(waiting_.begin());
}

void RequestListener::listen() {
  listener_token_ = loop_.add(listener_.fd(), EPOLLIN, [this](std::uint32_t) { accept_some(); });
}

void RequestListener::accept_some() {
  for (unsigned i = 0; i < kAcceptsAtOnce; ++i) {
    if (!accept_one()) return;
  }
}

bool RequestListener::accept_one() {
  Descriptor socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    if (errno == EINTR || errno == ECONNABORTED) return true;
    // Out of descriptors or memory; the connection stays where it is, so look away for a while.
    if (log_limit_.may_log_of_agent()) log::warn("cannot accept connections, pausing for 100 ms: {}", std::strerror(errno));
    ++counters_.accept_failures;
    loop_.remove(listener_token_);
    listener_token_ = 0;
    listen_at_ = monotonic_ns() + kAcceptPauseNs;
    return false;
  }
  ++counters_.connections;
  const auto peer = peer_of(socket.get());
  if (!peer) return true;
  make_room(*peer);
  waiting_.push_back({ControlSocket(std::move(socket), peer->account(), threads_), *peer,
                      monotonic_ns() + kPatienceNs, 0});
  const WaitingRef connection = std::prev(waiting_.end());
  try {
    connection->token = loop_.add(connection->socket.get(), EPOLLIN | EPOLLRDHUP,
                                  [this, connection](std::uint32_t) { on_packet(connection); });
  } catch (const std::exception& error) {
    if (log_limit_.may_log_of_agent()) log::warn("cannot watch a connection, it is closed: {}", error.what());
    ++counters_.accept_failures;
    waiting_.erase(connection);
  }
  return true;
}

// Programs send their request at once, so the oldest connections are the least likely to bring one.
void RequestListener::make_room(const Peer& peer) {
  const auto of_user = [&](const Waiting& w) { return w.peer.account() == peer.account(); };
  const auto count = std::count_if(waiting_.begin(), waiting_.end(), of_user);
  WaitingRef victim = waiting_.end();
  if (!peer.is_root && static_cast<std::size_t>(count) >= kMostWaitingOfUser) {
    victim = std::find_if(waiting_.begin(), waiting_.end(), of_user);
  } else if (waiting_.size() >= kMostWaiting) {
    // Of the account that has most.
    std::map<uid_t, std::size_t> counts;
    for (const Waiting& each : waiting_) ++counts[each.peer.account()];
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    victim = std::find_if(waiting_.begin(), waiting_.end(),
                          [&](const Waiting& each) { return each.peer.account() == most->first; });
  }
  if (victim == waiting_.end()) return;
  ++counters_.dropped_crowded;
  if (log_limit_.may_log(victim->peer)) {
    log::warn("closed the connection of {}: too many connections without a request",
              text_of(victim->peer));
  }
  drop(victim);
}

void RequestListener::drop(WaitingRef connection) {
  loop_.remove(connection->token);
  waiting_.erase(connection);
}

void RequestListener::tick(std::uint64_t now) {
  while (!waiting_.empty() && waiting_.front().deadline <= now) {
    ++counters_.dropped_silent;
    if (log_limit_.may_log(waiting_.front().peer)) log::warn("closed the connection of {}: no request within 2 s", text_of(waiting_.front().peer));
    drop(waiting_.begin());
  }
  if (listener_token_ == 0 && now >= listen_at_) listen();
}

std::uint64_t RequestListener::next_deadline() const {
  const std::uint64_t next = waiting_.empty() ? ~0ull : waiting_.front().deadline;
  return listener_token_ == 0 ? std::min(next, listen_at_) : next;
}

std::uint64_t RequestListener::network() const {
  std::uint64_t out = 0;
  socklen_t bytes = sizeof out;
  return getsockopt(listener_.fd(), SOL_SOCKET, SO_NETNS_COOKIE, &out, &bytes) == 0 ? out : 0;
}

void RequestListener::on_packet(WaitingRef connection) {
  std::byte room[control::kMaxMessageBytes];
  bool rights = false;
  const ssize_t bytes = connection->socket.look(room, sizeof room, rights);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  ControlSocket socket = std::move(connection->socket);
  const Peer peer = connection->peer;
  drop(connection);
  if (bytes <= 0) return;  // the program has gone, or its message is empty
  const auto length = static_cast<std::size_t>(bytes);
  if (!rights) recv(socket.get(), nullptr, 0, MSG_DONTWAIT);
  on_request_({socket, peer, {room, std::min(length, sizeof room)},
               rights                 ? "descriptors come with it"
               : length > sizeof room ? "too long"
                                      : nullptr});
}

}  // namespace viaduct
