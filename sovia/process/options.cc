#include "sovia/process/options.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "sovia/process/libc.h"
#include "sovia/process/once.h"

namespace viaduct::sovia {

bool g_debugging = false;

namespace {

enum class Unit { kFlag, kCount, kBytes, kMicroseconds, kRoute };

int g_debug_descriptor = STDERR_FILENO;

// Configurations as the papers describe them, without any of this library's additions. The first rows are table 4 of
// the SOVIA paper; six of them wait for an answer to each packet (w = t = 1). Sockets over EMP and SDP's buffered
// copies, and writes to the buffers that its receivers advertise, follow.
struct Row {
  const char* name;
  Handling handling;
  std::uint64_t copy_limit;
  std::uint64_t window;
  std::uint64_t ack_threshold;
  bool combine;
  std::uint64_t rendezvous = kCopyAll;  // for connections that keep the boundaries of messages; kCopyAll: they do not
};

constexpr Row kRows[] = {
    {"NOTIFY", Handling::kNotify, kRegisterAll, 1, 1, false},
    {"HANDLER", Handling::kHandler, kRegisterAll, 1, 1, false},
    {"SINGLE", Handling::kSingle, kRegisterAll, 1, 1, false},
    {"REG", Handling::kSingle, kRegisterAll, 1, 1, false},
    {"COPY", Handling::kSingle, kCopyAll, 1, 1, false},
    {"HYBRID", Handling::kSingle, kHybridLimit, 1, 1, false},
    {"BASE", Handling::kSingle, kHybridLimit, 1, 1, false},
    {"FLOWCNTL", Handling::kSingle, kHybridLimit, 32, 1, false},
    {"DACKS", Handling::kSingle, kHybridLimit, 32, 16, false},
    {"COMBINE", Handling::kSingle, kHybridLimit, 32, 16, true},
    {"DS", Handling::kSingle, kRegisterAll, 32, 1, false},
    {"DS_DA", Handling::kSingle, kRegisterAll, 32, 16, false},
    {"BCOPY", Handling::kSingle, kCopyAll, 32, 16, false},
    {"ZCOPY", Handling::kSingle, kCopyAll, 32, 16, false, kZcopyFrom},
};

constexpr const char* kRoutes[] = {"auto", "lane", "kernel", "pure"};

void take(const Row& row, Options& options) {
  options.config = row.name;
  options.handling = row.handling;
  options.copy_limit = row.copy_limit;
  options.window = row.window;
  options.ack_threshold = row.ack_threshold;
  options.combine = row.combine;
  options.rendezvous = row.rendezvous;
  options.messages = row.rendezvous != kCopyAll;
  options.route = kRoutePure;
  options.combine_timer = 1;
  options.combine_us = kPaperTimerUs;
  options.strict_window = 1;
  options.join = options.pack = options.redirect = options.registration_cache = 0;
}

// False if the text is not a number of this unit.
bool parse(const char* text, Unit unit, std::uint64_t* value) {
  if (unit == Unit::kBytes && strcmp(text, "all") == 0) {
    *value = ~0ull;
    return true;
  }
  if (unit == Unit::kRoute) {
    const auto* const name = std::find_if(std::begin(kRoutes), std::end(kRoutes),
                                          [text](const char* each) { return strcmp(each, text) == 0; });
    *value = static_cast<std::uint64_t>(name - kRoutes);
    return name != std::end(kRoutes);
  }
  if (*text < '0' || *text > '9') return false;
  char* end = nullptr;
  errno = 0;
  std::uint64_t number = strtoull(text, &end, 10);
  if (errno != 0) return false;
  if (unit == Unit::kBytes && *end != '\0') {
    const char* const suffixes = "kMG";
    const char* const suffix = strchr(suffixes, *end);
    if (suffix == nullptr) return false;
    const int shift = 10 * static_cast<int>(suffix - suffixes + 1);
    if (number > (~0ull >> shift)) return false;
    number <<= shift;
    ++end;
  }
  *value = number;
  return *end == '\0';
}

void describe_refusal(char* message, std::size_t room, const char* variable, const char* given, Unit unit,
                      std::uint64_t least, std::uint64_t most, std::uint64_t used) {
  if (unit == Unit::kRoute) {
    snprintf(message, room, "%s=%.40s: not auto, lane, kernel or pure; %s is used", variable, given, kRoutes[used]);
    return;
  }
  snprintf(message, room, "%s=%.40s: not a number from %" PRIu64 " to %" PRIu64 "; %" PRIu64 " is used", variable, given,
           least, most, used);
}

// The variables for this library and for VIPL, each as "NAME=VALUE". Never destroyed.
using Variables = std::vector<std::string>;

const Variables& variables() {
  return once([]() -> const Variables& {
    auto& kept = *new Variables;
    if (getauxval(AT_SECURE) != 0 || environ == nullptr) return kept;
    for (const char* const* each = environ; *each != nullptr; ++each) {
      if (strncmp(*each, "SOVIA_", 6) == 0 || strncmp(*each, "VIADUCT_", 8) == 0) kept.emplace_back(*each);
    }
    return kept;
  });
}

}  // namespace

const char* kept_variable(const char* variable) {
  const std::size_t bytes = strlen(variable);
  for (const std::string& each : variables()) {
    if (each.compare(0, bytes, variable) == 0 && each[bytes] == '=') return each.c_str() + bytes + 1;
  }
  return nullptr;
}

namespace {

// The identity of descriptor 2 when the library was loaded. A program may have closed descriptor 2 since, and opened a
// data file there.
struct stat g_stderr;
bool g_has_stderr = false;

// Nothing may be written if descriptor 2 is a socket: daemons that a superserver starts have their connection there.
bool may_use_stderr() {
  struct stat now;
  return g_has_stderr && ::fstat(STDERR_FILENO, &now) == 0 && !S_ISSOCK(now.st_mode) &&
         now.st_dev == g_stderr.st_dev && now.st_ino == g_stderr.st_ino;
}

// Writes by the system call, past all functions of this name that a program or this library has put before the C
// library's.
void write_line(int descriptor, const char* line, std::size_t bytes) {
  (void)syscall(SYS_write, descriptor, line, bytes);
}

// Opens the file at a high descriptor, as programs count on getting the low ones.
int open_debug_file(const char* path) {
  const int low = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (low < 0) return -1;
  const int high = static_cast<int>(syscall(SYS_fcntl, low, F_DUPFD_CLOEXEC, 900));
  if (high < 0) return low;
  libc::prepare();
  libc::close(low);
  return high;
}

void prepare_debugging() {
  const char* const value = kept_variable("SOVIA_DEBUG");
  if (value == nullptr || *value == '\0' || strcmp(value, "0") == 0) return;
  if (strcmp(value, "1") == 0) {
    g_debugging = may_use_stderr();
    return;
  }
  g_debug_descriptor = open_debug_file(value);
  g_debugging = g_debug_descriptor >= 0;
  if (!g_debugging) tell_on_stderr("SOVIA_DEBUG: the file can't be opened");
}

Options read_all() {
  const int saved = errno;
  prepare_debugging();
  const Options read = read_options(kept_variable, tell_on_stderr);
  errno = saved;
  return read;
}

}  // namespace

void tell_on_stderr(const char* message) {
  if (!may_use_stderr()) return;
  char line[512];
  const int bytes = snprintf(line, sizeof line, "sovia: %s\n", message);
  if (bytes > 0) write_line(STDERR_FILENO, line, strnlen(line, sizeof line));
}

Options read_options(const char* (*environment)(const char* variable),
                     void (*complain)(const char* message)) {
  Options read;
  char message[200];

  if (const char* const name = environment("SOVIA_CONFIG"); name != nullptr && *name != '\0') {
    for (const Row& row : kRows) {
      if (strcmp(row.name, name) == 0) take(row, read);
    }
    if (*read.config == '\0') {
      snprintf(message, sizeof message, "SOVIA_CONFIG=%.40s: no such configuration; see sovia(7)",
               name);
      complain(message);
    }
  }

#define SOVIA_OPTION(member, variable, value, least, most, unit, text)                            \
  if (const char* const given = environment(variable); given != nullptr && *given != '\0') {      \
    std::uint64_t number = 0;                                                                     \
    if (parse(given, Unit::unit, &number) && number - least <= most - least) {                    \
      read.member = number;                                                                       \
    } else {                                                                                      \
      describe_refusal(message, sizeof message, variable, given, Unit::unit, least, most, read.member); \
      complain(message);                                                                          \
    }                                                                                             \
  }
  SOVIA_OPTIONS(SOVIA_OPTION)
#undef SOVIA_OPTION

  if (read.ack_threshold > read.window) read.ack_threshold = read.window;
  return read;
}

void keep_environment() {
  variables();
  g_has_stderr = ::fstat(STDERR_FILENO, &g_stderr) == 0;
}

const Options& options() {
  return once([]() -> const Options& { return *new Options(read_all()); });
}

void write_debug(const char* format, ...) {
  const int saved = errno;
  char line[400];
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  int used = snprintf(line, sizeof line, "sovia[%d] %lld.%03ld: ", static_cast<int>(getpid()),
                      static_cast<long long>(now.tv_sec), now.tv_nsec / 1'000'000);
  va_list arguments;
  va_start(arguments, format);
  used += vsnprintf(line + used, sizeof line - static_cast<std::size_t>(used) - 1, format, arguments);
  va_end(arguments);
  std::size_t bytes = strnlen(line, sizeof line - 1);
  line[bytes++] = '\n';
  if (g_debug_descriptor != STDERR_FILENO || may_use_stderr()) {
    write_line(g_debug_descriptor, line, bytes);
  }
  errno = saved;
}

}  // namespace viaduct::sovia
