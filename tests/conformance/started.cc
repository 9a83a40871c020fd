#include "started.h"

#include <vector>

namespace conformance {
namespace {

std::mutex mutex;
std::vector<std::shared_ptr<Run>> runs;

}  // namespace

bool Run::await(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex);
  return changed.wait_until(lock, std::chrono::steady_clock::now() + limit,
                            [this] { return done; });
}

void remember(const std::shared_ptr<Run>& run) {
  const std::lock_guard lock(mutex);
  runs.push_back(run);
}

std::string await_all_started(std::chrono::milliseconds limit) {
  std::vector<std::shared_ptr<Run>> all;
  {
    const std::lock_guard lock(mutex);
    all.swap(runs);
  }
  std::string hung;
  for (const auto& run : all) {
    if (!run->await(hung.empty() ? limit : std::chrono::milliseconds(0))) hung += " " + run->where;
  }
  return hung;
}

}  // namespace conformance
