#include "vipl/session/reattach.h"

#include <cstring>

#include "vipl/process/idle.h"
#include "vipl/process/lock.h"
#include "vipl/process/sys.h"
#include "vipl/session/debug_log.h"
#include "vipl/session/handshake.h"
#include "xdp/clock.h"

namespace viaduct::vipl::adrift {
namespace {

constexpr std::uint64_t kTryEveryNs = kTryEveryMs * kNsPerMs;

// A notice stays what it was; `holding` is the new agent's.
void copy_notices(const layout::Notices& from, layout::Notices& to) {
  for (std::uint32_t i = 0; i < layout::kNotices; ++i) {
    to.notice[i].local = from.notice[i].local;
    to.notice[i].state.store(from.notice[i].state.load());
  }
  for (std::uint32_t i = 0; i < layout::kNotices / 64; ++i) {
    to.active[i].store(from.active[i].load());
  }
}

// Whether it is the same host, with a desk of the same shape.
bool fits(const Session& s, const control::HelloAnswer& answer) {
  const layout::Header& desk = s.desk.header();
  const MacAddress port = s.driver->address();
  return answer.segment_bytes == s.desk_bytes &&
         std::memcmp(&answer.capacity, &desk.capacity, sizeof answer.capacity) == 0 &&
         std::memcmp(answer.host, s.nic.address, sizeof answer.host) == 0 &&
         std::memcmp(answer.port.address.data(), port.data(), port.size()) == 0;
}

void close_all(const Hello& hello) {
  for (const int fd : {hello.socket, hello.segment, hello.bell, hello.chime}) sys::close(fd);
}

// Puts what the new agent has sent in the place of what the old one had. False: it can't be.
bool take(Session& s, const Hello& hello) {
  void* const fresh = fits(s, hello.answer) ? map_segment(hello) : nullptr;
  const bool held = fresh != nullptr && s.driver->hold();
  bool moved = false;
  if (held) {
    const Lock lock(s.desk_lock);
    copy_notices(s.desk.notices(), layout::View(fresh, hello.answer.capacity).notices());
    moved = sys::move_over(fresh, s.desk_bytes, s.desk.base());
  }
  if (!moved) {
    if (fresh != nullptr) sys::unmap(fresh, hello.answer.segment_bytes);
    close_all(hello);
  } else {
    sys::close(hello.segment);
    sys::replace(s.bell, hello.bell);
    sys::replace(s.chime, hello.chime);
    sys::replace(s.socket, hello.socket);
  }
  if (held) {
    MacAddress desk;
    std::memcpy(desk.data(), hello.answer.desk, desk.size());
    s.driver->go_on(desk);
  }
  return moved;
}

void close_socket(Session& s) {
  if (s.adrift.socket >= 0) sys::close(s.adrift.socket);
  s.adrift.socket = -1;
}

}  // namespace

bool begin(Session& s) {
  if (s.driver == nullptr || s.adrift_ns == 0 || s.home < 0 || s.umem < 0 ||
      s.desk.header().closed.load() != 0) {
    return false;
  }
  explain("the agent of %s disappeared; looking for another one every 50 ms", s.nic.name);
  const std::uint64_t now = now_ns();
  s.adrift = {now + s.adrift_ns, now, -1};
  s.desk_number.fetch_add(1);
  // Who waits for an answer of that agent.
  for (std::uint32_t i = 0; i < layout::kCommands; ++i) s.wake(s.desk.command(i).sleepers);
  return true;
}

bool go_on(Session& s) {
  const std::uint64_t now = now_ns();
  if (now >= s.adrift.until) {
    explain("no other agent of %s came in time; the session is lost", s.nic.name);
    end(s);
    return false;
  }
  if (s.adrift.socket >= 0 || now < s.adrift.next_try) return true;
  s.adrift.next_try = now + kTryEveryNs;
  s.adrift.socket = ask_for_adoption(s);
  return true;
}

bool hear(Session& s) {
  Hello hello;
  switch (hear_of_adoption(s.adrift.socket, hello)) {
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
  s.adrift.socket = -1;  // the hello's
  if (!take(s, hello)) {
    explain("the new agent of %s has another address or other limits than the old one; the session is lost", s.nic.name);
    end(s);
    return false;
  }
  end(s);
  s.desk_number.fetch_add(1);
  sys::futex_wake(s.desk_number);
  // Requests may have come before the notices were there.
  s.ring_desk(layout::kNoticeBit);
  explain("another agent of %s took the session over", s.nic.name);
  return true;
}

void end(Session& s) {
  close_socket(s);
  s.adrift.until = 0;
}

}  // namespace viaduct::vipl::adrift
