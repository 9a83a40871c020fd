// The sessions of this process, by NIC number, and the lock under which they change their state.
#ifndef VIADUCT_VIPL_SESSION_SESSION_TABLE_H
#define VIADUCT_VIPL_SESSION_SESSION_TABLE_H

#include <atomic>
#include <cstdint>

#include "vipl/session/session.h"

namespace viaduct::vipl {

inline constexpr std::uint32_t kMaxSessions = 128;  // of one process; 256 would be possible

extern constinit Session g_sessions[kMaxSessions];

namespace registry {

Session& at(std::uint32_t number);

// The memory that a session with this capacity needs. False: there is none.
bool make_memory(Session& session);

// Notes for a child that is being forked what has been posted on this process's VIs.
void note_posted(Session& session) VIADUCT_REQUIRES(g_lock);

// To be called in a forked child: closes and unmaps what is the parent's, and keeps what attaching needs.
void set_forked(Session& session) VIADUCT_REQUIRES(g_lock);

// Frees a session; no thread may be inside.
void set_free(Session& session) VIADUCT_REQUIRES(g_lock);

// Gives the calling thread and the process's first one a short slice (slice.h), which threads that they start inherit.
// set_free() gives the first one's back when no session is left: work without a NIC is better off with long slices.
void shorten_slices() VIADUCT_REQUIRES(g_lock);

// The session's descriptors: up to `most` of them; returns how many there are.
int descriptors(const Session& session, int* fds, int most) VIADUCT_REQUIRES(g_lock);

// Marks a session as lost and wakes the threads that sleep in it.
void lose(Session& session) VIADUCT_REQUIRES(g_lock);

// The agent of a process that has attached to a granted session has gone: what was asked of it is
// not answered any more.
void lose_control_session(Session& session) VIADUCT_REQUIRES(g_lock);

// Frees closed sessions that no thread is inside of. True if some are left.
bool reap() VIADUCT_REQUIRES(g_lock);

}  // namespace registry

}  // namespace viaduct::vipl

#endif
