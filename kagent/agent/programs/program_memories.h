// The memories of all programs of a NIC. Copies of those that can't be reached at once are left to their users'
// threads (slow_memory.h).
#ifndef VIADUCT_KAGENT_AGENT_PROGRAMS_PROGRAM_MEMORIES_H
#define VIADUCT_KAGENT_AGENT_PROGRAMS_PROGRAM_MEMORIES_H

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kagent/agent/process/hang_guard.h"
#include "kagent/agent/process/user_threads.h"
#include "kagent/agent/programs/program_memory.h"
#include "kagent/agent/programs/slow_memory.h"
#include "kagent/stack/environment.h"

namespace viaduct {

class ProgramMemories {
 public:
  // Keeps the environment's `late` and `postponed`. `interface`: for the log.
  ProgramMemories(std::uint32_t programs, Environment& environment, const std::string& interface);

  // A program's memory; closed while there is none of this number.
  void set(std::uint32_t program, ProgramMemory memory);
  // Ends the program's use of its memory.
  void close(std::uint32_t program);

  // From now on copies that hang don't hold the loop, and are left to their users' threads. Null: all copies are made
  // here and now.
  void set_threads(HangGuard* hang_guard, UserThreads* threads) {
    hang_guard_ = hang_guard, threads_ = threads;
  }
  // Programs whose memory could not be reached for too long; a program that can be reached again is served as
  // before.
  std::vector<std::uint32_t> look(std::uint64_t now);
  std::uint64_t next_look() const;  // ~0: never

  // As Environment::read_program() and Environment::write_program().
  bool read(std::uint32_t program, const Environment::Reader& reader, std::span<const iovec> remote,
            std::span<const iovec> local);
  bool write(std::uint32_t program, std::span<const iovec> remote, std::span<const iovec> local);
  bool is_late(std::uint32_t program);
  bool is_full(std::uint32_t program);
  void defer(const Environment::Late& what);
  bool await_read(const Environment::Late& what);
  bool take_due(Environment::Late& out, bool& failed);

 private:
  // About an account whose programs' memory could not be reached.
  struct Penalty {
    std::uint64_t until = 0;  // no copy is made by the loop
    std::uint64_t last = 0;   // when it was raised
    std::uint32_t times = 0;
  };
  bool is_left_to_thread(std::uint32_t program);
  bool is_hung(uid_t account) const;
  SlowMemory& slow(std::uint32_t program);
  void note_hang(std::uint32_t program);
  void count_late();

  std::uint32_t& late_;  // the environment's
  bool& postponed_;
  const std::string& interface_;
  std::vector<ProgramMemory> memories_;
  std::shared_ptr<ProgramCopy> copy_;
  HangGuard* hang_guard_ = nullptr;
  UserThreads* threads_ = nullptr;
  std::vector<std::shared_ptr<SlowMemory>> slow_;  // by program; null: none
  std::uint32_t slow_count_ = 0;
  std::unordered_map<uid_t, Penalty> penalties_;
};

}  // namespace viaduct

#endif
