#include "examples/viabench/processors.h"

#include <sched.h>
#include <sys/types.h>

#include <filesystem>
#include <string>

#include "examples/viabench/measure.h"

namespace viabench {

void keep_to_half(int host) {
  cpu_set_t all, half;
  if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return;
  CPU_ZERO(&half);
  const int first = CPU_COUNT(&all) / 2;
  for (int i = 0, seen = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &all)) continue;
    if ((seen++ < first) == (host == 0)) CPU_SET(i, &half);
  }
  sched_setaffinity(0, sizeof half, &half);
  for (const pid_t agent : find_agents()) {
    std::error_code error;
    const std::string tasks = "/proc/" + std::to_string(agent) + "/task";
    for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
      sched_setaffinity(std::stoi(task.path().filename()), sizeof half, &half);
    }
  }
}

}  // namespace viabench
