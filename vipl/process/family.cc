#include "vipl/process/family.h"

#include <cstring>

#include "kagent/contract/granted_segment.h"
#include "kagent/stack/tables.h"
#include "vipl/session/command.h"
#include "vipl/process/lock.h"
#include "vipl/session/debug_log.h"
#include "vipl/session/handshake.h"
#include "vipl/session/message.h"
#include "vipl/process/sys.h"
#include "vipl/session/session_guard.h"
#include "vipl/vipl_ext.h"
#include "vipl/session/work_queue.h"

namespace viaduct::vipl {
namespace {

constexpr long kPatienceSeconds = 5;  // for a first process that does not answer

bool same(const layout::Capacity& a, const layout::Capacity& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

bool map_granted_segment(Session& s, const Hello& hello) {
  const StackLimits limits = granted_limits(hello.answer);
  const std::size_t bytes = granted_segment_bytes(limits, Tables::footprint(limits));
  if (bytes != hello.answer.granted_segment_bytes || sys::seek_end(hello.granted_segment) != static_cast<long>(bytes) ||
      !same(granted_capacity(limits), s.capacity)) {
    explain("the first process's granted segment is not what was announced");
    return false;
  }
  void* const base = sys::map(bytes, hello.granted_segment);
  if (base == nullptr) return false;
  s.view = layout::View(base, s.capacity);
  s.view_bytes = bytes;
  return true;
}

// Asks the first process to let us take part in its stack, for which it needs our memory.
bool join_first(Session& s, int link) {
  const timeval patience = {kPatienceSeconds, 0};
  sys::setsockopt(link, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const int memory = sys::open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (memory < 0) {
    explain("the own memory can't be opened (no /proc?)");
    return false;
  }
  control::Join join = {};
  join.head.kind = static_cast<std::uint16_t>(control::Kind::kJoin);
  join.head.bytes = sizeof join;
  join.parent = s.family.parent;
  join.forks = s.family.forks;
  const bool sent = send_message(link, &join, sizeof join, &memory, 1, 0);
  sys::close(memory);
  control::Joined joined = {};
  int fds[control::kJoinedDescriptors] = {-1, -1, -1};
  unsigned count = control::kJoinedDescriptors;
  long bytes = -1;
  if (sent) {
    do {
      bytes = receive_message(link, &joined, sizeof joined, fds, count, 0);
    } while (bytes < 0 && errno == EINTR);
  }
  if (bytes != sizeof joined || joined.head.result != VIP_SUCCESS ||
      count != control::kJoinedDescriptors || joined.member > layout::kMembers) {
    explain("the first process of the family does not take us in");
    for (const int fd : fds) {
      if (fd >= 0) sys::close(fd);
    }
    return false;
  }
  s.member = joined.member;
  s.family.joined = joined.program_id;
  s.driver_wakes[0] = sys::out_of_the_way(fds[0]);
  s.driver_wakes[1] = sys::out_of_the_way(fds[1]);
  s.poll_wake = sys::out_of_the_way(fds[2]);
  return true;
}

}  // namespace

bool join_family(Session& s, Hello& hello) {
  s.agent_wake = sys::out_of_the_way(hello.agent_wake);
  s.control_member = hello.answer.member;
  bool done = map_control_session(hello, s);
  if (!hello.granted()) {
    s.socket = hello.socket;
    s.poll_wake = sys::out_of_the_way(hello.poll_wake);
    s.view = s.control_session;
    s.member = hello.answer.member;
    s.family.joined = hello.answer.program_id;
    done = done && same(hello.answer.capacity, s.capacity);
  } else {
    s.control_socket_fd = hello.socket;
    s.socket = sys::out_of_the_way(hello.link);
    sys::close(hello.poll_wake);  // no thread polls at the agent
    done = done && map_granted_segment(s, hello) && join_first(s, s.socket);
    sys::close(hello.granted_segment);
  }
  sys::close(hello.segment);
  return done;
}

namespace {

// Holds the locks of a VI's queues and of their CQs while a process takes the VI from another one.
class Taking {
 public:
  Taking(const Session& session, std::uint32_t vi) : shared_(session.view.vi(vi)) {
    Lock::acquire(shared_.send.lock, session.member);
    Lock::acquire(shared_.receive.lock, session.member);
    const std::uint32_t cqs[2] = {shared_.send.cq, shared_.receive.cq};
    for (const std::uint32_t cq : cqs) {
      if (cq == 0 || cq > session.capacity.cqs || (count_ == 1 && cq == cqs[0])) continue;
      cqs_[count_] = &session.view.cq(cq - 1);
      Lock::acquire(cqs_[count_++]->lock, session.member);
    }
  }
  ~Taking() {
    while (count_ != 0) Lock::release(cqs_[--count_]->lock);
    Lock::release(shared_.receive.lock);
    Lock::release(shared_.send.lock);
  }
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;

 private:
  layout::Vi& shared_;
  layout::Cq* cqs_[2] = {};
  unsigned count_ = 0;
};

// How much had been posted on a VI at the fork.
struct Posted {
  bool known = false;
  std::uint32_t sends = 0, receives = 0;
};

Posted posted_at_fork(Session& s, std::uint32_t vi) {
  const Lock lock(registry::g_lock);  // another thread may fork
  if (s.family.posted == nullptr || vi >= s.made_vis()) return {};
  return {true, s.family.posted[vi][0], s.family.posted[vi][1]};
}

// Whether nothing was posted on the VI since the fork: then our copy of the parent's memory describes what is posted.
bool is_as_it_was(const layout::Vi& shared, const Posted& before) {
  return before.known && shared.send.posted.load(std::memory_order_relaxed) == before.sends &&
         shared.receive.posted.load(std::memory_order_relaxed) == before.receives;
}

}  // namespace
}  // namespace viaduct::vipl

using namespace viaduct::vipl;

VIP_RETURN VipxTakeVi(VIP_VI_HANDLE vi) {
  const SessionGuard inside(vi, Kind::kVi);
  if (!inside) return VIP_INVALID_PARAMETER;
  Session& session = inside.session();
  const std::uint32_t index = inside.handle().index();
  const viaduct::layout::Vi& shared = session.view.vi(index);
  if (session.over()) return VIP_ERROR_RESOURCE;
  const Posted before = posted_at_fork(session, index);  // the registry's lock comes before those of queues
  const Taking locks(session, index);
  const std::uint32_t generation = shared.send.generation.load();
  if (generation == 0 || ((generation ^ inside.handle().generation()) & kGenerationMask) != 0) {
    return VIP_INVALID_PARAMETER;
  }
  if (shared.send.owner.load() == session.member) return VIP_SUCCESS;
  if (!is_as_it_was(shared, before)) return VIP_INVALID_STATE;
  const auto take = [&] {
    Command command(session, viaduct::layout::Op::kTakeVi);
    command->vi = index;
    command->generation = generation;
    return command.run();
  };
  // The agent may not reach one of the processes' memory now, as when processors are short.
  constexpr int kNaps = 5000;
  VIP_RETURN taken = take();
  for (int naps = 0; taken == VIP_NOT_DONE && naps != kNaps; ++naps) {
    nap();
    taken = take();
  }
  if (taken == VIP_NOT_DONE) return VIP_ERROR_RESOURCE;
  if (taken == VIP_SUCCESS) session.own(index);
  return taken;
}
