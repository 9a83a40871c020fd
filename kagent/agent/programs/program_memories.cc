#include "kagent/agent/programs/program_memories.h"

#include <algorithm>
#include <utility>

#include "kagent/agent/process/log.h"
#include "xdp/clock.h"

namespace viaduct {
namespace {

constexpr std::size_t kBufferBytes = 65536;
// For how long the copies of an account are left to threads: this long at first, doubled each time up to an hour.
constexpr std::uint64_t kPenaltyNs = 2 * kNsPerSecond;
constexpr std::uint32_t kMostTimes = 12;
constexpr std::uint64_t kForgetNs = 7200 * kNsPerSecond;

}  // namespace

ProgramMemories::ProgramMemories(std::uint32_t programs, Environment& environment, const std::string& interface)
    : late_(environment.late),
      postponed_(environment.postponed),
      interface_(interface),
      memories_(programs),
      copy_(std::make_shared<ProgramCopy>(kBufferBytes)),
      slow_(programs) {}

bool ProgramMemories::read(std::uint32_t program, const Environment::Reader& reader,
                           std::span<const iovec> remote, std::span<const iovec> local) {
  postponed_ = false;
  if (is_left_to_thread(program)) [[unlikely]] {
    return slow_[program]->read(reader, remote, local, postponed_, monotonic_ns());
  }
  switch (memories_[program].read(remote, local, *copy_, hang_guard_)) {
    case ProgramMemory::Copied::kDone: return true;
    case ProgramMemory::Copied::kFailed: return false;
    case ProgramMemory::Copied::kLate: break;
  }
  note_hang(program);
  slow_[program]->set_reader(reader);
  postponed_ = true;
  return false;
}

bool ProgramMemories::write(std::uint32_t program, std::span<const iovec> remote,
                                       std::span<const iovec> local) {
  if (is_left_to_thread(program)) [[unlikely]] {
    const bool taken = slow_[program]->write(remote, local, 0);
    count_late();
    return taken;
  }
  std::size_t begun = 0;
  switch (memories_[program].write(remote, local, *copy_, hang_guard_, begun)) {
    case ProgramMemory::Copied::kDone: return true;
    case ProgramMemory::Copied::kFailed: return false;
    case ProgramMemory::Copied::kLate: break;
  }
  note_hang(program);
  const bool taken = slow_[program]->write(remote, local, begun);
  count_late();
  return taken;
}

// The loop copies nothing for an account of which copies hang, on whichever NIC, and makes no copy that it could not
// leave.
bool ProgramMemories::is_left_to_thread(std::uint32_t program) {
  if (slow_count_ != 0 && slow_[program] != nullptr) [[unlikely]] return true;
  if (threads_ == nullptr || !threads_->any_hung() || !memories_[program].is_open()) [[likely]] return false;
  if (!hang_guard_->is_full() && !is_hung(memories_[program].account())) return false;
  slow(program);
  return true;
}

// Root's programs don't answer for each other, while there are few that hang.
bool ProgramMemories::is_hung(uid_t account) const {
  return account == 0 ? !threads_->may_have(account) : threads_->hung(account) != 0;
}

// The loop has left a copy to the thread that makes it, and leaves to the user's threads what follows.
void ProgramMemories::note_hang(std::uint32_t program) {
  const std::uint64_t now = monotonic_ns();
  const uid_t user = memories_[program].account();
  Penalty& penalty = penalties_[user];
  if (now - penalty.last > kForgetNs) penalty.times = 0;
  penalty.times = std::min(penalty.times + 1, kMostTimes);
  penalty.last = now;
  penalty.until = now + (kPenaltyNs << (penalty.times - 1));
  log::warn("{}: the memory of a program of {} is slow to reach; a thread of its own copies it for "
            "the next {} s", interface_.empty() ? "lo" : interface_, text_of_account(user),
            (penalty.until - now) / kNsPerSecond);
  hang_guard_->let_go(slow(program).take_over(std::exchange(
      copy_, std::make_shared<ProgramCopy>(kBufferBytes))));
  // A user could escape by another program, so all its programs are treated so; root has no need to.
  for (std::uint32_t other = 0; user != 0 && other < memories_.size(); ++other) {
    if (memories_[other].is_open() && memories_[other].account() == user) slow(other);
  }
  count_late();
}

SlowMemory& ProgramMemories::slow(std::uint32_t program) {
  std::shared_ptr<SlowMemory>& out = slow_[program];
  if (out == nullptr) {
    const uid_t account = memories_[program].account();
    // Root's programs have a thread each.
    const UserThreads::Owner owner{account, account == 0 ? program + 1 : 0};
    out = std::make_shared<SlowMemory>(memories_[program], *threads_, owner);
    ++slow_count_;
  }
  return *out;
}

void ProgramMemories::count_late() {
  late_ = 0;
  for (const auto& each : slow_) late_ += each != nullptr && each->may_be_due();
}

void ProgramMemories::set(std::uint32_t program, ProgramMemory memory) {
  close(program);
  memories_[program] = std::move(memory);
  const auto penalty = penalties_.find(memories_[program].account());
  if (threads_ != nullptr && penalty != penalties_.end() && penalty->first != 0 &&
      penalty->second.until > monotonic_ns()) {
    slow(program);
  }
}

void ProgramMemories::close(std::uint32_t program) {
  memories_[program].close();
  if (slow_[program] == nullptr) return;
  slow_[program].reset();
  --slow_count_;
  count_late();
}

std::vector<std::uint32_t> ProgramMemories::look(std::uint64_t now) {
  std::vector<std::uint32_t> out;
  if (slow_count_ == 0) return out;
  for (std::uint32_t program = 0; program < slow_.size(); ++program) {
    if (slow_[program] == nullptr) continue;
    if (!slow_[program]->look(now)) out.push_back(program);
    const uid_t account = memories_[program].account();
    const bool quiet = slow_[program]->is_idle() && !slow_[program]->may_be_due();
    if (!quiet || is_hung(account) || penalties_[account].until > now) continue;
    slow_[program].reset();
    --slow_count_;
  }
  count_late();
  return out;
}

bool ProgramMemories::is_late(std::uint32_t program) {
  return slow_[program] != nullptr && slow_[program]->is_late();
}

bool ProgramMemories::is_full(std::uint32_t program) {
  return slow_[program] != nullptr && slow_[program]->is_full();
}

bool ProgramMemories::await_read(const Environment::Late& what) {
  if (slow_[what.program] == nullptr || !slow_[what.program]->await_read(what)) return false;
  count_late();
  return true;
}

std::uint64_t ProgramMemories::next_look() const {
  std::uint64_t out = ~0ull;
  if (slow_count_ == 0) return out;
  for (const auto& each : slow_) {
    if (each == nullptr) continue;
    out = std::min(out, each->next_look());
  }
  return out;
}

void ProgramMemories::defer(const Environment::Late& what) { slow_[what.program]->defer(what); }

bool ProgramMemories::take_due(Environment::Late& out, bool& failed) {
  for (const auto& each : slow_) {
    if (each == nullptr || !each->take_due(out, failed)) continue;
    count_late();
    return true;
  }
  return false;
}

}  // namespace viaduct
