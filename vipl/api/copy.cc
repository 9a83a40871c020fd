// VipxCopy.
#include <atomic>

#include "vipl/api/api.h"
#include "vipl/granted/guarded_copy.h"
#include "vipl/vipl_ext.h"

using namespace viaduct::vipl;

namespace {

std::atomic<int> g_prepared;  // 0: no, 1: a thread is at it, 2: yes

}  // namespace

int VipxCopy(void* to, const void* from, unsigned long bytes) {
  if (g_prepared.load(std::memory_order_acquire) != 2) {
    int no = 0;
    if (g_prepared.compare_exchange_strong(no, 1)) {
      guarded::prepare();
      g_prepared.store(2, std::memory_order_release);
    }
    while (g_prepared.load(std::memory_order_acquire) != 2) continue;
  }
  return guarded::copy(to, from, bytes) ? 1 : 0;
}
