#include "sovia/poll/registration_table.h"

#include <sys/auxv.h>

#include <cstring>
#include <utility>

namespace viaduct::sovia {
namespace {

// A token: magic (16 bits), generation (24), slot (24). No pointer or small number has the magic; a registration whose
// data has it by chance gets a token, too.
constexpr unsigned kSlotBits = 24;
constexpr unsigned kMagicShift = 48;
constexpr std::uint64_t kSlotMask = (1u << kSlotBits) - 1;
constexpr std::uint64_t kWakeEventSlot = kSlotMask;

std::uint64_t magic() {
  static constinit std::atomic<std::uint64_t> known{0};
  if (const std::uint64_t value = known.load(std::memory_order_relaxed); value != 0) return value;
  std::uint16_t random = 0x50f1;
  const auto* bytes = reinterpret_cast<const char*>(getauxval(AT_RANDOM));
  if (bytes != nullptr) std::memcpy(&random, bytes, sizeof random);
  known.store(std::uint64_t{static_cast<std::uint16_t>((random & 0x3fff) | 0x4000)} << kMagicShift);
  return known.load();
}

}  // namespace

constinit std::array<std::atomic<int>, RegistrationCounts::kCounted> RegistrationCounts::counts_{};

bool RegistrationTable::looks_like_token(std::uint64_t data) {
  return ((data ^ magic()) >> kMagicShift) == 0;
}

std::uint64_t RegistrationTable::token(const Registration& r) {
  return magic() | std::uint64_t{r.generation} << kSlotBits | r.slot;
}

std::uint64_t RegistrationTable::wake_event_token() { return magic() | kWakeEventSlot; }

Registration* RegistrationTable::find(int fd) const {
  const auto found = by_fd_.find(fd);
  return found == by_fd_.end() ? nullptr : found->second.get();
}

Registration* RegistrationTable::any() const {
  return by_fd_.empty() ? nullptr : by_fd_.begin()->second.get();
}

Registration& RegistrationTable::make(int fd) {
  std::uint32_t slot = static_cast<std::uint32_t>(slots_.size());
  if (free_slots_.empty()) {
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  auto made = std::make_unique<Registration>();
  Registration& r = *made;
  r.fd = fd;
  r.slot = slot;
  r.generation = ++slots_[slot].generation & static_cast<std::uint32_t>(kSlotMask);
  slots_[slot].registration = &r;
  by_fd_[fd] = std::move(made);
  RegistrationCounts::add(fd, 1);
  return r;
}

void RegistrationTable::erase(Registration& r) {
  slots_[r.slot].registration = nullptr;
  free_slots_.push_back(r.slot);
  RegistrationCounts::add(r.fd, -1);
  by_fd_.erase(r.fd);
}

RegistrationTable::Sender RegistrationTable::sender_of(std::uint64_t data, Registration*& r) const {
  r = nullptr;
  if (!looks_like_token(data)) return Sender::kProgram;
  const std::uint64_t slot = data & kSlotMask;
  if (slot == kWakeEventSlot) return Sender::kWakeEvent;
  if (slot < slots_.size() && slots_[slot].registration != nullptr &&
      token(*slots_[slot].registration) == data) {
    r = slots_[slot].registration;
  }
  return Sender::kToken;
}

}  // namespace viaduct::sovia
