#include "tests/sim/world/failure.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace viaduct::sim {

Current current;
bool verbose = false;

namespace {

char less_text[512];  // made before anything can go wrong

// Of what a signal handler may do, and used by all others as well.
void say_how_to_repeat(const char* what) {
  char text[1536];
  const int n = std::snprintf(text, sizeof text,
                              "not ok: %s, seed %llu: %s at %llu.%06llu s\n"
                              "run again: %s --seed %llu --workload %s%s%s --verbose\n",
                              current.workload, static_cast<unsigned long long>(current.seed), what,
                              static_cast<unsigned long long>(current.now / 1'000'000'000),
                              static_cast<unsigned long long>(current.now / 1'000 % 1'000'000),
                              current.program, static_cast<unsigned long long>(current.seed),
                              current.workload, less_text[0] != 0 ? " --less " : "", less_text);
  std::fflush(stdout);
  if (n > 0)
    static_cast<void>(
        !write(STDOUT_FILENO, text, std::min(static_cast<std::size_t>(n), sizeof text - 1)));
}

void on_signal(int number) {
  say_how_to_repeat(number == SIGVTALRM ? "does not end" : strsignal(number));
  _exit(1);
}

}  // namespace

void fail(const char* format, ...) {
  char what[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  char line[1024];
  std::snprintf(line, sizeof line, "%s", what);
  say_how_to_repeat(line);
  _exit(1);
}

void tell(const char* format, ...) {
  if (!verbose) return;
  std::printf("%11.6f  ", static_cast<double>(current.now) / 1e9);
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
}

void catch_crashes() {
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGVTALRM}) {
    std::signal(number, on_signal);
  }
}

void begin_seed(std::uint64_t seed, const char* workload, unsigned seconds) {
  current.seed = seed;
  current.workload = workload;
  std::snprintf(less_text, sizeof less_text, "%s", text_of(current.less).c_str());
  const itimerval limit{{0, 0}, {static_cast<time_t>(seconds), 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

}  // namespace viaduct::sim
