// The memory of a program that can't be reached at once, so that its user's thread copies.
//
// Writes are done in the order in which they came, with a copy of their data; work that depends on them is
// kept until they are done. A read is repeated until it succeeds: the first time it is noted, some time
// later its data is there.
#ifndef VIADUCT_KAGENT_AGENT_PROGRAMS_SLOW_MEMORY_H
#define VIADUCT_KAGENT_AGENT_PROGRAMS_SLOW_MEMORY_H

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kagent/stack/environment.h"
#include "kagent/agent/programs/program_memory.h"
#include "kagent/agent/process/user_threads.h"

namespace viaduct {

class SlowMemory : public std::enable_shared_from_this<SlowMemory> {
 public:
  static constexpr std::size_t kMostBytes = 1 << 20;  // of data that waits

  // `owner`: whose thread copies.
  SlowMemory(const ProgramMemory& memory, UserThreads& threads, UserThreads::Owner owner)
      : memory_(memory), threads_(threads), owner_(owner) {}

  // A copy that the loop has left is under way. Returns the function to call when it is over.
  std::function<void()> take_over(std::shared_ptr<ProgramCopy> copy);

  bool write(std::span<const iovec> remote, std::span<const iovec> local, std::size_t skip);
  // As Environment::read_program.
  bool read(const Environment::Reader& reader, std::span<const iovec> remote, std::span<const iovec> local,
            bool& postponed, std::uint64_t now);
  // For whom the copy reads that was taken over last.
  void set_reader(const Environment::Reader& reader) { reader_ = reader; }

  bool is_late() const { return written_ != writes_ || !late_.empty(); }
  bool is_full() const { return waiting_bytes_ >= kMostBytes; }
  void defer(const Environment::Late& what) { late_.push_back({what, writes_}); }
  bool await_read(const Environment::Late& what);
  bool take_due(Environment::Late& out, bool& failed);
  bool may_be_due() const { return is_late() || !sends_.empty(); }
  // Drops data that was read and not fetched in time. To be called at next_look() at the latest. False: the memory
  // could not be reached for too long.
  bool look(std::uint64_t now);
  std::uint64_t next_look() const;  // ~0: never

  bool is_idle() const { return !under_way_; }

 private:
  struct Due {
    Environment::Late what;
    std::uint64_t after;  // how many writes must be done before
  };

  void start();
  void over(const std::vector<std::shared_ptr<ProgramCopy>>& copies);
  bool answer(const Environment::Reader& reader, std::span<const iovec> remote, std::span<const iovec> local,
              bool& good);

  ProgramMemory memory_;  // open as long as this is
  UserThreads& threads_;
  const UserThreads::Owner owner_;
  bool under_way_ = false;          // copies are, or wait for the thread
  std::uint64_t left_at_ = 0;       // when the loop left a copy that is under way; 0: none is
  bool given_up_ = false;
  std::vector<std::shared_ptr<ProgramCopy>> waiting_;
  std::size_t waiting_bytes_ = 0;  // of copies that wait or are under way
  std::uint64_t writes_ = 0, written_ = 0;
  bool failed_ = false;
  std::deque<Due> late_;
  bool read_wanted_ = false;             // a read waits or is under way
  std::shared_ptr<ProgramCopy> read_;    // the data that was read last; null: none
  Environment::Reader reader_{};         // for whom
  std::uint64_t read_at_ = 0;
  std::deque<Environment::Late> sends_;  // sends that wait for a read
  bool next_send_ = false;               // the next of sends_ may try again
};

}  // namespace viaduct

#endif
