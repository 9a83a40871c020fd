#include "kagent/stack/forwarding.h"

#include <cstring>

#include "kagent/stack/backoff.h"

namespace viaduct {

using state::Request;
using state::RequestState;
using state::kNone;
using wire::Type;

namespace {

// How many listeners are looked at in a millisecond, so that a program that publishes many for nothing can't hold up
// the others. A listener not found now is found when the request is repeated.
constexpr std::uint32_t kListenersPerMs = 65536;

}  // namespace

template <class Platform>
void Forwarding<Platform>::send_request_answer(const Request& request, Type type,
                                               std::uint32_t detail) {
  frames_out_.send_short(type, request.source, request.body.vi, request.body.key,
                         request.body.request, 0, detail);
}

template <class Platform>
void Forwarding<Platform>::delegate(std::uint32_t session, const MacAddress& address) {
  sessions_[session].delegate = address;
  sessions_[session].delegated = 1;
  ++root_->delegates;
  views_[session].listeners().holding.store(root_->held_requests != 0 ? 1 : 0);
}

// Whether the session's program waits for this request. Its segment may hold nonsense, and may change while it is
// read: such a program only makes requesters ask its own stack in vain.
template <class Platform>
bool Forwarding<Platform>::has_listener(std::uint32_t session, const wire::ConnectBody& body) {
  const layout::Listeners& listeners = views_[session].listeners();
  const bool peer = (body.rdma_flags & wire::kPeerToPeer) != 0;
  const std::uint32_t wanted = peer ? layout::kListenerPeer : layout::kListenerWait;
  for (std::uint32_t word = 0; word < layout::kListeners / 64; ++word) {
    std::uint64_t active = listeners.active[word].load(std::memory_order_acquire);
    for (; active != 0; active &= active - 1) {
      const layout::Listener& listener =
          listeners.listener[word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(active))];
      ++root_->listeners_seen;
      if (listener.state.load(std::memory_order_acquire) == wanted &&
          listener.local.discriminator_length == body.remote_length &&
          std::memcmp(listener.local.discriminator, body.remote.data(), body.remote_length) == 0 &&
          (!peer || std::memcmp(listener.local.host, body.host.data(), body.host.size()) == 0)) {
        return true;
      }
    }
  }
  return false;
}

// Sends a request on to a program that waits for it, taking turns among those that do. False if
// there is none.
template <class Platform>
bool Forwarding<Platform>::move_request(const MacAddress& source, const wire::ConnectBody& body) {
  if (root_->delegates == 0) return false;
  const std::uint64_t epoch = now_ / kMs;
  if (epoch != root_->listener_epoch) {
    root_->listener_epoch = epoch;
    root_->listeners_seen = 0;
  }
  if (root_->listeners_seen >= kListenersPerMs) return false;
  std::uint32_t turn = root_->listener_turn;
  for (std::uint32_t n = 0; n < open_count_; ++n) {
    if (turn >= open_count_) turn = 0;
    const std::uint32_t session = open_sessions_[turn++];
    if (!sessions_[session].delegated || !has_listener(session, body)) continue;
    root_->listener_turn = turn;
    frames_out_.send_moved(source, body, sessions_[session].delegate, 0);
    environment_.introduce(source, sessions_[session].delegate);
    return true;
  }
  return false;
}

// A program has published a listener, maybe for a request that is held: looks for one, at most once in a millisecond.
template <class Platform>
void Forwarding<Platform>::move_held_requests() {
  if (root_->held_requests == 0) return;
  if (now_ - root_->listener_scan < kMs) {
    wheel_.arm(listener_timer(), root_->listener_scan + kMs);
    return;
  }
  root_->listener_scan = now_;
  for (std::uint32_t r = root_->live_requests.oldest; r != kNone;) {
    const std::uint32_t next = requests_[r].newer;
    const state::Request& request = requests_[r];
    if (request.state == RequestState::kHeld && move_request(request.source, request.body)) {
      connect_requests_.drop_request(r);
    }
    r = next;
  }
}

}  // namespace viaduct
