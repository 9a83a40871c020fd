#include "records.h"

#include <list>
#include <mutex>

namespace conformance {
namespace {

struct Atomics {
  std::array<std::array<std::atomic<std::uint64_t>, kCodes>, kFunctions> codes{};
  std::array<std::atomic<std::uint64_t>, 32> status_bits{};
  std::array<std::atomic<std::uint64_t>, kOperations> operations{};
  std::array<std::array<std::atomic<std::uint64_t>, kResourceCodes>, kErrorCodes> errors{};
  std::atomic<std::uint64_t> unknown{0};
};
Atomics counted;

void add(std::atomic<std::uint64_t>& to, std::uint64_t n = 1) {
  to.fetch_add(n, std::memory_order_relaxed);
}

// Goes through both structures alike.
template <class A, class C, class Each>
void pairwise(A& a, C& c, Each each) {
  for (std::size_t i = 0; i < kFunctions; ++i) {
    for (std::size_t j = 0; j < kCodes; ++j) each(a.codes[i][j], c.codes[i][j]);
  }
  for (std::size_t i = 0; i < 32; ++i) each(a.status_bits[i], c.status_bits[i]);
  for (std::size_t i = 0; i < kOperations; ++i) each(a.operations[i], c.operations[i]);
  for (std::size_t i = 0; i < kErrorCodes; ++i) {
    for (std::size_t j = 0; j < kResourceCodes; ++j) each(a.errors[i][j], c.errors[i][j]);
  }
  each(a.unknown, c.unknown);
}

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A thread's current call. Written by that thread alone; kept when it ends.
struct Place {
  std::atomic<const char*> what{nullptr};
  std::atomic<std::int64_t> since{0};
  std::atomic<bool> taken{true};
};

std::mutex places_mutex;
std::list<Place>& places() {
  static auto* const list = new std::list<Place>;
  return *list;
}

struct Claim {
  Place* place;
  bool others = false;
  Claim() {
    const std::lock_guard lock(places_mutex);
    for (Place& old : places()) {
      if (!old.taken.exchange(true)) {
        place = &old;
        return;
      }
    }
    place = &places().emplace_back();
  }
  ~Claim() { place->taken = false; }
};
Claim& mine() {
  thread_local Claim claim;
  return claim;
}

}  // namespace

const char* function_name(Function function) {
  static constexpr const char* kNames[] = {
#define F(name) "Vip" #name,
      CONFORMANCE_FUNCTIONS(F)
#undef F
  };
  return kNames[static_cast<std::size_t>(function)];
}

void record_code(Function function, VIP_RETURN code) {
  const auto number = static_cast<std::size_t>(code);
  add(number < kCodes ? counted.codes[static_cast<std::size_t>(function)][number]
                      : counted.unknown);
}

void record_status(std::uint32_t status) {
  for (std::size_t i = 0; i < 32; ++i) {
    if ((status >> i & 1) != 0) add(counted.status_bits[i]);
  }
  add(counted.operations[(status & VIP_STATUS_OP_MASK) >> 16]);
}

void record_error(VIP_ERROR_CODE error, VIP_RESOURCE_CODE resource) {
  const auto e = static_cast<std::size_t>(error), r = static_cast<std::size_t>(resource);
  add(e < kErrorCodes && r < kResourceCodes ? counted.errors[e][r] : counted.unknown);
}

Counts recorded() {
  Counts counts;
  pairwise(counted, counts,
           [](auto& from, auto& to) { to = from.load(std::memory_order_relaxed); });
  return counts;
}

void add_recorded(const Counts& counts) {
  pairwise(counted, counts, [](auto& to, auto& n) { add(to, n); });
}

InFlight::InFlight(const char* what) {
  Place& place = *mine().place;
  outermost_ = place.what.load(std::memory_order_relaxed) == nullptr;
  if (!outermost_ || mine().others) return;
  place.since.store(now_ms(), std::memory_order_relaxed);
  place.what.store(what, std::memory_order_relaxed);
}

InFlight::~InFlight() {
  if (outermost_) mine().place->what.store(nullptr, std::memory_order_relaxed);
}

void leave_to_others() { mine().others = true; }
bool left_to_others() { return mine().others; }

std::string overdue_call(std::chrono::milliseconds limit) {
  const std::lock_guard lock(places_mutex);
  for (const Place& place : places()) {
    const char* const what = place.what.load(std::memory_order_relaxed);
    const std::int64_t age = now_ms() - place.since.load(std::memory_order_relaxed);
    if (what != nullptr && age > limit.count()) return what;
  }
  return {};
}

}  // namespace conformance
