#include "sovia/launcher/stat.h"

#include <iomanip>
#include <string>

#include "sovia/launcher/counters_reader.h"
#include "sovia/launcher/json_text.h"

namespace viaduct::sovia::launcher {
namespace {

Counter counter_at(std::size_t i) { return static_cast<Counter>(i); }
Reason reason_at(std::size_t i) { return static_cast<Reason>(i); }

void print_table(const ProcessCounters& process, bool zeros, std::ostream& out) {
  out << process.program << " (" << process.process << ")\n";
  const auto row = [&](std::uint64_t value, const char* name, const char* text) {
    if (value == 0 && !zeros) return;
    out << "  " << std::left << std::setw(22) << name << std::right << std::setw(16) << value
        << "  " << text << "\n";
  };
  for (std::size_t i = 0; i < kCounters; ++i) {
    row(process.values[i], counters::name_of(counter_at(i)), counters::text_of(counter_at(i)));
  }
  bool titled = false;
  for (std::size_t i = 1; i < kReasons; ++i) {
    if (process.falls[i] == 0 && !zeros) continue;
    if (!titled) out << "  through the kernel, as\n";
    titled = true;
    row(process.falls[i], counters::name_of(reason_at(i)), text_of(reason_at(i)));
  }
}

void print_json(const std::vector<ProcessCounters>& all, std::ostream& out) {
  out << "[";
  for (std::size_t p = 0; p < all.size(); ++p) {
    const ProcessCounters& process = all[p];
    out << (p == 0 ? "\n" : ",\n") << "  {\"pid\": " << process.process
        << ", \"program\": " << quoted(process.program) << ", \"counters\": {";
    for (std::size_t i = 0; i < kCounters; ++i) {
      out << (i == 0 ? "" : ", ") << quoted(counters::name_of(counter_at(i))) << ": "
          << process.values[i];
    }
    out << "}, \"falls\": {";
    for (std::size_t i = 1; i < kReasons; ++i) {
      out << (i == 1 ? "" : ", ") << quoted(counters::name_of(reason_at(i))) << ": "
          << process.falls[i];
    }
    out << "}}";
  }
  out << "\n]\n";
}

void print_prometheus(const std::vector<ProcessCounters>& all, std::ostream& out) {
  const auto labels = [](const ProcessCounters& process) {
    return "pid=\"" + std::to_string(process.process) + "\",program=" + quoted(process.program);
  };
  for (std::size_t i = 0; i < kCounters; ++i) {
    const char* const name = counters::name_of(counter_at(i));
    out << "# HELP sovia_" << name << " " << counters::text_of(counter_at(i)) << "\n# TYPE sovia_"
        << name << " counter\n";
    for (const ProcessCounters& process : all) {
      out << "sovia_" << name << "{" << labels(process) << "} " << process.values[i] << "\n";
    }
  }
  out << "# HELP sovia_falls connections, or directions of them, that go through the kernel\n"
         "# TYPE sovia_falls counter\n";
  for (const ProcessCounters& process : all) {
    for (std::size_t i = 1; i < kReasons; ++i) {
      out << "sovia_falls{" << labels(process) << ",reason=\"" << counters::name_of(reason_at(i))
          << "\"} " << process.falls[i] << "\n";
    }
  }
}

}  // namespace

int show_counters(const StatRequest& request, std::ostream& out) {
  const std::vector<ProcessCounters> all =
      request.processes.empty() ? read_all_counters() : read_those(request.processes);
  switch (request.format) {
    case StatFormat::kTable:
      for (const ProcessCounters& process : all) print_table(process, request.zeros, out);
      break;
    case StatFormat::kJson:
      print_json(all, out);
      break;
    case StatFormat::kPrometheus:
      print_prometheus(all, out);
      break;
  }
  return all.empty() ? 1 : 0;
}

}  // namespace viaduct::sovia::launcher
