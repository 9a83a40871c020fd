#include "sovia/socket/quick_bypass.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace viaduct::sovia::quick_bypass {
namespace {

constexpr std::size_t kSlots = 256;  // threads beyond count references (lane_life.h)
constinit std::array<Slot, kSlots> g_slots;

bool barrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }
// Threads and handlers may call it at the same time.
bool prepare() { return barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

void give_back(void* slot) {
  t_slot = nullptr;
  auto* const own = static_cast<Slot*>(slot);
  own->socket.store(nullptr);
  own->taken.store(false);
}

// The key whose destructor gives the slot back, made when the library is loaded.
pthread_key_t g_key;
const bool g_has_key = pthread_key_create(&g_key, give_back) == 0;

}  // namespace

constinit thread_local __attribute__((tls_model("initial-exec"))) Slot* t_slot = nullptr;

Slot* take_slot() {
  static constinit std::atomic<bool> prepared{false};
  if (!g_has_key) return nullptr;
  if (!prepared.load(std::memory_order_relaxed)) {
    if (!prepare()) return nullptr;
    prepared.store(true, std::memory_order_relaxed);
  }
  for (Slot& slot : g_slots) {
    if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true)) continue;
    if (pthread_setspecific(g_key, &slot) == 0) return t_slot = &slot;
    slot.taken.store(false);
    break;
  }
  return nullptr;
}

bool is_in_use(const Socket& socket) {
  bool any = false;
  for (const Slot& slot : g_slots) any |= slot.taken.load(std::memory_order_relaxed);
  if (!any) return false;
  if (!barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return true;
  for (const Slot& slot : g_slots) {
    if (slot.socket.load(std::memory_order_acquire) == &socket) return true;
  }
  return false;
}

void after_fork_in_child() {
  for (Slot& slot : g_slots) {
    if (&slot == t_slot) continue;
    slot.socket.store(nullptr);
    slot.taken.store(false);
  }
  if (t_slot != nullptr) prepare();
}

}  // namespace viaduct::sovia::quick_bypass
