// The registrations of an EpollSet, found by descriptor or by the token in the kernel's events.
#ifndef VIADUCT_SOVIA_POLL_REGISTRATION_TABLE_H
#define VIADUCT_SOVIA_POLL_REGISTRATION_TABLE_H

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "sovia/poll/epoll_registration.h"

namespace viaduct::sovia {

// How many registrations all tables together have of each descriptor. No lock is needed to ask.
class RegistrationCounts {
 public:
  // False: no table has one. True for all descriptors with high numbers, which are not counted.
  static bool may_have(int fd) { return !counted(fd) || counts_[static_cast<std::size_t>(fd)].load() != 0; }
  static void add(int fd, int more) {
    if (counted(fd)) counts_[static_cast<std::size_t>(fd)].fetch_add(more);
  }

 private:
  static constexpr unsigned kCounted = 65536;
  static bool counted(int fd) { return static_cast<unsigned>(fd) < kCounted; }
  static std::array<std::atomic<int>, kCounted> counts_;
};

class RegistrationTable {
 public:
  Registration* find(int fd) const;
  Registration* any() const;  // nullptr: there is none
  Registration& make(int fd);
  void erase(Registration& r);
  // Calls visit(registration) until it returns true.
  template <class Visit>
  bool any_of(Visit&& visit) const VIADUCT_REQUIRES(set_state) {
    for (const auto& [fd, r] : by_fd_) {
      if (visit(*r)) return true;
    }
    return false;
  }

  static std::uint64_t token(const Registration& r);
  static std::uint64_t wake_event_token();
  static bool looks_like_token(std::uint64_t data);
  // The sender of an event, by its data. kToken: the data is a token; `r` is its registration, or nullptr if that has
  // gone.
  enum class Sender { kProgram, kWakeEvent, kToken };
  Sender sender_of(std::uint64_t data, Registration*& r) const;

 private:
  std::unordered_map<int, std::unique_ptr<Registration>> by_fd_;
  struct Slot {
    Registration* registration = nullptr;
    std::uint32_t generation = 0;
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace viaduct::sovia

#endif
