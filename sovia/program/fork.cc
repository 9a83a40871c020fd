#include "sovia/program/fork.h"

#include <vector>

#include "sovia/background/background.h"
#include "sovia/datagram/datagram_control.h"
#include "sovia/datagram/datagram_table.h"
#include "sovia/lane/waiting.h"
#include "sovia/poll/epoll_set.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/lock_order.h"
#include "sovia/process/signals.h"
#include "sovia/program/inheritance.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/fork_handoff.h"
#include "sovia/socket/socket.h"
#include "sovia/socket/table.h"
#include "sovia/sovia.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::fork {
namespace {

struct Held {
  int fd;
  SocketRef socket;
  LaneEndpoint* leaving = nullptr;
};
using HeldSockets = std::vector<Held>;

// Lets one fork run at a time: held from before() to in_parent() and in_child().
constinit Mutex g_forking VIADUCT_ACQUIRED_BEFORE(lock_order::fork);
constinit HeldSockets* g_held VIADUCT_GUARDED_BY(g_forking) = nullptr;
// The sockets that this thread's last fork shared, until it is known that there is a child.
constinit thread_local HeldSockets* t_shared = nullptr;

bool holds(const HeldSockets& held, const Socket& socket) {
  for (const Held& one : held) {
    if (one.socket.get() == &socket) return true;
  }
  return false;
}

// Each socket once, whatever the number of its descriptors. Only sockets with several descriptors are searched for.
void add(HeldSockets& held, int fd, Socket& socket) {
  if (socket.descriptors() > 1 && holds(held, socket)) return;
  SocketRef reference = table::find(fd);
  if (reference.get() == &socket) held.push_back({fd, std::move(reference)});
}

// Leaves all lanes at once, so that the peers have the time limit together; lanes of slower peers are given up. Before
// exec there is some more time to take records, as the next program may not run SOVIA.
void leave_and_share(HeldSockets& held, Reason why) {
  for (Held& one : held) one.leaving = one.socket->begin_leaving(one.fd, why);
  const std::uint64_t now = now_ns();
  for (Held& one : held) {
    if (one.leaving != nullptr) one.socket->end_leaving(one.fd, *one.leaving, now + Socket::kLeaveNs);
    await_kernel(*one.socket, one.fd);
    if (why == Reason::kExec) await_record(*one.socket, one.fd, now + Socket::kRecordNs);
    share(*one.socket, one.fd);
    refresh_watchers(*one.socket);  // while no other process can have changed the set
  }
}

}  // namespace

// Locks what the two functions below unlock.
void before() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  signals::Inside::enter();
  g_forking.lock();
  const KeepErrno keep;
  // The child has the sockets too.
  datagram::table::give_up_all(Reason::kFork, false);
  datagram::await_ended();
  delete t_shared;  // left over if the last fork's outcome stayed unknown
  t_shared = nullptr;
  HeldSockets* held = nullptr;
  table::for_each([&held](int fd, Socket& socket) {
    if (held == nullptr) held = new HeldSockets;
    add(*held, fd, socket);
  });
  if (held != nullptr) leave_and_share(*held, Reason::kFork);
  if (held != nullptr) epoll_sets::forget_dormant();
  g_held = held;
  background::before_fork();
}

void in_parent() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  background::after_fork_in_parent();
  t_shared = g_held;
  g_held = nullptr;
  g_forking.unlock();
  signals::Inside::leave();
}

void in_child() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  const KeepErrno keep;
  background::after_fork_in_child();
  counters::after_fork_in_child();
  signals::after_fork_in_child();
  if (g_held != nullptr) {
    for (Held& one : *g_held) after_fork_in_child(*one.socket);
  }
  delete g_held;
  g_held = nullptr;
  g_forking.unlock();
  signals::Inside::leave();
}

void failed() {
  if (t_shared == nullptr) return;
  const KeepErrno keep;
  for (Held& one : *t_shared) fork_failed(*one.socket);
  delete t_shared;
  t_shared = nullptr;
}

struct Spawning::Shared {
  HeldSockets sockets;
  Inheritance inheritance;
};

Spawning::Spawning() {
  libc::prepare();
  const signals::Inside inside;
  const KeepErrno keep;
  datagram::table::give_up_all(Reason::kExec, true);
  table::for_each([this](int fd, Socket& socket) {
    const int flags = libc::fcntl(fd, F_GETFD);
    if (flags < 0 || ((flags & FD_CLOEXEC) != 0 && !socket.handoff.passed.load())) return;
    if (shared_ == nullptr) shared_ = new Shared;
    add(shared_->sockets, fd, socket);
  });
  if (shared_ == nullptr) return;
  leave_and_share(shared_->sockets, Reason::kExec);
  epoll_sets::forget_dormant();
  for (Held& one : shared_->sockets) shared_->inheritance.add(one.fd, *one.socket);
}

Spawning::~Spawning() {
  const KeepErrno keep;
  delete shared_;
}

void Spawning::undo() {
  if (shared_ == nullptr) return;
  const KeepErrno keep;
  for (Held& one : shared_->sockets) fork_failed(*one.socket);
  shared_->sockets.clear();
}

char* const* Spawning::environment(char* const own[]) {
  return shared_ == nullptr ? own : shared_->inheritance.environment(own);
}

}  // namespace viaduct::sovia::fork
