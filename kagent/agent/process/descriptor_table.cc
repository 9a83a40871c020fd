#include "kagent/agent/process/descriptor_table.h"

#include <linux/close_range.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <semaphore>
#include <system_error>
#include <thread>

namespace viaduct {
namespace {

constexpr unsigned kLast = ~0u;
constexpr unsigned kStandard = 3;  // 0, 1 and 2

bool close_all(unsigned first, unsigned last, unsigned flags) {
  return syscall(SYS_close_range, first, last, flags) == 0;
}

}  // namespace

bool leave_table(int kept) {
  const auto number = static_cast<unsigned>(kept);
  return close_all(0, number - 1, CLOSE_RANGE_UNSHARE) && close_all(number + 1, kLast, 0);
}

// Only a thread that shares a table can close what is in it: one is begun here and stays behind.
bool empty_table(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  std::binary_semaphore over(0);
  bool moved = false;
  try {
    std::thread last([&] {
      over.acquire();
      unsigned first = kStandard;
      for (const int each : kept) {
        const auto number = static_cast<unsigned>(each);
        if (moved && number > first) close_all(first, number - 1, 0);
        first = std::max(first, number + 1);
      }
      if (moved) close_all(first, kLast, 0);
    });
    moved = close_all(kLast, kLast, CLOSE_RANGE_UNSHARE);
    over.release();
    last.join();
  } catch (const std::system_error&) {
    return false;  // no thread now
  }
  return moved;
}

}  // namespace viaduct
