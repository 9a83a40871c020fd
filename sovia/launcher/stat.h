// `sovia stat`: the counters of running programs.
#ifndef VIADUCT_SOVIA_LAUNCHER_STAT_H
#define VIADUCT_SOVIA_LAUNCHER_STAT_H

#include <ostream>
#include <vector>

namespace viaduct::sovia::launcher {

enum class StatFormat { kTable, kJson, kPrometheus };

struct StatRequest {
  std::vector<int> processes;  // none: all that can be seen
  StatFormat format = StatFormat::kTable;
  bool zeros = false;  // the table shows counters that are 0, too
};

// Returns 0, or 1 if there was nothing to show. Throws std::runtime_error if a process that was
// asked for can't be shown.
int show_counters(const StatRequest& request, std::ostream& out);

}  // namespace viaduct::sovia::launcher

#endif
