// Reads the counters page of another process (sovia/process/counters.h) while it runs.
#ifndef VIADUCT_SOVIA_LAUNCHER_COUNTERS_READER_H
#define VIADUCT_SOVIA_LAUNCHER_COUNTERS_READER_H

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sovia/process/counters.h"

namespace viaduct::sovia::launcher {

struct SocketRow {
  int descriptor;
  counters::Way way;
  Reason reason;
};

struct ProcessCounters {
  int process = 0;
  std::string program;
  std::array<std::uint64_t, kCounters> values{};
  std::array<std::uint64_t, kReasons> falls{};
  std::vector<SocketRow> sockets;
};

// Empty if the process has no such page: it has no sockets, or does not use SOVIA. Throws std::runtime_error if the
// page can't be read, or is of another version.
std::optional<ProcessCounters> read_counters(int process);

// The counters of all these processes. Throws std::runtime_error also for a process that has no page.
std::vector<ProcessCounters> read_those(const std::vector<int>& processes);

// All processes that can be looked at and have a page.
std::vector<ProcessCounters> read_all_counters();

}  // namespace viaduct::sovia::launcher

#endif
