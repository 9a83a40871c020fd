// How a call finds its session by a handle.
#ifndef VIADUCT_VIPL_SESSION_SESSION_GUARD_H
#define VIADUCT_VIPL_SESSION_SESSION_GUARD_H

#include <cstdint>

#include "vipl/session/handle.h"
#include "vipl/session/session_table.h"
#include "vipl/session/thread_registry.h"

namespace viaduct::vipl {

// A call's stay in a session: from finding it by a handle until return.
class SessionGuard {
 public:
  // The guard is valid only if the handle is of this kind and its session can be entered.
  SessionGuard(const void* handle, Kind kind);
  ~SessionGuard() {
    if (record_ != nullptr) thread_registry::leave(*record_, outer_);
  }
  SessionGuard(const SessionGuard&) = delete;
  SessionGuard& operator=(const SessionGuard&) = delete;

  explicit operator bool() const { return session_ != nullptr; }
  Session& session() const { return *session_; }
  Handle handle() const { return handle_; }
  ThreadRecord& thread() const { return *record_; }

  // Whether another handle is of this session and kind.
  bool owns(Handle other, Kind kind) const {
    return other.is(kind) && other.key() == handle_.key();
  }

 private:
  Handle handle_;
  Session* session_ = nullptr;
  ThreadRecord* record_ = nullptr;
  std::uint32_t outer_ = 0;
};

inline SessionGuard::SessionGuard(const void* handle, Kind kind) : handle_(handle) {
  if (!handle_.is(kind) || handle_.nic() >= kMaxSessions) return;
  ThreadRecord* const record = thread_registry::record();
  if (record == nullptr) return;
  record_ = record;
  outer_ = thread_registry::enter(*record, handle_.nic());
  Session& session = g_sessions[handle_.nic()];
  if (session.key.load(std::memory_order_acquire) != (Session::kOpen | handle_.key())) return;
  if (kind == Kind::kVi && handle_.index() >= session.capacity.vis) return;
  if (kind == Kind::kCq && handle_.index() >= session.capacity.cqs) return;
  session_ = &session;
}

}  // namespace viaduct::vipl

#endif
