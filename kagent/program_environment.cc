#include "kagent/program_environment.h"

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
#include <cstdlib>
#include <utility>

#include "kagent/clock.h"
#include "kagent/config.h"

namespace viaduct {
namespace {

constexpr std::size_t kBufferBytes = 65536;

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
      chimes_(programs, -1),
      homes_(programs, nullptr),
      users_(programs, ~uid_t{0}),
      buffer_(kBufferBytes),
      name_(name),
      name_in_lower_case_(lower_case(name)),
      hosts_(hosts),
      addresses_(std::move(addresses)) {}

bool ProgramEnvironment::read_program(std::uint32_t program, std::span<const iovec> remote,
                                      std::span<const iovec> local) {
  return memories_[program].read(remote, local, buffer_);
}

bool ProgramEnvironment::write_program(std::uint32_t program, std::span<const iovec> remote,
                                       std::span<const iovec> local) {
  return memories_[program].write(remote, local, buffer_);
}

void ProgramEnvironment::wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// When there is no room for the message, others are there that have not been read.
void ProgramEnvironment::chime(std::uint32_t program) {
  const std::byte anything{};
  send(chimes_[program], &anything, sizeof anything, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool ProgramEnvironment::charge(std::uint32_t session, Charged what, std::int64_t change) {
  const uid_t user = users_[session];
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
  if (numbers_left_ == 0) {
    // Requests of up to 256 bytes are not cut short.
    static_assert(sizeof numbers_ <= 256);
    while (getrandom(numbers_.data(), sizeof numbers_, 0) != sizeof numbers_) {
      if (errno != EINTR) std::abort();  // no kernel that has AF_XDP
    }
    numbers_left_ = numbers_.size();
  }
  return std::exchange(numbers_[--numbers_left_], 0);
}

// What belongs to root's programs is theirs to say.
std::optional<Environment::Connection> ProgramEnvironment::stopped(std::uint32_t session,
                                                                   std::uint32_t vi,
                                                                   std::uint64_t key) {
  if (homes_[session] == nullptr) return std::nullopt;
  const auto found = homes_[session]->stopped(vi, key, monotonic_ns());
  if (!found) return std::nullopt;
  return Connection{found->vi, found->key};
}

Owns ProgramEnvironment::owns(std::uint32_t session, const Flow& flow) {
  const SocketOwners::Answer answer = owners_.ask(flow, if_nametoindex(interface_.c_str()));
  if (!answer.known) return Owns::kUnknown;
  if (!answer.owner) return Owns::kNo;
  return users_[session] == 0 || users_[session] == *answer.owner ? Owns::kYes : Owns::kNo;
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

}  // namespace viaduct
