// The processes that have attached to a granted session, as the first process sees them.
//
//   the agent announces one (a link) --it says Join--> member of the stack ... --its link ends--> gone
//
// To them the first process is what the agent is to hosted programs. Their memory is reached through
// descriptors that they have handed over themselves (/proc/self/mem): so the first process needs no right
// to see it that it would not have anyway, and after exec the descriptor is good for nothing.
//
// The agent monitor adds and changes them (admission.h). read(), write() and poll_wake() are called as the driver's
// functions are, for a process between its join() and its leave().
#ifndef VIADUCT_VIPL_PROCESS_ATTACHED_PROCESSES_H
#define VIADUCT_VIPL_PROCESS_ATTACHED_PROCESSES_H

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kagent/contract/session_layout.h"
#include "vipl/session/registry_lock.h"

namespace viaduct::vipl {

class AttachedProcesses {
 public:
  static constexpr std::uint32_t kMost = layout::kMembers;

  AttachedProcesses() {
    for (AttachedProcess& attached_process : attached_processes_) attached_process.link = attached_process.memory = attached_process.poll_wake = -1, attached_process.program = 0;
  }

  // Takes the link of a process that is to join. Closes it if there is no room.
  void add(int link) VIADUCT_REQUIRES(registry::g_lock);

  struct AttachedProcess {
    int link VIADUCT_GUARDED_BY(registry::g_lock);
    int memory, poll_wake;
    std::atomic<std::uint32_t> program;  // 0: it has not joined yet
  };
  AttachedProcess& attached_process(std::uint32_t number) { return attached_processes_[number]; }
  // Forgets all processes; their links are closed already.
  void clear() VIADUCT_REQUIRES(registry::g_lock) { end_ = 0; }

  // Whether there is, or was, an attached process: then the driver tells when it sleeps.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  void set_any() { any_.store(true); }

  // -1: there is no such attached process.
  int link(std::uint32_t attached_process) const VIADUCT_REQUIRES(registry::g_lock) {
    return attached_processes_[attached_process].link;
  }
  // Links below this number are in use.
  std::uint32_t end() const VIADUCT_REQUIRES(registry::g_lock) { return end_; }
  // All of theirs that this process has open; calls add(descriptor).
  template <class Add>
  void descriptors(Add&& add) const VIADUCT_REQUIRES(registry::g_lock) {
    for (std::uint32_t i = 0; i < end_; ++i) {
      add(attached_processes_[i].link), add(attached_processes_[i].memory), add(attached_processes_[i].poll_wake);
    }
  }

  // As Environment::read_program() and write_program(); `program`: a number of the stack's, not 0.
  bool read(std::uint32_t program, std::span<const iovec> remote, std::span<const iovec> local) const;
  bool write(std::uint32_t program, std::span<const iovec> remote,
             std::span<const iovec> local) const;
  void poll_wake(std::uint32_t program) const;

 private:
  const AttachedProcess* find(std::uint32_t program) const;

  AttachedProcess attached_processes_[kMost];
  std::uint32_t end_ VIADUCT_GUARDED_BY(registry::g_lock) = 0;
  std::atomic<bool> any_{false};
};

}  // namespace viaduct::vipl

#endif
