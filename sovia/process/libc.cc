#include "sovia/process/libc.h"

#include <dlfcn.h>

#include <atomic>

namespace viaduct::sovia::libc {

#define SOVIA_DEFINE(name) decltype(&::name) name = nullptr;
SOVIA_KERNEL_CALLS(SOVIA_DEFINE)
#undef SOVIA_DEFINE

namespace {

constinit std::atomic<bool> g_prepared{false};

template <class F>
void resolve(F& function, const char* name) {
  function = reinterpret_cast<F>(find(name));
}

}  // namespace

void* find(const char* name) { return dlsym(RTLD_NEXT, name); }

// Two threads may do this at the same time: they store the same.
void prepare() {
  if (g_prepared.load(std::memory_order_acquire)) return;
#define SOVIA_RESOLVE(name) resolve(name, #name);
  SOVIA_KERNEL_CALLS(SOVIA_RESOLVE)
#undef SOVIA_RESOLVE
  g_prepared.store(true, std::memory_order_release);
}

}  // namespace viaduct::sovia::libc
