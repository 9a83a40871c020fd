// The processes that have attached to a granted session, as the first process sees them.
//
//   the agent announces one (a link) --it says Join--> member of the stack ... --its link ends--> gone
//
// To them the first process is what the agent is to hosted programs. Their memory is reached through
// descriptors that they have handed over themselves (/proc/self/mem): so nobody needs a right to see
// it that it would not have anyway, and after exec the descriptor is good for nothing.
//
// add(), and what changes a guest (admission.h): by the library's watcher, under the registry's lock; the
// rest as the driver's.
#ifndef VIADUCT_VIPL_PROCESS_ATTACHED_PROCESSES_H
#define VIADUCT_VIPL_PROCESS_ATTACHED_PROCESSES_H

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kagent/contract/session_layout.h"

namespace viaduct::vipl {

class Company {
 public:
  static constexpr std::uint32_t kMost = layout::kMembers;

  Company() {
    for (Guest& guest : guests_) guest.link = guest.memory = guest.chime = -1, guest.program = 0;
  }

  // The link of one who is to come. Closes it if there is no room.
  void add(int link);

  struct Guest {
    int link;
    int memory, chime;
    std::atomic<std::uint32_t> program;  // 0: it has not joined yet
  };
  Guest& guest(std::uint32_t number) { return guests_[number]; }
  // All links are closed.
  void clear() { end_ = 0; }

  // Whether there is, or was, anybody: the driver tells when it sleeps.
  bool any() const { return any_.load(std::memory_order_relaxed); }
  void set_any() { any_.store(true); }

  // -1: there is no such guest.
  int link(std::uint32_t guest) const { return guests_[guest].link; }
  // Links below this number are in use.
  std::uint32_t end() const { return end_; }
  // All of theirs that this process has open; calls add(descriptor).
  template <class Add>
  void descriptors(Add&& add) const {
    for (std::uint32_t i = 0; i < end_; ++i) {
      add(guests_[i].link), add(guests_[i].memory), add(guests_[i].chime);
    }
  }

  // Of a program (a number of the stack's, not 0), as StackEnvironment has it.
  bool read(std::uint32_t program, std::span<const iovec> remote, std::span<const iovec> local) const;
  bool write(std::uint32_t program, std::span<const iovec> remote,
             std::span<const iovec> local) const;
  void chime(std::uint32_t program) const;

 private:
  const Guest* find(std::uint32_t program) const;

  Guest guests_[kMost];
  std::uint32_t end_ = 0;
  std::atomic<bool> any_{false};
};

}  // namespace viaduct::vipl

#endif
