#include "kagent/agent/programs/program_environment.h"

#include <arpa/inet.h>
#include <linux/futex.h>
#include <net/if.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "xdp/clock.h"
#include "kagent/agent/config/config.h"
#include "kagent/agent/process/log.h"

namespace viaduct {
namespace {

constexpr std::size_t kBufferBytes = 65536;
// For how long the copies of a user are left to a thread: at first, doubled each time up to an hour.
constexpr std::uint64_t kPenaltyNs = 2 * kNsPerSecond;
constexpr std::uint32_t kMostTimes = 12;
constexpr std::uint64_t kForgetNs = 7200 * kNsPerSecond;
constexpr std::uint64_t kMostBusyNs = 5 * kNsPerSecond;  // then the program is ended

// Host names without regard to case; a name without domain is equal to the same with any.
bool same_host(std::string_view a, std::string_view b) {
  if (a.find('.') == a.npos || b.find('.') == b.npos) {
    a = a.substr(0, a.find('.'));
    b = b.substr(0, b.find('.'));
  }
  return !a.empty() && a == b;
}

}  // namespace

ProgramEnvironment::ProgramEnvironment(std::uint32_t programs, const std::string& name,
                                       const std::map<std::string, MacAddress>& hosts,
                                       Addresses addresses)
    : memories_(programs),
      poll_wakes_(programs, -1),
      granted_segments_(programs, nullptr),
      users_(programs, ~uid_t{0}),
      accounts_(programs, ~uid_t{0}),
      copy_(std::make_shared<ProgramCopy>(kBufferBytes)),
      slow_(programs),
      name_(name),
      name_in_lower_case_(lower_case(name)),
      hosts_(hosts),
      addresses_(std::move(addresses)) {}

bool ProgramEnvironment::read_program(std::uint32_t program, std::span<const iovec> remote,
                                      std::span<const iovec> local) {
  postponed = false;
  if (slow_count_ != 0 && slow_[program] != nullptr) [[unlikely]] {
    return slow_[program]->read(remote, local, postponed, monotonic_ns());
  }
  switch (memories_[program].read(remote, local, *copy_, carriers_)) {
    case ProgramMemory::Copied::kDone: return true;
    case ProgramMemory::Copied::kFailed: return false;
    case ProgramMemory::Copied::kLate: break;
  }
  note_hang(program);
  postponed = true;
  return false;
}

bool ProgramEnvironment::write_program(std::uint32_t program, std::span<const iovec> remote,
                                       std::span<const iovec> local) {
  if (slow_count_ != 0 && slow_[program] != nullptr) [[unlikely]] {
    const bool taken = slow_[program]->write(remote, local, 0);
    count_late();
    return taken;
  }
  std::size_t begun = 0;
  switch (memories_[program].write(remote, local, *copy_, carriers_, begun)) {
    case ProgramMemory::Copied::kDone: return true;
    case ProgramMemory::Copied::kFailed: return false;
    case ProgramMemory::Copied::kLate: break;
  }
  note_hang(program);
  const bool taken = slow_[program]->write(remote, local, begun);
  count_late();
  return taken;
}

// ---------------------------------------------------------------------------- memory that is slow

// The loop has left a copy to the thread that makes it, and leaves to the user's thread what follows.
void ProgramEnvironment::note_hang(std::uint32_t program) {
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
  carriers_->let_go(slow(program).take_over(std::exchange(
      copy_, std::make_shared<ProgramCopy>(kBufferBytes))));
  // A user could begin anew with another program; root has no need to.
  for (std::uint32_t other = 0; user != 0 && other < memories_.size(); ++other) {
    if (memories_[other].is_open() && memories_[other].account() == user) slow(other);
  }
  count_late();
}

SlowMemory& ProgramEnvironment::slow(std::uint32_t program) {
  std::shared_ptr<SlowMemory>& out = slow_[program];
  if (out == nullptr) {
    const uid_t user = memories_[program].account();
    // Root's programs have a thread each.
    const uid_t thread = user == 0 ? ~program : user;
    out = std::make_shared<SlowMemory>(memories_[program], *threads_, thread);
    ++slow_count_;
  }
  return *out;
}

void ProgramEnvironment::count_late() {
  late = 0;
  for (const auto& each : slow_) late += each != nullptr && each->may_be_due();
}

void ProgramEnvironment::set_memory(std::uint32_t program, ProgramMemory memory) {
  close_memory(program);
  memories_[program] = std::move(memory);
  const auto penalty = penalties_.find(memories_[program].account());
  if (threads_ != nullptr && penalty != penalties_.end() && penalty->first != 0 &&
      penalty->second.until > monotonic_ns()) {
    slow(program);
  }
}

void ProgramEnvironment::close_memory(std::uint32_t program) {
  memories_[program].close();
  if (slow_[program] == nullptr) return;
  slow_[program].reset();
  --slow_count_;
  count_late();
}

std::vector<std::uint32_t> ProgramEnvironment::look_after_slow(std::uint64_t now) {
  std::vector<std::uint32_t> out;
  if (slow_count_ == 0) return out;
  for (std::uint32_t program = 0; program < slow_.size(); ++program) {
    if (slow_[program] == nullptr) continue;
    slow_[program]->look(now);
    const std::uint64_t since = slow_[program]->busy_since();
    if (since != 0 && now > since + kMostBusyNs) {
      threads_->abandon(slow_[program]->thread());
      out.push_back(program);
    }
    const bool quiet = slow_[program]->is_idle() && !slow_[program]->may_be_due();
    if (!quiet || penalties_[memories_[program].account()].until > now) continue;
    slow_[program].reset();
    --slow_count_;
  }
  count_late();
  return out;
}

bool ProgramEnvironment::is_late(std::uint32_t program) {
  return slow_[program] != nullptr && slow_[program]->is_late();
}

bool ProgramEnvironment::is_full(std::uint32_t program) {
  return slow_[program] != nullptr && slow_[program]->is_full();
}

bool ProgramEnvironment::await_read(const Late& what) {
  if (slow_[what.program] == nullptr || !slow_[what.program]->await_read(what)) return false;
  count_late();
  return true;
}

std::uint64_t ProgramEnvironment::next_slow_look() const {
  std::uint64_t out = ~0ull;
  if (slow_count_ == 0) return out;
  for (const auto& each : slow_) {
    if (each == nullptr) continue;
    out = std::min(out, each->next_look());
    if (each->busy_since() != 0) out = std::min(out, each->busy_since() + kMostBusyNs + 1);
  }
  return out;
}

void ProgramEnvironment::defer(const Late& what) { slow_[what.program]->defer(what); }

bool ProgramEnvironment::take_due(Late& out, bool& failed) {
  for (const auto& each : slow_) {
    if (each == nullptr || !each->take_due(out, failed)) continue;
    count_late();
    return true;
  }
  return false;
}

// ----------------------------------------------------------------------------

void ProgramEnvironment::wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// When there is no room for the message, others are there that have not been read.
void ProgramEnvironment::poll_wake(std::uint32_t program) {
  const std::byte anything{};
  send(poll_wakes_[program], &anything, sizeof anything, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool ProgramEnvironment::charge(std::uint32_t session, Quota what, std::int64_t change) {
  const uid_t user = accounts_[session];
  const std::uint64_t limits[] = {user_limits_.vis, user_limits_.regions,
                                  std::uint64_t{user_limits_.memory_mb} << 20};
  const auto which = static_cast<std::size_t>(what);
  std::array<std::uint64_t, 3>& holds = holdings_[user];
  const auto more = static_cast<std::uint64_t>(change);
  // Never wraps: the first comparison keeps both below 2^63.
  if (change > 0 && user != 0 && (more > limits[which] || holds[which] > limits[which] - more)) {
    return false;
  }
  holds[which] += more;
  if (change < 0 && holds == std::array<std::uint64_t, 3>{}) holdings_.erase(user);
  return true;
}

std::uint64_t ProgramEnvironment::random() {
  return numbers_.draw([](void* data, std::size_t bytes) { return getrandom(data, bytes, 0); });
}

std::optional<Environment::Connection> ProgramEnvironment::stopped(std::uint32_t session,
                                                                   std::uint32_t vi,
                                                                   std::uint64_t key) {
  if (granted_segments_[session] == nullptr) return std::nullopt;
  const auto found = granted_segments_[session]->stopped(vi, key, monotonic_ns());
  if (!found) return std::nullopt;
  return Connection{found->vi, found->key};
}

// Root's programs may claim any connection that a program of this host has.
Owns ProgramEnvironment::owns(std::uint32_t session, const Flow& flow) {
  const SocketOwners::Answer answer = owners_.ask(flow, if_nametoindex(interface_.c_str()));
  if (!answer.known) return Owns::kUnknown;
  if (!answer.owner) return Owns::kNo;
  return accounts_[session] == 0 || users_[session] == *answer.owner ? Owns::kYes : Owns::kNo;
}

std::optional<MacAddress> ProgramEnvironment::look_up(std::string_view name) {
  const std::string wanted = lower_case(name);
  const auto known = hosts_.find(wanted);
  if (known != hosts_.end()) return known->second;
  if (wanted == "localhost" || is_own_name(wanted)) return address_;
  if (!parse_ip(wanted).empty()) return std::nullopt;
  for (const auto& [host, address] : hosts_) {
    if (same_host(host, wanted)) return address;
  }
  return std::nullopt;
}

bool ProgramEnvironment::is_own_name(std::string_view name) {
  const IpAddress ip = parse_ip(name);
  if (!ip.empty()) return is_own_address(ip);
  return same_host(lower_case(name), name_in_lower_case_);
}

ProgramEnvironment::IpAddress ProgramEnvironment::parse_ip(std::string_view text) {
  std::uint8_t bytes[16];
  const std::string terminated(text);
  if (inet_pton(AF_INET, terminated.c_str(), bytes) == 1) return {bytes, bytes + 4};
  if (inet_pton(AF_INET6, terminated.c_str(), bytes) == 1) return {bytes, bytes + 16};
  return {};
}

bool ProgramEnvironment::is_own_address(const IpAddress& address) {
  const std::uint64_t now = monotonic_ns();
  if (asked_at_ == 0 || now - asked_at_ >= kNsPerSecond) {
    asked_at_ = now;
    own_addresses_.clear();
    for (const std::string& text : addresses_()) own_addresses_.push_back(parse_ip(text));
  }
  return std::find(own_addresses_.begin(), own_addresses_.end(), address) != own_addresses_.end();
}

// If there is no room, the next connection introduces them again.
void ProgramEnvironment::introduce(const MacAddress& one, const MacAddress& other) {
  constexpr std::size_t kMost = 64;
  if (one != other && introductions_.size() < kMost) introductions_.emplace_back(one, other);
}

}  // namespace viaduct
