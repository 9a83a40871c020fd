// VipxCopy.
#include <atomic>

#include "vipl/api/api.h"
#include "vipl/granted/guarded_copy.h"
#include "vipl/vipl_ext.h"

using namespace viaduct::vipl;

namespace {

std::atomic<bool> g_prepared;  // spares each copy a call

}  // namespace

int VipxCopy(void* to, const void* from, unsigned long bytes) {
  if (!g_prepared.load(std::memory_order_acquire)) {
    guarded::prepare();
    g_prepared.store(true, std::memory_order_release);
  }
  return guarded::copy(to, from, bytes) ? 1 : 0;
}
