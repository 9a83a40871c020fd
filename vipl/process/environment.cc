#include "vipl/process/environment.h"

#include <stdlib.h>
#include <string.h>

#include <atomic>

namespace viaduct::vipl::environment {
namespace {

constexpr std::uint64_t kUnset = ~std::uint64_t{0};

constinit std::atomic<bool> g_explains{false};
constinit std::atomic<std::uint64_t> g_spin_us{kUnset};

constinit Seen g_kept{};
constinit std::atomic<bool> g_is_kept{false};

void look_for_placement(Seen& seen) {
  const char* const text = secure_getenv(control::kPlacementVariable);
  seen.placement = control::Placement::kAny;
  if (text == nullptr || *text == '\0' || strcmp(text, "auto") == 0) return;
  if (strcmp(text, "hosted") == 0) {
    seen.placement = control::Placement::kHosted;
  } else if (strcmp(text, "granted") == 0) {
    seen.placement = control::Placement::kGranted;
  } else {
    seen.placement_is_nonsense = true;
  }
}

std::uint64_t spin_that_is_set() {
  const char* const text = secure_getenv("VIADUCT_SPIN_US");
  if (text == nullptr) return kUnset;
  char* end = nullptr;
  const unsigned long value = strtoul(text, &end, 10);
  return end != text && *end == '\0' ? value : kUnset;
}

}  // namespace

Seen look() {
  if (g_is_kept.load(std::memory_order_acquire)) return g_kept;
  Seen seen{};
  const char* const name = secure_getenv(control::kSocketVariable);
  if (name != nullptr) strncpy(seen.socket, name, sizeof seen.socket - 1);
  look_for_placement(seen);
  g_explains.store(secure_getenv("VIADUCT_DEBUG") != nullptr);
  g_spin_us.store(spin_that_is_set());
  return seen;
}

void keep() {
  if (g_is_kept.load(std::memory_order_acquire)) return;
  g_kept = look();
  g_is_kept.store(true, std::memory_order_release);
}

bool explains() { return g_explains.load(std::memory_order_relaxed); }

std::uint64_t spin_us(std::uint64_t recommended_us) {
  const std::uint64_t set = g_spin_us.load(std::memory_order_relaxed);
  return set == kUnset ? recommended_us : set;
}

}  // namespace viaduct::vipl::environment
