#include "vipl/session/reattach.h"

#include <cstring>

#include "vipl/process/idle.h"
#include "vipl/process/lock.h"
#include "vipl/process/sys.h"
#include "vipl/session/debug_log.h"
#include "vipl/session/handshake.h"
#include "xdp/clock.h"

namespace viaduct::vipl::reattach {
namespace {

constexpr std::uint64_t kTryEveryNs = kTryEveryMs * kNsPerMs;

// A listener is copied as it was; `holding` belongs to the new agent.
void copy_listeners(const layout::Listeners& from, layout::Listeners& to) {
  for (std::uint32_t i = 0; i < layout::kListeners; ++i) {
    to.listener[i].local = from.listener[i].local;
    to.listener[i].state.store(from.listener[i].state.load());
  }
  for (std::uint32_t i = 0; i < layout::kListeners / 64; ++i) {
    to.active[i].store(from.active[i].load());
  }
}

// Whether the new agent serves the same host, with a control session of the same shape.
bool fits(const Session& s, const control::HelloAnswer& answer) {
  const layout::Header& control_session = s.control_session.header();
  const MacAddress port = s.driver->port().address();
  return answer.segment_bytes == s.control_bytes &&
         std::memcmp(&answer.capacity, &control_session.capacity, sizeof answer.capacity) == 0 &&
         std::memcmp(answer.host, s.nic.address, sizeof answer.host) == 0 &&
         std::memcmp(answer.port.address.data(), port.data(), port.size()) == 0;
}

void close_all(const Hello& hello) {
  for (const int fd : {hello.socket, hello.segment, hello.agent_wake, hello.poll_wake}) sys::close(fd);
}

void replace_descriptors(Session& s, const Hello& hello) {
  sys::close(hello.segment);
  sys::replace(s.agent_wake, hello.agent_wake);
  sys::replace(s.poll_wake, hello.poll_wake);
  sys::replace(s.socket, hello.socket);
}

// Puts what the new agent has sent in the place of what the old one had. False if that is impossible.
bool take(Session& s, const Hello& hello) {
  void* const fresh = fits(s, hello.answer) ? map_segment(hello) : nullptr;
  bool moved = false;
  if (fresh != nullptr && s.driver->hold()) {
    {
      const Lock lock(s.control_lock);
      copy_listeners(s.control_session.listeners(), layout::View(fresh, hello.answer.capacity).listeners());
      moved = sys::move_over(fresh, s.control_bytes, s.control_session.base());
    }
    if (moved) replace_descriptors(s, hello);
    MacAddress control_session;
    std::memcpy(control_session.data(), hello.answer.control_session, control_session.size());
    s.driver->go_on(&control_session);
  }
  if (!moved) {
    if (fresh != nullptr) sys::unmap(fresh, hello.answer.segment_bytes);
    close_all(hello);
  }
  return moved;
}

void close_socket(Session& s) VIADUCT_REQUIRES(registry::g_lock) {
  if (s.reattach.socket >= 0) sys::close(s.reattach.socket);
  s.reattach.socket = -1;
}

}  // namespace

bool begin(Session& s) {
  if (s.driver == nullptr || s.reattach_ns == 0 || s.granted_segment < 0 || s.umem < 0 ||
      s.control_session.header().closed.load() != 0) {
    return false;
  }
  explain("the agent of %s disappeared; looking for another one every 50 ms", s.nic.name);
  const std::uint64_t now = now_ns();
  s.reattach = {now + s.reattach_ns, now, -1};
  s.control_epoch.fetch_add(1);
  // Wake the threads that wait for an answer of that agent.
  for (std::uint32_t i = 0; i < layout::kCommands; ++i) s.wake(s.control_session.command(i).sleepers);
  return true;
}

bool go_on(Session& s) {
  const std::uint64_t now = now_ns();
  if (now >= s.reattach.until) {
    explain("no other agent of %s came in time; the session is lost", s.nic.name);
    end(s);
    return false;
  }
  if (s.reattach.socket >= 0 || now < s.reattach.next_try) return true;
  s.reattach.next_try = now + kTryEveryNs;
  s.reattach.socket = ask_for_adoption(s);
  return true;
}

bool hear(Session& s) {
  Hello hello;
  switch (hear_of_adoption(s.reattach.socket, hello)) {
    case Adoption::kNotYet:
      return true;
    case Adoption::kHungUp:
      close_socket(s);
      return true;
    case Adoption::kRefused:
      end(s);
      return false;
    case Adoption::kTaken:
      break;
  }
  s.reattach.socket = -1;  // the hello has it now
  if (!take(s, hello)) {
    explain("the new agent of %s has another address or other limits than the old one; the session is lost", s.nic.name);
    end(s);
    return false;
  }
  end(s);
  s.finisher.renew();
  s.control_epoch.fetch_add(1);
  sys::futex_wake(s.control_epoch);
  // Requests may have come before the listeners were copied.
  s.ring_control_session(layout::kListenerBit);
  explain("another agent of %s took the session over", s.nic.name);
  return true;
}

void end(Session& s) {
  close_socket(s);
  s.reattach.until = 0;
}

}  // namespace viaduct::vipl::reattach
